"""The namespace of one test, with its clusters and the checks after the test."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from harness import keys
from harness.api import CLAIMS, CLUSTERS, NAMESPACES, SECRETS, Kube
from harness.clusters import Cluster
from harness.credentials import Credentials
from harness.invariants import Ledger, check_clusters
from harness.operator import Operator
from harness.reach import Reach

PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
"""`spec.TLS` of the few clusters without TLS. All others have the default."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass
class Place:
    kube: Kube
    reach: Reach
    operator: Operator
    ledger: Ledger
    namespace: str
    began: float = field(default_factory=time.time)
    may_lose: set[str] = field(default_factory=set)
    """Names of claims that the test itself causes to be deleted."""

    operator_may_restart: bool = False
    credentials: Credentials | None = None
    """Credentials of clients, if the test brings its own certificates."""

    _runs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def make(
        cls, kube: Kube, reach: Reach, operator: Operator, ledger: Ledger, purpose: str
    ) -> Place:
        words = re.sub(r"[^a-z0-9]+", "-", purpose.lower()).strip("-")[:40].strip("-")
        name = f"e2e-{words}-{secrets.token_hex(2)}"
        kube.create(NAMESPACES, {"metadata": {"name": name, "labels": RESTRICTED}})
        place = cls(kube, reach, operator, ledger, name)
        place._runs = operator.runs()
        return place

    def cluster(self, name: str = "etcd") -> Cluster:
        return Cluster(self.kube, self.reach, self.namespace, name, self.credentials)

    def declare(self, size: int = 3, name: str = "etcd", **spec: Any) -> Cluster:
        return self.cluster(name).declare(size, **spec)

    def check(self) -> None:
        """Checks the invariants after a test."""
        check_clusters(self.kube, self.reach, self.namespace, self.credentials)
        lost = self.ledger.lost(self.namespace, self.may_lose)
        assert not lost, f"claims with a member's record were deleted: {lost}"
        tracebacks = self.operator.tracebacks(self.began)
        assert not tracebacks, f"the operator's log has tracebacks: {tracebacks}"
        self._check_keys()
        if not self.operator_may_restart:
            restarted = self.operator.restarted(self._runs)
            assert not restarted, f"the operator restarted: {restarted}, before {self._runs}"

    def _check_keys(self) -> None:
        """No key is in a log, an Event, a status, a pod's spec or an annotation."""
        secrets = self.kube.list(SECRETS, self.namespace)
        texts = [*keys.start_keys(secrets), *keys.texts_of(secrets)]
        told = self.operator.log.holding(("PRIVATE KEY", *texts), self.began)
        assert not told, f"the operator's log has keys: {told}"
        told = keys.told(self.kube, self.namespace, texts)
        assert not told, f"keys are in {told}"

    def clear(self, cluster: Cluster) -> None:
        """Deletes a cluster and its claims, without waiting, so that many clusters of one test do
        not run at once."""
        claims = cluster.claims()
        self.may_lose |= set(claims)
        self.kube.delete(CLUSTERS, self.namespace, cluster.name, propagationPolicy="Background")
        for name in claims:
            self.kube.delete(CLAIMS, self.namespace, name)

    def leave(self) -> None:
        """Deletes the namespace without waiting: the next test has its own."""
        self.kube.delete(NAMESPACES, None, self.namespace)
