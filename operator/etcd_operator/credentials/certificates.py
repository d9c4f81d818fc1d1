"""Looks at the Secrets with a cluster's certificates, and keeps what the operator presents to etcd.

The operator's own Secrets are in the store, a user's are read (`provided.py`). What cert-manager
writes is looked at before it is copied into one of the operator's (`issued.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.serialization import Encoding

from etcd_operator.credentials import checking
from etcd_operator.credentials.authorities import digest
from etcd_operator.credentials.checking import Examined
from etcd_operator.credentials.issued import IssuedLook, IssuedObjects, other_issuer
from etcd_operator.credentials.pem import certificates
from etcd_operator.credentials.provided import ProvidedSecrets
from etcd_operator.etcd.api import Identity
from etcd_operator.kube.api import SECRETS, Json, Key, Kubernetes
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.name_changes import Mark
from etcd_operator.objects import reading
from etcd_operator.objects.reading import contents
from etcd_operator.tasks import together
from etcd_operator.timestamps import rfc3339, seconds
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import (
    OPERATOR_FILES,
    CertificateSpec,
    as_issued,
    issued,
    managed,
)
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import rotation, tls_switch
from etcd_stateful.membership.tls.certificates import provided_needs
from etcd_stateful.metadata import annotations_of
from etcd_stateful.observed.certificates import Certificate, Certificates, Issued
from etcd_stateful.observed.objects import Foreign


class CertificateLook:
    def __init__(
        self,
        kube: Kubernetes,
        finder: Finder,
        *,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
        mark: Mark,
    ) -> None:
        self._secrets = ProvidedSecrets(kube, clock, mark)
        self._issued = IssuedLook(kube, finder, clock, mark)
        self._finder = finder
        self._wall_clock = wall_clock
        self._examined: dict[Key, dict[CertificateSpec, tuple[str, Examined]]] = {}
        self._identities: dict[Key, Identity] = {}

    def forget(self, key: Key) -> None:
        self._secrets.forget(key)
        self._issued.forget(key)
        for memory in (self._examined, self._identities):
            memory.pop(key, None)

    def identity(self, cluster: EtcdCluster) -> Identity | None:
        """What the operator presents to etcd, as of the last look; None if nothing is usable."""
        return self._identities.get(cluster.key)

    async def onto(self, base: Observation) -> Observation:
        """The observation with the certificates that exist, and with Secrets of other owners."""
        cluster = base.cluster
        to_come = replace(base, cluster=replace(cluster, links=tls_switch.next_links(base)))
        if cluster.links.are_plaintext and to_come.cluster.links.are_plaintext:
            self.forget(cluster.key)
            return replace(base, certificates=Certificates(self._wall_clock()))
        ours, theirs = (*managed(cluster), *issued(cluster)), _of_users(base, to_come)
        made = await self._issued.look(cluster)
        self._secrets.keep(cluster, {need.secret for need in theirs})
        not_yet_ours = [one for one in managed(to_come.cluster) if one not in ours]
        taken = await self._taken(cluster, not_yet_ours)
        raws = await self._read(cluster, ours, theirs)
        now = self._wall_clock()
        foreign = {
            need: other
            for need in ours
            if need in raws and (other := reading.foreign(cluster, "Secret", raws[need]))
        }
        own = {need: raw for need, raw in raws.items() if need not in foreign}
        known = Certificates(
            now,
            self._judged(cluster, own, theirs, now),
            taken=taken,
            issued=self._made(cluster, made, now),
            why_not_asked=made.missing,
        )
        others = (*base.foreign, *made.foreign, *foreign.values())
        return rotation.with_trust(replace(base, certificates=known, foreign=others))

    async def _read(
        self,
        cluster: EtcdCluster,
        ours: Sequence[CertificateSpec],
        theirs: Sequence[CertificateSpec],
    ) -> dict[CertificateSpec, Json]:
        """The Secrets that exist: the operator's own, and those of users."""
        raws = await together(
            *(self._finder.find(SECRETS, cluster.namespace, need.secret) for need in ours),
            *(self._secrets.read(cluster, need.secret) for need in theirs),
        )
        return {
            need: raw for need, raw in zip((*ours, *theirs), raws, strict=True) if raw is not None
        }

    def _judged(
        self,
        cluster: EtcdCluster,
        raws: Mapping[CertificateSpec, Json],
        theirs: Sequence[CertificateSpec],
        now: float,
    ) -> dict[str, dict[str, Certificate]]:
        """The certificates in these Secrets, by Secret and role, each with what is wrong with it.
        Keeps the operator's identity, and has bad Secrets of users read again soon."""
        found = {need: self._certificate(cluster, need, raw, now) for need, raw in raws.items()}
        good: dict[str, Json] = {
            need.role: raws[need] for need, one in found.items() if not one.problem
        }
        servers = next((one.authority for need, one in found.items() if need.role == "server"), "")
        self._keep_identity(cluster, good.get("operator"), servers, now)
        for need, problem in self._untrusted(cluster, theirs, good, now):
            found[need] = replace(found[need], problem=problem)
            del good[need.role]
        self._secrets.read_soon(cluster, {need.secret for need in theirs if need.role not in good})
        judged: dict[str, dict[str, Certificate]] = {}
        for need, one in found.items():
            judged.setdefault(need.secret, {})[need.role] = one
        return judged

    async def _taken(
        self, cluster: EtcdCluster, needs: list[CertificateSpec]
    ) -> tuple[Foreign, ...]:
        """Secrets of other owners under names that will be needed."""
        names = sorted({need.secret for need in needs})
        found = await self._finder.find_all(SECRETS, cluster.namespace, names)
        return tuple(filter(None, (reading.foreign(cluster, "Secret", one) for one in found)))

    def _made(self, cluster: EtcdCluster, look: IssuedObjects, now: float) -> dict[str, Issued]:
        """What cert-manager has made of each Certificate."""
        made = {}
        for need in map(as_issued, issued(cluster)):
            link = cluster.links.of(need.link)
            found = None
            if (raw := look.secrets.get(need.secret)) is not None:
                found = self._certificate(cluster, need, raw, now)
                if other := other_issuer(raw, link.issuer):
                    found = replace(found, problem=other)
            made[need.secret] = Issued(look.certificates.get(need.secret), found)
        return made

    def _untrusted(
        self,
        cluster: EtcdCluster,
        theirs: Sequence[CertificateSpec],
        good: Mapping[str, Json],
        now: float,
    ) -> list[tuple[CertificateSpec, str]]:
        """Certificates that are good by themselves, but not by the authorities that the other end
        of the link uses: members have one Secret, and the operator has another."""
        client = {need.role: need for need in theirs if need.role in good and need.role != "peer"}
        if len(client) < 2:
            return []
        server, operator = client["server"], client["operator"]
        found = []
        for need, other in ((server, operator), (operator, server)):
            examined = self._beside(cluster, need, good[need.role], other, good[other.role])
            if problem := checking.problem_at(examined, now):
                found.append((need, problem))
        return found

    def _beside(
        self,
        cluster: EtcdCluster,
        need: CertificateSpec,
        raw: Json,
        other: CertificateSpec,
        other_raw: Json,
    ) -> Examined:
        seen = checking.with_authority_of(need, other)

        def data() -> dict[str, bytes]:
            bundle = contents(other_raw)[other.files.authority]
            return {**contents(raw), seen.files.authority: bundle}

        return self._examine(cluster, seen, f"{_version(raw)} {_version(other_raw)}", data)

    def _examine(
        self,
        cluster: EtcdCluster,
        need: CertificateSpec,
        version: str,
        data: Callable[[], dict[str, bytes]],
    ) -> Examined:
        known = self._examined.setdefault(cluster.key, {})
        if need not in known or known[need][0] != version:
            known[need] = (version, checking.examine(need, data()))
        return known[need][1]

    def _certificate(
        self, cluster: EtcdCluster, need: CertificateSpec, raw: Json, now: float
    ) -> Certificate:
        version = _version(raw)
        examined = self._examine(cluster, need, version, lambda: contents(raw))
        own = examined.certificate
        return Certificate(
            version,
            checking.problem_at(examined, now),
            own.begins,
            examined.ends,
            until=rfc3339(examined.ends) if examined.ends else "",
            changes_at=checking.changes_at(examined, now),
            authority=examined.digest,
            subject=examined.subject,
            signers=examined.signers,
            authorities=examined.authorities,
            trusts=examined.trusts,
            pinned=examined.pinned,
            kept=examined.kept,
            leaf=examined.leaf,
            written=_written(raw),
            stage=examined.stage,
            generation=examined.generation,
            successors_problem=checking.successors_problem_at(examined, now),
        )

    def _keep_identity(
        self, cluster: EtcdCluster, raw: Json | None, servers: str, now: float
    ) -> None:
        """Keeps what the operator presents to etcd, from this Secret.

        Args:
            servers: digest of the authority that has signed the members' certificate.
        """
        key = cluster.key
        if raw is None or not cluster.links.client.is_encrypted:
            self._identities.pop(key, None)
            return
        data, files = contents(raw), OPERATOR_FILES
        authority = _for_grpc(data[files.authority], servers, now)
        self._identities[key] = Identity(authority, data[files.certificate], data[files.key])


def _of_users(base: Observation, to_come: Observation) -> tuple[CertificateSpec, ...]:
    """What users provide. It is looked at before anything is changed to need it."""
    now = provided_needs(base)
    return (*now, *(one for one in provided_needs(to_come) if one not in now))


def _for_grpc(bundle: bytes, servers: str, now: float) -> bytes:
    """The authorities that are valid, the members' first. Of several with one name gRPC's TLS tries
    only the first, unless the members' certificate tells them apart; Go's tries all."""
    if bundle.count(b"-----BEGIN ") < 2:
        return bundle  # as in most passes: nothing to parse
    every = certificates(bundle)
    if len(every) < 2:
        return bundle
    valid = [one for one in every if now < one.not_valid_after_utc.timestamp()]
    valid.sort(key=lambda one: digest(one) != servers)
    return b"".join(one.public_bytes(Encoding.PEM) for one in valid)


def _version(raw: Json) -> str:
    return str(raw["metadata"]["resourceVersion"])


def _written(raw: Json) -> float:
    return seconds(annotations_of(raw).get(naming.WRITTEN)) or 0.0
