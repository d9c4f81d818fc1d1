"""etcd users and roles are added, changed and removed in a running cluster."""

from __future__ import annotations

import pytest
from harness import backups, machines
from harness.api import SECRETS, ApiError
from harness.membership import lose_two
from harness.place import Place
from harness.users import AUTH, etcdctl, password, settled
from harness.waiting import eventually

pytestmark = pytest.mark.usefixtures("local_node")

SOON = 30
"""Less than a round: whatever the operator hears of, it does not wait for one."""

ROUND = 60
"""In which the operator looks at a settled cluster, and at Secrets without its label."""


def is_refused(place: Place, *words: str, member: str = "etcd-0") -> bool:
    try:
        etcdctl(place, *words, member=member)
    except ApiError as error:
        if "permission denied" in str(error) or "invalid user ID" in str(error):
            return True
        raise
    return False


@pytest.mark.timeout(600)
def test_a_cluster_with_users_grows_and_is_backed_up_and_stays_protected(place: Place):
    """It is turned on, used, grown, backed up, turned off by hand, and turned off by the spec."""
    cluster = place.declare(size=1).comes_up()
    before = cluster.pod_uids()
    etcdctl(place, "put", "/web/greeting", "hello")
    etcdctl(place, "put", "/other", "not for the web")

    cluster.change(auth=AUTH)
    cluster.holds("AuthSecretUnusable", "Secret root", "does not exist", "Secret web", seconds=SOON)
    assert etcdctl(place, "get", "/other", "--print-value-only") == "not for the web"
    password(place, "root", "r-1")
    password(place, "web", "w-1")
    settled(cluster, "authentication is on", enabled=True, seconds=SOON)

    assert is_refused(place, "get", "/web/greeting")
    assert is_refused(place, "--user", "web:wrong", "get", "/web/greeting")
    mine = ("--user", "web:w-1")
    assert etcdctl(place, *mine, "get", "/web/greeting", "--print-value-only") == "hello"
    etcdctl(place, *mine, "put", "/web/greeting", "again")
    assert is_refused(place, *mine, "get", "/other")
    assert is_refused(place, *mine, "put", "/other", "x")
    assert cluster.pod_uids() == before

    cluster.scale(2)
    backups.claim(place, "backups")
    settled(cluster, "it has grown", enabled=True, seconds=90)
    made = backups.declare(
        place,
        "guarded",
        clusterRef={"name": "etcd"},
        storageType="Volume",
        volume={"claimName": "backups", "path": "etcd.db"},
        verify="Restore",
    ).succeeds(seconds=120)
    assert made["etcdRevision"] > 1

    etcdctl(place, "--user", "root:r-1", "auth", "disable")
    for name, text in (("web", "w-2"), ("root", "r-2")):
        place.kube.patch(SECRETS, place.namespace, name, {"stringData": {"password": text}})
    # While it is off, and until the passwords are set, those before still open it.
    eventually("it is on again", lambda: is_refused(place, "get", "/web/greeting"), seconds=ROUND)
    eventually(
        "an Event tells of it",
        lambda: [one for one in cluster.events() if "turned on again" in one["message"]],
    )
    eventually(
        "the old password is refused",
        lambda: is_refused(place, "--user", "web:w-1", "get", "/web/greeting"),
        seconds=ROUND,
        every=1,
    )
    new = ("--user", "web:w-2", "get", "/web/greeting", "--print-value-only")
    assert etcdctl(place, *new) == "again"
    eventually(
        "root has its new password",
        lambda: not is_refused(place, "--user", "root:r-2", "get", "/other"),
        seconds=SOON,
    )

    cluster.change(auth=None)
    settled(cluster, "authentication is off", enabled=False, seconds=SOON)
    assert etcdctl(place, "get", "/other", "--print-value-only") == "not for the web"
    assert etcdctl(place, "user", "list") == etcdctl(place, "role", "list") == ""


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_a_cluster_with_users_recovers_from_its_survivor(place: Place):
    """Without a quorum nobody can log in; the operator still sees who is furthest on."""
    place.may_lose |= {"data-etcd-0", "data-etcd-2"}
    for name, text in (("root", "r-1"), ("web", "w-1")):
        password(place, name, text)
    cluster = place.declare(size=3, auth=AUTH)
    settled(cluster, "it is born with users", enabled=True, seconds=90)
    etcdctl(place, "--user", "web:w-1", "put", "/web/greeting", "hello")

    lose_two(cluster)
    cluster.holds("QuorumLost", "etcd-0", "etcd-2", "spec.recovery", seconds=ROUND)
    asked = {"survivor": "etcd-1", "clusterID": cluster.status()["clusterID"], "epoch": 1}
    cluster.change(recovery=asked)
    eventually("it is of the next epoch", cluster.status, lambda now: now["epoch"] == 2, 120)
    settled(cluster, "it is whole again", enabled=True, seconds=120)

    read = ("--user", "web:w-1", "get", "/web/greeting", "--print-value-only")
    assert etcdctl(place, *read) == "hello"
    assert is_refused(place, "get", "/web/greeting")
    cluster.change(auth=None, recovery=None)
    settled(cluster, "authentication is off", enabled=False, seconds=ROUND)


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_who_is_to_lose_access_loses_it_while_a_node_is_off(place: Place, three_nodes: None):
    """A quorum is enough for it. They kept it for as long as the member was away."""
    guest = {"name": "guest", "secret": {"name": "guest"}, "roles": ["web"]}
    for name, text in (("root", "r-1"), ("web", "leaked"), ("guest", "g-1")):
        password(place, name, text)
    both = {**AUTH, "users": [*AUTH["users"], guest]}
    cluster = place.declare(size=3, auth=both, pod={"antiAffinity": True})
    settled(cluster, "it is born with users", enabled=True, seconds=90)
    ordinal, node = machines.expendable(place, cluster)
    here = f"etcd-{(ordinal + 1) % 3}"

    def opens(user: str) -> bool:
        return not is_refused(place, "--user", user, "get", "/web/greeting", member=here)

    assert opens("web:leaked")
    assert opens("guest:g-1")
    machines.power_off(node)
    eventually(
        "a member is away",
        lambda: cluster.condition("Degraded"),
        lambda found: f"etcd-{ordinal}" in found["message"],
        seconds=ROUND,
    )

    place.kube.patch(SECRETS, place.namespace, "web", {"stringData": {"password": "w-2"}})
    cluster.change(auth=AUTH)

    eventually("the guest is gone", lambda: not opens("guest:g-1"), seconds=SOON, every=1)
    eventually("the leak is closed", lambda: not opens("web:leaked"), seconds=ROUND, every=1)
    assert opens("web:w-2")
    machines.power_on(place.kube)
    settled(cluster, "all members are back", enabled=True, seconds=90)
    cluster.change(auth=None)
    settled(cluster, "authentication is off", enabled=False, seconds=SOON)
