"""An existing cluster is replaced by a backup in place, under the same names."""

from __future__ import annotations

import pytest
from harness import backups
from harness.api import BACKUPS, CLAIMS, JOBS, PODS, RESTORES, SCHEDULES, Json
from harness.clusters import Cluster, is_waiting_in_start
from harness.load import under_load
from harness.membership import settles
from harness.place import Place
from harness.restores import RESTORED_SECONDS, ask, complete, edit, status, succeeds
from harness.waiting import eventually, steadily
from harness.watcher import watching

from localkube.s3 import S3Server

pytestmark = pytest.mark.usefixtures("local_node")

VERSION = "3.7.3"
SAYS_SECONDS = 40


def revision(cluster: Cluster) -> int:
    return int(cluster.client.status()["header"]["revision"])


@pytest.mark.timeout(690)
@pytest.mark.parametrize("killed", backups.KILLED)
def test_a_valid_backup_replaces_a_running_cluster_and_a_damaged_one_does_not(
    place: Place, s3: S3Server, killed: bool
) -> None:
    place.operator_may_restart = killed
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(4)}
    cluster = place.declare(size=3, version=VERSION).comes_up()
    backups.secret(place, s3)
    for number in range(20):
        cluster.client.put(f"before-{number}", "kept")
    at = backups.s3_place(s3, "mybucket/good")
    backups.declare(place, "b", clusterRef={"name": "etcd"}, storageType="S3", s3=at).succeeds()
    cluster.client.put("after", "given up")
    cluster.client.put("before-0", "overwritten")
    stored = s3.folder / "data" / "mybucket"
    content = bytearray((stored / "good").read_bytes())
    content[len(content) // 2] ^= 1
    (stored / "bad").write_bytes(bytes(content))
    members, claims, last = cluster.client.members(), cluster.claim_uids(), revision(cluster)

    ask(place, backupStorageType="S3", s3=backups.s3_place(s3, "mybucket/bad"))
    held = eventually(
        "it holds and names the ID and the field",
        lambda: complete(place),
        lambda one: one.get("reason") == "ClusterExists",
        seconds=SAYS_SECONDS,
    )
    assert f'set spec.replace.clusterID to "{members.cluster_id}"' in held["message"]

    edit(place, replace={"clusterID": members.cluster_id})
    eventually(
        "a bad backup fails",
        lambda: (status(place).get("succeeded"), status(place).get("reason")),
        lambda said: said[0] is False and "etcd's hash" in said[1],
        seconds=60,
    )
    eventually("nothing is left of it", cluster.claim_uids, lambda now: now == claims, seconds=30)
    assert cluster.client.members().ids == members.ids
    assert cluster.client.get("after") == "given up"
    assert revision(cluster) == last

    edit(place, s3=at)
    if killed:
        eventually("its Job is there", lambda: cluster.get(JOBS, "etcd-restore"), bool, seconds=60)
        place.operator.kill()
    succeeds(place)
    settles(cluster, 3, RESTORED_SECONDS)

    assert all(cluster.client.get(f"before-{number}") == "kept" for number in range(20))
    assert cluster.client.get("after") is None
    assert revision(cluster) > last + 1_000_000_000
    after = cluster.client.members()
    assert after.cluster_id != members.cluster_id
    assert not set(after.ids.values()) & set(members.ids.values())
    assert cluster.status()["epoch"] == 2
    assert cluster.get(JOBS, "etcd-restore") is None
    # Spent: the words name a cluster that is no more.
    cluster.client.put("later", "stays")
    place.kube.delete(RESTORES, place.namespace, "etcd")
    ask(
        place, replace={"clusterID": members.cluster_id}, backupStorageType="S3", s3=at,
    )  # fmt: skip
    eventually(
        "it is refused", lambda: complete(place).get("reason"), lambda it: it == "ClusterChanged"
    )
    assert cluster.client.get("later") == "stays"


@pytest.mark.verify
@pytest.mark.timeout(780)
def test_the_disaster_drill(place: Place, s3: S3Server) -> None:
    """Load, backups by the calendar, all volumes gone; one object, and the data is back. A client
    that watches all the while is never told of a smaller revision."""
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(4)}
    cluster = place.declare(size=3, version=VERSION).comes_up()
    backups.secret(place, s3)
    template = {
        "clusterRef": {"name": "etcd"},
        "storageType": "S3",
        "s3": backups.s3_place(s3, "mybucket/drill/etcd"),
    }
    spec = {"schedule": "* * * * *", "retention": {"count": 3}, "template": template}
    place.kube.create(SCHEDULES, {"metadata": {"name": "drill"}, "spec": spec}, place.namespace)

    def newest() -> Json:
        made = place.kube.list(BACKUPS, place.namespace, "etcd.database.coreos.com/schedule=drill")
        proven = [one for one in made if (one.get("status") or {}).get("verified")]
        return max(proven, key=lambda one: one["status"]["etcdRevision"], default={})

    with watching(cluster, "load-") as watcher:
        with under_load(cluster) as load:
            eventually("there is much", lambda: len(backups.kept_keys(load)), lambda n: n > 100)
            reached = revision(cluster)
            backup = eventually(
                "what was written by then is in a verified backup",
                newest,
                lambda one: bool(one) and one["status"]["etcdRevision"] >= reached,
                seconds=200,
            )
        last, old = revision(cluster), cluster.client.members().cluster_id
        place.kube.patch(SCHEDULES, place.namespace, "drill", {"spec": {"suspend": True}})
        eventually("the watch has come so far", lambda: watcher.revision >= last)

        for ordinal in range(3):
            place.kube.delete(CLAIMS, place.namespace, f"data-etcd-{ordinal}")
        for ordinal in range(3):
            place.kube.delete(PODS, place.namespace, f"etcd-{ordinal}")
        cluster.holds("QuorumLost", "etcd-0", "etcd-1", "etcd-2", seconds=90)

        def waits() -> list[bool]:
            return [is_waiting_in_start(pod) for pod in cluster.pods().values()]

        eventually("all wait on empty volumes", waits, lambda now: now == [True] * 3, seconds=60)
        steadily("nobody starts empty", waits, lambda now: now == [True] * 3, 5)

        name = backup["metadata"]["name"]
        ask(place, replace={"clusterID": old}, backupRef={"name": name})
        succeeds(place)
        settles(cluster, 3, RESTORED_SECONDS)
        eventually("the watcher has read anew", lambda: watcher.reads >= 2)
        cluster.client.put("load-after", "the restore")
        eventually("it is told of it", lambda: watcher.revision >= revision(cluster))

    stored = backups.kept_keys(load, until=backup["status"]["etcdRevision"])
    assert len(stored) > 100
    assert backups.lost(cluster.client, load, stored) == []
    assert revision(cluster) > last
    assert watcher.went_back == []
    assert cluster.client.members().cluster_id != old
