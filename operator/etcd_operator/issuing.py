"""Puts keys and certificates into their Secrets.

The key of an authority is read for signing and held for no longer. A key is drawn anew for each
certificate; nothing of it is logged or leaves the Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from etcd_operator import checking, reading
from etcd_operator.applied import Done, Outdated
from etcd_operator.finder import Finder
from etcd_operator.kube import SECRETS, Conflict, Json, Kubernetes
from etcd_operator.moments import rfc3339
from etcd_operator.signing import CannotSign, make
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.secret import certificate_secret
from etcd_stateful.membership.steps import IssueCertificate


async def issue(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: IssueCertificate, now: float
) -> Done | Outdated:
    """Raises KubeError of the kinds Rejected and Unavailable."""
    need = step.need
    authority = finder.known(SECRETS, cluster.namespace, need.signed_by) if need.signed_by else None
    if authority is not None and reading.foreign(cluster, "Secret", authority):
        return Outdated(f"Secret {need.signed_by} is another owner's now")
    try:
        files = make(need, contents(authority) if authority else {}, now)
    except CannotSign as error:
        return Outdated(str(error))
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    try:
        if step.resource_version:
            version = {"resourceVersion": step.resource_version}
            patch: Json = {"metadata": version, "data": data}
            written = await kube.merge_patch(SECRETS, cluster.namespace, need.secret, patch)
        else:
            written = await kube.create(SECRETS, certificate_secret(cluster, need, data))
    except Conflict as error:
        await finder.read(SECRETS, cluster.namespace, need.secret)
        return Outdated(f"Secret {need.secret} has changed in between: {error}")
    finder.take(SECRETS, written)
    ends = rfc3339(checking.examine(need, files).certificate.ends)
    words = f"wrote a certificate that is good until {ends} into Secret {need.secret}"
    return Done(words, created=not step.resource_version)


def contents(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """A Secret's data; what is no base64 is left out."""
    found = {}
    for key, text in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(text, validate=True)
        except (ValueError, TypeError):
            continue
    return found
