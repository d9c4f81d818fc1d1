"""Checks that a cluster has its declared size: in etcd's member list, pods, claims and data."""

from __future__ import annotations

from harness.api import CLAIMS, PODS, Json
from harness.clusters import PREFIX, Cluster, is_ready, is_waiting_in_start
from harness.waiting import eventually


def settles(cluster: Cluster, size: int, seconds: float = 60) -> Cluster:
    """Waits until the status says that the cluster is as declared, then checks everything."""
    cluster.comes_up(seconds)
    check_as_declared(cluster, size)
    return cluster


def check_as_declared(cluster: Cluster, size: int) -> None:
    """Checks what holds once nothing is left to do. `invariants.py` checks what always holds."""
    names = [f"{cluster.name}-{ordinal}" for ordinal in range(size)]
    listed = cluster.client.members()
    assert listed.names == names, f"{size} members are declared, etcd lists {listed.names}"
    assert listed.hosts == names, f"the peer URLs lead to {listed.hosts}"
    assert not [one for one in listed.members if one.learner], listed
    assert listed.cluster_id == cluster.record()["clusterID"] == cluster.status()["clusterID"]
    _check_objects(cluster, size, names)
    _check_claims(cluster, names, listed.ids)
    _check_data(cluster, size)


def _check_objects(cluster: Cluster, size: int, names: list[str]) -> None:
    stateful_set = cluster.stateful_set()
    assert stateful_set is not None
    assert stateful_set["spec"]["replicas"] == size
    eventually(
        f"only the pods {names} stay, and are Ready",
        lambda: _staying(cluster),
        lambda found: sorted(found) == names and all(is_ready(pod) for pod in found.values()),
        seconds=10,
    )


def _staying(cluster: Cluster) -> dict[str, Json]:
    """Pods that are not terminating. The StatefulSet controller deletes pods a moment after its
    replicas have changed; and of a pod that has just started a busy kubelet may take back that it
    is Ready, without a failed probe, and say it again a second later."""
    found = cluster.pods()
    return {name: pod for name, pod in found.items() if "deletionTimestamp" not in pod["metadata"]}


def _check_claims(cluster: Cluster, names: list[str], ids: dict[str, str]) -> None:
    """Every recorded claim belongs to a present member, and names it.

    A claim that was made for a member that never started has no record, and is never deleted.
    """
    if cluster.body()["spec"].get("pod", {}).get("emptyDir") is not None:
        assert not cluster.claims()
        return
    recorded = eventually(
        f"only members {names} have claims",
        lambda: _recorded(cluster),
        lambda recorded: sorted(recorded) == [f"data-{name}" for name in names],
        seconds=10,
    )
    for name in names:
        found = recorded[f"data-{name}"]
        assert found == ids[name], f"the claim of {name} says {found}, etcd says {ids[name]}"


def _recorded(cluster: Cluster) -> dict[str, str]:
    """The member ID in the record of each claim that has one."""
    notes = {name: one["metadata"].get("annotations", {}) for name, one in cluster.claims().items()}
    key = f"{PREFIX}/member-id"
    return {name: found[key] for name, found in notes.items() if key in found}


def _check_data(cluster: Cluster, size: int) -> None:
    """All members have the same data, up to a revision that all of them have reached."""
    revision = int(cluster.client.status()["header"]["revision"])

    def hashes() -> set[tuple[int, int]]:
        return {cluster.member(ordinal).hash_at(revision) for ordinal in range(size)}

    eventually("the members' data is the same", hashes, lambda found: len(found) == 1, seconds=10)


def lose_two(cluster: Cluster) -> None:
    """Destroys the data of two members. The cluster is paused meanwhile, or the operator could
    replace the first member before the second one is lost."""
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused")
    for ordinal in (0, 2):
        name = f"{cluster.name}-{ordinal}"
        cluster.kube.delete(CLAIMS, cluster.namespace, f"data-{name}")
        cluster.kube.delete(PODS, cluster.namespace, name, gracePeriodSeconds=0)
    for ordinal in (0, 2):
        eventually(
            f"{cluster.name}-{ordinal} waits on a new volume",
            lambda one=ordinal: is_waiting_in_start(cluster.pod(one)),
            seconds=40,
        )
    cluster.change(paused=False)
