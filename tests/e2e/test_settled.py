"""A settled cluster costs the API server no write, and no read but watches and the Lease.

This includes a user's Secrets, although the operator does not watch their contents.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest
from harness.api import BUDGETS, SECRETS, STATEFUL_SETS, ApiError, Json
from harness.audit import Audit, Entry, in_words
from harness.authority import Authority
from harness.clusters import Cluster, is_up
from harness.place import Place
from harness.waiting import eventually

pytestmark = pytest.mark.alone

SECONDS = 45
"""The benchmarks look for ten minutes."""

UNREAD_SECONDS = 40
"""Longer than Secrets of a user are left alone where nobody tells of their changes."""

AT_ONCE_SECONDS = 5
"""Told of, not found by looking again. On a busy machine each look at a pod takes seconds."""

BEGIN_SECONDS = 3
"""What was read before its changes were listened to is read once more."""

COUNTS = {
    STATEFUL_SETS: ("replicas", "readyReplicas", "availableReplicas"),
    BUDGETS: ("expectedPods", "currentHealthy"),
}


def test_a_settled_cluster_costs_no_requests(place: Place, audit: Audit):
    cluster = place.declare(size=3).comes_up()
    eventually("Kubernetes has counted the members", lambda: counted(cluster))
    before, leader = resource_versions(place), led_by(cluster)
    quiet = Audit(audit.path)

    time.sleep(SECONDS)

    after, leads = resource_versions(place), led_by(cluster)
    asked = [one for one in quiet.entries(place.operator.user) if one["verb"] != "watch"]
    ours = [in_words(one) for one in asked if namespace_of(one) == place.namespace]
    if leads != leader:
        # An election of etcd's own is news, once: the status names who leads.
        ours.remove("patch etcdclusters/status")
        before["EtcdCluster"] = after["EtcdCluster"]
    assert ours == []
    # Whatever is not in a namespace serves the whole fleet: the resync, one LIST per resource.
    fleet = Counter(in_words(one) for one in asked if not namespace_of(one))
    assert all(one.startswith("list ") and count == 1 for one, count in fleet.items()), fleet
    assert after == before
    cluster.comes_up(seconds=1)


@pytest.mark.verify
def test_a_users_secrets_are_read_only_when_they_change(place: Place, audit: Audit):
    home = f"etcd.{place.namespace}.svc"
    peers = Authority().secret("peers", "peer", f"*.{home}", f"*.{home}.cluster.local")
    root = {"metadata": {"name": "root"}, "stringData": {"password": "r-1"}}
    for secret in (peers, root):
        place.kube.create(SECRETS, secret, place.namespace)
    static, auth = {"member": {"peerSecret": "peers"}}, {"rootSecret": {"name": "root"}}
    cluster = place.declare(size=1, TLS={"static": static}, auth=auth)
    guarded(cluster, seconds=60)
    time.sleep(BEGIN_SECONDS)
    quiet = Audit(audit.path)

    time.sleep(UNREAD_SECONDS)

    assert asked(place, quiet) == []
    place.kube.patch(SECRETS, place.namespace, "root", {"stringData": {"password": "r-2"}})
    eventually("root has its new password", lambda: logs_in(place, "r-2"), seconds=AT_ONCE_SECONDS)
    # Before the password is sent, the record and the password are read anew.
    assert secrets_read(place, quiet) == ["root", "etcd-start", "root"]
    cluster.change(auth=None)
    cluster.comes_up()


def counted(cluster: Cluster) -> bool:
    """Whether Kubernetes' own controllers have reported all members, a moment after the pods."""
    size = cluster.body()["spec"]["size"]
    return all(
        says(cluster.get(kind, cluster.name), dict.fromkeys(counts, size))
        for kind, counts in COUNTS.items()
    )


def says(one: Json, counts: dict[str, int]) -> bool:
    """For its newest generation."""
    wanted = {"observedGeneration": one["metadata"]["generation"], **counts}
    return wanted.items() <= one.get("status", {}).items()


def led_by(cluster: Cluster) -> list[str]:
    """By the word of the status, which may name one later than etcd does."""
    return [one["name"] for one in cluster.status()["memberStatus"] if one["role"] == "leader"]


def guarded(cluster: Cluster, seconds: float) -> None:
    eventually(
        "it is up, with authentication",
        lambda: cluster.body() or {},
        lambda body: is_up(body) and body["status"].get("auth", {}).get("enabled"),
        seconds,
    )


def logs_in(place: Place, password: str) -> bool:
    """In a pod, whose environment names the member's certificate."""
    run = ("exec", "etcd-0", "-c", "etcd", "--", "etcdctl", "--command-timeout=25s", "get", "x")
    try:
        place.kube.kubectl("-n", place.namespace, *run, "--user", f"root:{password}")
    except ApiError:
        return False
    return True


def asked(place: Place, audit: Audit) -> list[str]:
    """What the operator has asked for in this namespace, beside watches."""
    return [in_words(one) for one in entries(place, audit)]


def secrets_read(place: Place, audit: Audit) -> list[str]:
    """The names of the Secrets that the operator has read in this namespace, in that order."""
    read = (one for one in entries(place, audit) if in_words(one) == "get secrets")
    return [one["objectRef"]["name"] for one in read]


def entries(place: Place, audit: Audit) -> list[Entry]:
    """What the operator has asked for in this namespace, beside watches."""
    ours = audit.entries(place.operator.user)
    return [one for one in ours if namespace_of(one) == place.namespace and one["verb"] != "watch"]


def namespace_of(entry: Entry) -> str:
    return str((entry.get("objectRef") or {}).get("namespace", ""))


def resource_versions(place: Place) -> dict[str, str]:
    """Of the cluster and everything it owns."""
    cluster = place.cluster()
    owned = {**cluster.children(), **cluster.claims(), "EtcdCluster": cluster.body()}
    return {name: one["metadata"]["resourceVersion"] for name, one in owned.items() if one}
