"""The quorum is lost for good, and a human decides from whose data the cluster continues."""

from __future__ import annotations

import pytest
from harness import machines
from harness.api import JOBS, NODES, PODS
from harness.clusters import PREFIX, Cluster
from harness.load import under_load
from harness.machines import GATEWAY, node_of
from harness.membership import lose_two, settles
from harness.place import Place
from harness.waiting import eventually, steadily

pytestmark = pytest.mark.alone

WRITES = 100
SAYS_SECONDS = 40
RECOVERS_SECONDS = 120
"""This machine reaches Services by way of it, so it stays up."""


@pytest.mark.timeout(540)
def test_the_survivor_continues_alone_and_members_rejoin(place: Place):
    """Following only the message of the condition, and with the operator killed on the way."""
    place.may_lose |= {"data-etcd-0", "data-etcd-2"}
    place.operator_may_restart = True
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    kept = cluster.claim_uids()["data-etcd-1"]
    with under_load(cluster) as load:  # Its end waits until each member has all that it wrote.
        eventually("much is written", lambda: len(load.history) > WRITES, seconds=30)
    lose_two(cluster)

    needs = f'clusterID "{before.cluster_id}", epoch 1 and the survivor that you choose: etcd-1 ('
    cluster.holds("QuorumLost", "etcd-0", "etcd-2", needs, seconds=SAYS_SECONDS)
    asked = {"survivor": "etcd-1", "clusterID": before.cluster_id, "epoch": 1}
    assert cluster.status()["epoch"] == 1
    cluster.change(recovery={**asked, "epoch": 2})
    cluster.holds("RecoveryRefused", "it names epoch 2", seconds=SAYS_SECONDS)
    steadily("nothing is stopped", lambda: sorted(cluster.pods()), lambda now: len(now) == 3, 3)

    cluster.change(recovery=asked)
    eventually("its Job is there", lambda: cluster.get(JOBS, "etcd-recovery"), bool, seconds=60)
    place.operator.kill()

    eventually(
        "the survivor serves",
        lambda: cluster.member(1).get("any") is None,
        seconds=RECOVERS_SECONDS,
    )
    with under_load(cluster):
        settles(cluster, 3, RECOVERS_SECONDS)
    after = cluster.client.members()
    assert after.cluster_id == before.cluster_id
    assert after.ids["etcd-1"] == before.ids["etcd-1"]
    assert not {after.ids[name] for name in ("etcd-0", "etcd-2")} & set(before.ids.values())
    assert cluster.claim_uids()["data-etcd-1"] == kept
    assert cluster.status()["epoch"] == 2
    assert {epoch_of(claim) for claim in cluster.claims().values()} == {"2"}
    assert cluster.get(JOBS, "etcd-recovery") is None
    # The same words are spent, and the members that joined stay when the survivor restarts.
    assert not cluster.condition("Blocked")
    place.kube.delete(PODS, place.namespace, "etcd-1")
    settles(cluster, 3, 60)
    assert cluster.client.members() == after
    load.check()


@pytest.mark.verify
def test_a_recovery_is_declined_for_good_while_a_quorum_answers(place: Place):
    """It is not kept for the next loss of the quorum, which may be a different one."""
    cluster = place.declare(size=3).comes_up()
    asked = {"survivor": "etcd-1", "clusterID": cluster.status()["clusterID"], "epoch": 1}
    pods = cluster.pod_uids()

    cluster.change(recovery=asked)

    cluster.holds("RecoveryNotNeeded", "remove it", seconds=SAYS_SECONDS)
    assert cluster.condition("Available")["status"] == "True"
    assert cluster.pod_uids() == pods
    assert cluster.record()["declined"] is True
    cluster.change(recovery=None)
    cluster.comes_up()
    assert cluster.record()["declined"] is False
    assert cluster.pod_uids() == pods


@pytest.mark.verify
@pytest.mark.timeout(780)
def test_two_nodes_that_stay_off_are_fenced_by_hand(place: Place, three_nodes: None):
    """Nobody confirms that their pods have stopped. If they come back later, they change
    nothing."""
    place.operator_may_restart = True
    operator_on_the_gateway(place)
    cluster = place.declare(size=3, pod={"antiAffinity": True}).comes_up()
    write(cluster)
    before = cluster.client.members()
    gone = sorted(name for name, pod in cluster.pods().items() if node_of(pod) != GATEWAY)
    [survivor] = {"etcd-0", "etcd-1", "etcd-2"} - set(gone)
    place.may_lose |= {f"data-{name}" for name in gone}
    # One member for each node; those to come find place beside the survivor.
    asked = {"survivor": survivor, "clusterID": before.cluster_id, "epoch": 1}
    cluster.change(pod={"antiAffinity": False}, paused=True)
    for node in {node_of(cluster.pod(int(name[-1]))) for name in gone}:
        machines.power_off(node)

    cluster.change(recovery=asked, paused=False)
    eventually(
        "it is said what keeps it",
        lambda: cluster.status()["plan"],
        lambda plan: all(name in plan for name in gone) and "spec.recovery.fenced" in plan,
        seconds=180,
    )
    assert cluster.record()["epoch"] == 1
    assert len(cluster.pods()) == 3, "stopped, although those on the nodes might serve"
    cluster.change(recovery={**asked, "fenced": gone})

    settles(cluster, 3, RECOVERS_SECONDS)
    assert_all_is_there(cluster)
    after = cluster.client.members()
    assert after.ids[survivor] == before.ids[survivor]
    machines.power_on(place.kube)
    steadily("they are not back", cluster.client.members, lambda now: now == after, seconds=10)
    settles(cluster, 3, RECOVERS_SECONDS)
    assert cluster.client.members() == after


def operator_on_the_gateway(place: Place) -> None:
    others = [node["metadata"]["name"] for node in place.kube.list(NODES)]
    others.remove(GATEWAY)
    for node in others:
        machines.cordon(place.kube, node, on=True)
    place.operator.kill()
    eventually(
        "the operator is on the node that stays",
        place.operator.pods,
        lambda pods: bool(pods) and all(node_of(pod) == GATEWAY for pod in pods),
        seconds=60,
    )
    for node in others:
        machines.cordon(place.kube, node, on=False)


def write(cluster: Cluster) -> None:
    for number in range(WRITES):
        cluster.client.put(f"kept/{number}", str(number))


def assert_all_is_there(cluster: Cluster) -> None:
    missing = [one for one in range(WRITES) if cluster.client.get(f"kept/{one}") != str(one)]
    assert not missing, f"acknowledged writes are gone: {missing}"


def epoch_of(claim: dict) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(f"{PREFIX}/epoch"))
