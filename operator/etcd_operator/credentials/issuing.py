"""Writes keys and certificates into their Secrets.

The key of an authority is read only to sign or to move it within its Secret, and is not kept. Each
certificate gets a new key, which is never logged and never leaves the Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Mapping

from etcd_operator.credentials import authorities, checking
from etcd_operator.credentials.signing import CannotSign, make
from etcd_operator.kube.api import (
    SECRETS,
    Conflict,
    Json,
    Kubernetes,
    Rejected,
    Resource,
    namespace_ends,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.objects import reading
from etcd_operator.step_result import Done, Outdated
from etcd_operator.timestamps import rfc3339
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import pinned_in
from etcd_stateful.manifests.secret import certificate_secret
from etcd_stateful.membership.steps import IssueCertificate, RotateAuthority, TakeCertificate


async def carry_out(
    kube: Kubernetes,
    finder: Finder,
    cluster: EtcdCluster,
    step: IssueCertificate | RotateAuthority,
    now: float,
) -> Done | Outdated:
    """Carries out the step; raises the KubeErrors Rejected and Unavailable."""
    if isinstance(step, RotateAuthority):
        return await _rotate(kube, finder, cluster, step, now)
    return await _issue(kube, finder, cluster, step, now)


async def _issue(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: IssueCertificate, now: float
) -> Done | Outdated:
    need = step.need
    above_it = (SECRETS, cluster.namespace, need.signed_by)
    authority = await finder.find(*above_it) if need.signed_by else None
    if authority is not None and reading.foreign(cluster, "Secret", authority):
        return Outdated(f"Secret {need.signed_by} now belongs to another owner")
    try:
        above = reading.contents(authority) if authority else {}
        files = make(need, above, now, step.generation)
    except CannotSign as error:
        return Outdated(str(error))
    if need.signed_by and authorities.signer(above) != step.authority:
        return Outdated(f"Secret {need.signed_by} holds another authority by now")
    return await put(kube, finder, cluster, step, files, "wrote")


async def put(
    kube: Kubernetes,
    finder: Finder,
    cluster: EtcdCluster,
    step: IssueCertificate | TakeCertificate,
    files: Mapping[str, bytes],
    verb: str,
    notes: Mapping[str, str] | None = None,
) -> Done | Outdated:
    """Writes the files into the Secret of the step's resourceVersion, or into a new one.

    Args:
        verb: what was done with the certificate, in the past tense.
        notes: annotations of the Secret.
    """
    need, where = step.need, (SECRETS, cluster.namespace, step.need.secret)
    data, metadata = _encoded(files), {"annotations": dict(notes)} if notes else {}
    if step.resource_version:
        unused = _unused(step, await finder.find(*where) or {})
        metadata |= _exactly(cluster, step)
        patch: Json = {"metadata": metadata, "data": dict.fromkeys(unused) | data}
        writing = kube.merge_patch(*where, patch)
    else:
        manifest = certificate_secret(cluster, need, data)
        manifest["metadata"] |= metadata
        writing = kube.create(SECRETS, manifest)
    if outdated := await _write(finder, where, writing):
        return outdated
    ends = rfc3339(checking.examine(need, files).certificate.ends)
    words = f"{verb} a certificate that is valid until {ends} into Secret {need.secret}"
    return Done(words, created=not step.resource_version)


async def _rotate(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: RotateAuthority, now: float
) -> Done | Outdated:
    name = step.need.secret
    where = (SECRETS, cluster.namespace, name)
    known = await finder.find(*where)
    if known is None:
        return Outdated(f"Secret {name} is gone")
    made = make(step.need, {}, now, step.generation) if step.kind == "begin" else {}
    try:
        turned = authorities.rotated(step.kind, reading.contents(known), step.generation, made)
    except KeyError as error:
        return Outdated(f"Secret {name} lacks {error}")
    data = dict.fromkeys(turned) | _encoded({key: one for key, one in turned.items() if one})
    patch: Json = {"metadata": _exactly(cluster, step), "data": data}
    return await _write(finder, where, kube.merge_patch(*where, patch)) or Done(step.reason)


def _exactly(
    cluster: EtcdCluster, step: IssueCertificate | TakeCertificate | RotateAuthority
) -> Json:
    """Metadata for a patch of exactly the Secret that was looked at. It restores our labels if
    someone removed them: without them no watch shows the Secret."""
    labels = naming.labels(cluster.name)
    return {"resourceVersion": step.resource_version, "labels": labels}


async def _write(
    finder: Finder, where: tuple[Resource, str, str], writing: Awaitable[Json]
) -> Outdated | None:
    """Awaits the write. None if it succeeds; Outdated if the Secret has changed in between, or is
    gone."""
    try:
        finder.take(SECRETS, await writing)
    except (Conflict, Rejected) as error:
        if isinstance(error, Rejected) and (not error.not_found or namespace_ends(error)):
            raise
        await finder.read(*where)
        return Outdated(f"Secret {where[2]} has changed in between: {error}")
    return None


def _unused(step: IssueCertificate | TakeCertificate, known: Json) -> list[str]:
    """The pinned files that no pod mounts any more, or what a rotation has left beside an authority
    that is made anew, because it may be damaged."""
    if step.need.role == "authority":
        return [key for key in authorities.OF_ROTATION if key in (known.get("data") or {})]
    bundle = step.need.files.authority
    found = ((key, pinned_in(bundle, key)) for key in known.get("data") or {})
    return [key for key, trust in found if trust and trust not in step.mounted]


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(one).decode() for key, one in files.items()}
