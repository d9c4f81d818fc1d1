"""Copies what an issuer has made into the Secrets that members and clients mount.

The planner has chosen it by digests, so either exactly what was looked at is written, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from etcd_operator.credentials import checking, issuing
from etcd_operator.credentials.authorities import digest
from etcd_operator.credentials.pem import certificates
from etcd_operator.kube.api import SECRETS, Kubernetes
from etcd_operator.kube.finder import Finder
from etcd_operator.objects.reading import contents
from etcd_operator.step_result import Done, Outdated
from etcd_operator.timestamps import rfc3339
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import CertificateSpec, as_issued, pinned_file, trust_of
from etcd_stateful.membership.steps import TakeCertificate

Held = Mapping[CertificateSpec, Mapping[str, bytes]]
"""The content of the Secrets."""


async def take(
    kube: Kubernetes, finder: Finder, cluster: EtcdCluster, step: TakeCertificate, now: float
) -> Done | Outdated:
    """Carries out the step; raises the KubeErrors Rejected and Unavailable."""
    need = step.need
    held = {}
    for one in step.known_in:
        raw = await finder.find(SECRETS, cluster.namespace, one.secret)
        held[one] = contents(raw) if raw else {}
    files = _files(step, held)
    if files is None or checking.examine(need, files).problem:
        return Outdated(f"what was issued for Secret {need.secret} has changed in between")
    notes = {naming.WRITTEN: rfc3339(now)}
    return await issuing.put(kube, finder, cluster, step, files, "took", notes)


def _files(step: TakeCertificate, held: Held) -> dict[str, bytes] | None:
    """The content of the Secret; None if what was chosen no longer exists."""
    need = step.need
    known = {digest(one): one for it in held for one in _certificates(it.files.authority, held[it])}
    if not set(step.trusts) <= known.keys():
        return None
    bundle = b"".join(known[one].public_bytes(Encoding.PEM) for one in step.trusts)
    for one in (as_issued(need), need):
        data = held.get(one, {})
        found = _certificates(one.files.certificate, data)
        if found and digest(found[0]) == step.leaf and one.files.key in data:
            pinned = pinned_file(need.files.authority, trust_of(step.trusts))
            return {
                need.files.authority: bundle,
                need.files.certificate: data[one.files.certificate],
                need.files.key: data[one.files.key],
                **({pinned: bundle} if need.is_mounted else {}),
            }
    return None


def _certificates(key: str, data: Mapping[str, bytes]) -> Sequence[x509.Certificate]:
    try:
        return certificates(data.get(key, b""))
    except ValueError:
        return ()
