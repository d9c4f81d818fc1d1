"""Looks at the Secrets with a cluster's certificates, and keeps what the operator shows etcd.

Those of ours are in the store, a user's are read at intervals (`provided.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from etcd_operator import checking, reading
from etcd_operator.checking import Examined
from etcd_operator.etcd import Identity
from etcd_operator.finder import Finder
from etcd_operator.issuing import contents
from etcd_operator.kube import SECRETS, Json, Key, Kubernetes
from etcd_operator.moments import rfc3339
from etcd_operator.provided import ProvidedSecrets
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import OPERATOR_FILES, Need, managed
from etcd_stateful.membership import rotation
from etcd_stateful.membership.certificates import needed_of_users
from etcd_stateful.membership.observation import Certificate, Certificates, Foreign, Observation


class CertificateLook:
    def __init__(
        self,
        kube: Kubernetes,
        finder: Finder,
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = ProvidedSecrets(kube, clock)
        self._finder = finder
        self._wall_clock = wall_clock
        self._examined: dict[Key, dict[Need, tuple[str, Examined]]] = {}
        self._identities: dict[Key, Identity] = {}

    def forget(self, key: Key) -> None:
        self._secrets.forget(key)
        for memory in (self._examined, self._identities):
            memory.pop(key, None)

    def identity(self, cluster: EtcdCluster) -> Identity | None:
        """What the operator shows etcd, of the last look; None where there is nothing usable."""
        return self._identities.get((cluster.namespace, cluster.name))

    async def onto(self, base: Observation) -> Observation:
        """The observation with the certificates that are there, and whose they are."""
        cluster = base.cluster
        if cluster.links.are_plaintext:
            self.forget((cluster.namespace, cluster.name))
            return replace(base, certificates=Certificates(self._wall_clock()))
        ours, theirs = managed(cluster), needed_of_users(base)
        raws = await asyncio.gather(
            *(self._finder.find(SECRETS, cluster.namespace, need.secret) for need in ours),
            *(self._secrets.read(cluster, need.secret) for need in theirs),
        )
        now = self._wall_clock()
        foreign: list[Foreign] = []
        found: dict[str, dict[str, Certificate]] = {}
        good: dict[str, Json] = {}
        for need, raw in zip((*ours, *theirs), raws, strict=True):
            other = reading.foreign(cluster, "Secret", raw) if raw and need in ours else None
            if other is not None:
                foreign.append(other)
            elif raw is not None:
                one = self._certificate(cluster, need, raw, now)
                found.setdefault(need.secret, {})[need.role] = one
                if not one.problem:
                    good[need.role] = raw
        self._keep_identity(cluster, good.get("operator"))
        self._secrets.spoil(cluster, {need.secret for need in theirs if need.role not in good})
        certificates = Certificates(now, found)
        found_all = replace(base, certificates=certificates, foreign=(*base.foreign, *foreign))
        return rotation.settled(found_all)

    def _certificate(self, cluster: EtcdCluster, need: Need, raw: Json, now: float) -> Certificate:
        version = str(raw["metadata"]["resourceVersion"])
        known = self._examined.setdefault((cluster.namespace, cluster.name), {})
        if need not in known or known[need][0] != version:
            known[need] = (version, checking.examine(need, contents(raw)))
        examined = known[need][1]
        own = examined.certificate
        return Certificate(
            version,
            checking.problem_at(examined, now),
            own.begins,
            own.ends,
            until=rfc3339(own.ends) if own.ends else "",
            authority=examined.digest,
            subject=examined.subject,
            trusts=examined.trusts,
            pinned=examined.pinned,
            stage=examined.stage,
            generation=examined.generation,
        )

    def _keep_identity(self, cluster: EtcdCluster, raw: Json | None) -> None:
        key = (cluster.namespace, cluster.name)
        if raw is None or not cluster.links.client.is_encrypted:
            self._identities.pop(key, None)
            return
        data, files = contents(raw), OPERATOR_FILES
        self._identities[key] = Identity(
            data[files.authority], data[files.certificate], data[files.key]
        )
