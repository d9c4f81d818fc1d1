"""Puts keys and certificates into their Secrets.

The key of an authority is read for signing, or to change its place, and held for no longer. A key
is drawn anew for each certificate; nothing of it is logged or leaves the Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from etcd_operator import authorities, checking, reading
from etcd_operator.applied import Done, Outdated
from etcd_operator.finder import Finder
from etcd_operator.kube import SECRETS, Conflict, Json, Kubernetes
from etcd_operator.moments import rfc3339
from etcd_operator.signing import CannotSign, make
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import pinned_in
from etcd_stateful.manifests.secret import certificate_secret
from etcd_stateful.membership.steps import IssueCertificate, RotateAuthority


async def carry_out(
    kube: Kubernetes,
    finder: Finder,
    cluster: EtcdCluster,
    step: IssueCertificate | RotateAuthority,
    now: float,
) -> Done | Outdated:
    """Raises KubeError of the kinds Rejected and Unavailable."""
    if isinstance(step, RotateAuthority):
        return await _rotate(kube, finder, cluster, step, now)
    return await _issue(kube, finder, cluster, step, now)


async def _issue(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: IssueCertificate, now: float
) -> Done | Outdated:
    need = step.need
    authority = finder.known(SECRETS, cluster.namespace, need.signed_by) if need.signed_by else None
    if authority is not None and reading.foreign(cluster, "Secret", authority):
        return Outdated(f"Secret {need.signed_by} is another owner's now")
    try:
        above = contents(authority) if authority else {}
        files = make(need, above, now, step.generation)
    except CannotSign as error:
        return Outdated(str(error))
    data = {key: text for key, text in _encoded(files).items() if text}
    try:
        if step.resource_version:
            version = {"resourceVersion": step.resource_version}
            known = finder.known(SECRETS, cluster.namespace, need.secret) or {}
            patch: Json = {"metadata": version, "data": _without_unused(step, known) | data}
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


async def _rotate(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: RotateAuthority, now: float
) -> Done | Outdated:
    name, where = step.need.secret, cluster.namespace
    known = finder.known(SECRETS, where, name)
    if known is None:
        return Outdated(f"Secret {name} is gone")
    made = make(step.need, {}, now, step.generation) if step.turn == "begin" else {}
    try:
        data = authorities.turned(step.turn, contents(known), step.generation, made)
    except KeyError as error:
        return Outdated(f"Secret {name} lacks {error}")
    version = {"resourceVersion": step.resource_version}
    patch: Json = {"metadata": version, "data": _encoded(data)}
    try:
        finder.take(SECRETS, await kube.merge_patch(SECRETS, where, name, patch))
    except Conflict as error:
        await finder.read(SECRETS, where, name)
        return Outdated(f"Secret {name} has changed in between: {error}")
    return Done(step.reason)


def _without_unused(step: IssueCertificate, known: Json) -> Json:
    """The files that pods of before had mounted, and none does any more, to be taken out."""
    bundle = step.need.files.authority
    found = ((key, pinned_in(bundle, key)) for key in known.get("data") or {})
    return {key: None for key, trust in found if trust and trust not in step.mounted}


def _encoded(files: Mapping[str, bytes | None]) -> dict[str, str | None]:
    return {key: base64.b64encode(one).decode() if one else None for key, one in files.items()}


def contents(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """A Secret's data; what is no base64 is left out."""
    found = {}
    for key, text in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(text, validate=True)
        except (ValueError, TypeError):
            continue
    return found
