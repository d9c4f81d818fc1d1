"""Checks that must hold after every test.

These are the safety rules of docs/invariants.md, as far as they are visible from outside: every
member on etcd's list has a claim with its record, the cluster ID is the latched one everywhere, no
claim was deleted that should have been kept, and the operator neither crashed nor restarted.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from urllib3.exceptions import HTTPError

from harness.api import BUDGETS, CLAIMS, CLUSTERS, ApiError, Json, Kube
from harness.clusters import PREFIX, Cluster, is_ready
from harness.credentials import Credentials
from harness.etcd import Etcd, Members
from harness.reach import Reach
from harness.waiting import eventually


@dataclass
class Ledger:
    """Every claim with a member's record that has ever existed, by namespace and UID."""

    kube: Kube
    seen: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def lost(self, namespace: str, allowed: set[str]) -> list[str]:
        """Recorded claims that are gone. Fails if the watch has not told of those that are there:
        it would not tell of lost ones either."""
        claims = self.kube.list(CLAIMS, namespace)
        eventually(
            f"the watch tells of the claims of {namespace}",
            lambda: self._untold(namespace, claims),
            lambda untold: not untold,
            seconds=10,
        )
        there = {claim["metadata"]["uid"] for claim in claims}
        known = dict(self.seen[namespace])
        return [name for uid, name in known.items() if uid not in there and name not in allowed]

    def _untold(self, namespace: str, claims: list[Json]) -> list[str]:
        known = self.seen[namespace]
        recorded = (one["metadata"] for one in claims if _is_recorded(one))
        return [one["name"] for one in recorded if one["uid"] not in known]

    def _watch(self) -> None:
        while True:
            try:
                for event in self.kube.watch(CLAIMS):
                    self._take(event["object"])
            except (ApiError, HTTPError, OSError, ValueError, KeyError):
                time.sleep(1)

    def _take(self, claim: Json) -> None:
        metadata = claim["metadata"]
        if _is_recorded(claim):
            self.seen[metadata["namespace"]][metadata["uid"]] = metadata["name"]


def _is_recorded(claim: Json) -> bool:
    return f"{PREFIX}/member-id" in (claim["metadata"].get("annotations") or {})


def check_clusters(
    kube: Kube, reach: Reach, namespace: str, own: Credentials | None = None
) -> None:
    """Checks every cluster of the namespace that has formed."""
    for body in kube.list(CLUSTERS, namespace):
        cluster = Cluster(kube, reach, namespace, body["metadata"]["name"], own)
        if cluster.record().get("latched"):
            _check_formed(cluster)


def _check_formed(cluster: Cluster) -> None:
    latched = cluster.record()["clusterID"]
    serving = sorted(name for name, pod in cluster.pods().items() if is_ready(pod))
    for name in serving:
        own = eventually(f"{name} answers", cluster.member(_ordinal(name)).status, seconds=10)
        assert own["cluster_id"] == latched, f"{name} is of cluster {own['cluster_id']}"
    stored = cluster.status().get("clusterID")
    assert stored in ("", None, latched), f"status says {stored}, the record {latched}"
    if serving:
        first = cluster.member(_ordinal(serving[0]))
        _check_members(cluster, latched, eventually("the member list", first.members, seconds=10))
        eventually("the budget keeps a quorum", lambda: _keeps_quorum(cluster, first), seconds=10)


def _keeps_quorum(cluster: Cluster, member: Etcd) -> bool:
    budget = cluster.get(BUDGETS, cluster.name)
    voters = [one for one in member.members().members if not one.learner]
    return budget is not None and budget["spec"]["minAvailable"] > len(voters) // 2


def _check_members(cluster: Cluster, latched: str, listed: Members) -> None:
    assert listed.cluster_id == latched
    claims, pods = cluster.claims(), cluster.pods()
    stateful_set = cluster.stateful_set()
    if stateful_set is not None:
        replicas = stateful_set["spec"]["replicas"]
        assert replicas >= len(listed.members), f"{replicas} replicas for {listed.names}"
    for member in listed.members:
        assert member.name in pods, f"member {member.name} has no pod; pods are {sorted(pods)}"
        if _is_durable(pods[member.name]):
            claim = claims.get(f"data-{member.name}")
            assert claim is not None, f"member {member.name} has no claim"
            _check_record(cluster, claim, member.member_id, latched)
    extra = [member for member in listed.members if member.learner]
    assert len(extra) <= 1, f"more than one learner: {extra}"


def _check_record(cluster: Cluster, claim: Json, member_id: str, latched: str) -> None:
    """Checks the record on a claim. A claim without a record is new, for a lost volume."""
    name, metadata = claim["metadata"]["name"], claim["metadata"]
    notes = metadata.get("annotations") or {}
    found = {key: notes.get(f"{PREFIX}/{key}") for key in ("member-id", "cluster-id", "claim-uid")}
    if found["member-id"] is None:
        return
    wanted = {"member-id": member_id, "cluster-id": latched, "claim-uid": metadata["uid"]}
    assert found == wanted, f"the record on {name} is {found}, not {wanted}"
    owner = notes.get(f"{PREFIX}/cluster-uid")
    assert owner in (cluster.uid, _adopted(cluster)), f"{name} is recorded for cluster {owner}"


def _adopted(cluster: Cluster) -> str:
    spec = (cluster.body() or {}).get("spec") or {}
    return str((spec.get("retainedClaims") or {}).get("adopt", ""))


def _is_durable(pod: Json) -> bool:
    volumes = pod["spec"].get("volumes", ())
    return any("persistentVolumeClaim" in volume for volume in volumes)


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])
