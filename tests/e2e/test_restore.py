"""A cluster is bootstrapped from the backup of another: with all its data, and higher revisions."""

from __future__ import annotations

import pytest
from harness import backups
from harness.api import BACKUPS, CLAIMS, CLUSTERS, JOBS, PODS, RESTORES, Json
from harness.conditions import condition
from harness.load import under_load
from harness.membership import settles
from harness.place import PLAINTEXT, Place
from harness.waiting import eventually, steadily

from localkube.s3 import S3Server

pytestmark = pytest.mark.usefixtures("local_node")

VERSION = "3.7.3"
RESTORED_SECONDS = 120


@pytest.mark.verify
@pytest.mark.timeout(480)
@pytest.mark.parametrize("killed", backups.KILLED)
def test_a_restored_cluster_has_all_data_and_higher_revisions(
    place: Place, s3: S3Server, killed: bool
) -> None:
    place.operator_may_restart = killed
    old = place.declare(size=3, name="old", version=VERSION).comes_up()
    backups.secret(place, s3)
    at = backups.s3_place(s3, "mybucket/restore")
    with under_load(old) as load:
        eventually("there is something", lambda: len(backups.kept_keys(load)), lambda n: n > 100)
        before = backups.kept_keys(load)
        made = backups.declare(
            place, "b", clusterRef={"name": "old"}, storageType="S3", s3=at
        ).succeeds()
    last = int(old.client.status()["header"]["revision"])

    restore = {"storageType": "S3", "s3": at}
    new = place.declare(size=3, name="new", version=VERSION, bootstrap={"restore": restore})
    if killed:
        eventually("its Job is there", lambda: new.get(JOBS, "new-restore"), bool, seconds=60)
        place.operator.kill()
    settles(new, 3, RESTORED_SECONDS)

    assert backups.lost(new.client, load, before) == []
    assert int(new.client.status()["header"]["revision"]) > last
    members = new.client.members()
    assert members.cluster_id != old.client.members().cluster_id == made["clusterID"]
    assert not set(members.ids.values()) & set(old.client.members().ids.values())
    assert new.get(JOBS, "new-restore") is None
    # Born once: what is written afterwards outlives restarts and the loss of a volume.
    new.client.put("after", "the restore")
    place.kube.delete(PODS, place.namespace, "new-0")
    settles(new, 3, 90)
    assert new.client.get("after") == "the restore"
    assert new.client.members().ids == members.ids


@pytest.mark.verify
def test_an_unreadable_backup_is_reported_and_restored_once_it_can_be_read(
    place: Place, s3: S3Server
) -> None:
    """No pod runs meanwhile: an empty cluster in its place would be the worst outcome."""
    source = place.declare(size=1, name="source", version=VERSION).comes_up()
    source.client.put("key", "value")
    at = backups.s3_place(s3, "mybucket/late")
    restore = {"storageType": "S3", "s3": at}
    new = place.declare(size=1, name="new", version=VERSION, bootstrap={"restore": restore})

    def plan() -> str:
        return str((new.status() or {}).get("plan", ""))

    eventually("the missing Secret is told", plan, lambda it: "awsSecret" in it, seconds=30)
    steadily("no member runs", lambda: new.pod(0), lambda pod: pod is None, 3)
    backups.secret(place, s3)
    backups.declare(place, "b", clusterRef={"name": "source"}, storageType="S3", s3=at).succeeds()

    settles(new, 1, RESTORED_SECONDS)
    assert new.client.get("key") == "value"


@pytest.mark.verify
def test_a_damaged_backup_is_refused(place: Place, s3: S3Server) -> None:
    source = place.declare(size=1, name="source", version=VERSION).comes_up()
    source.client.put("key", "value")
    backups.secret(place, s3)
    at = backups.s3_place(s3, "mybucket/damaged")
    backups.declare(place, "b", clusterRef={"name": "source"}, storageType="S3", s3=at).succeeds()
    stored = s3.folder / "data" / "mybucket" / "damaged"
    content = bytearray(stored.read_bytes())
    content[len(content) // 2] ^= 1
    stored.write_bytes(bytes(content))
    restore = {"storageType": "S3", "s3": at}

    new = place.declare(size=1, name="new", version=VERSION, bootstrap={"restore": restore})

    new.holds("RestoreFailed", "etcd's hash", seconds=60)
    assert new.pod(0) is None
    place.kube.delete(CLUSTERS, place.namespace, "new")


@pytest.mark.verify
def test_a_cluster_is_restored_from_a_volume(place: Place) -> None:
    """The volume with the backup is bound to one node, where the first member has to start."""
    source = place.declare(size=1, name="source", version=VERSION).comes_up()
    source.client.put("key", "value")
    backups.claim(place, "backups")
    at = {"storageType": "Volume", "volume": {"claimName": "backups", "path": "daily/etcd.db"}}
    made = backups.declare(place, "b", clusterRef={"name": "source"}, **at).succeeds()

    new = place.declare(size=3, name="new", version=VERSION, bootstrap={"restore": at})
    settles(new, 3, RESTORED_SECONDS)

    assert new.client.get("key") == "value"
    assert int(new.client.status()["header"]["revision"]) > made["etcdRevision"]
    assert new.client.members().cluster_id != made["clusterID"]


@pytest.mark.timeout(600)
def test_an_etcdrestore_recreates_a_cluster_that_lost_its_volumes(
    place: Place, s3: S3Server
) -> None:
    """As coreos's manifests say it: nothing but the store knows what the cluster was like."""
    place.may_lose |= {f"data-lost-{ordinal}" for ordinal in range(3)}
    lost = place.declare(size=3, name="lost", version=VERSION, pod={"labels": {"team": "a"}})
    lost.comes_up()
    backups.secret(place, s3)
    at = backups.s3_place(s3, "mybucket/lost")
    with under_load(lost) as load:
        eventually("there is something", lambda: len(backups.kept_keys(load)), lambda n: n > 100)
        before = backups.kept_keys(load)
        backups.declare(
            place,
            "b",
            etcdEndpoints=["https://lost-client:2379"],
            clientTLSSecret="lost-operator-tls",
            storageType="S3",
            s3=at,
        ).succeeds()
    last = int(lost.client.status()["header"]["revision"])
    spec = {"etcdCluster": {"name": "lost"}, "backupStorageType": "S3", "s3": at}

    def complete() -> Json:
        return condition(place.kube.get(RESTORES, place.namespace, "lost"), "Complete")

    place.kube.create(RESTORES, {"metadata": {"name": "lost"}, "spec": spec}, place.namespace)
    eventually("it holds", complete, lambda one: one.get("reason") == "ClusterExists")
    place.kube.delete(RESTORES, place.namespace, "lost")
    lost.delete()
    for name in lost.claims():
        place.kube.delete(CLAIMS, place.namespace, name)
    eventually("the volumes are gone", lost.claims, lambda left: not left)

    place.kube.create(RESTORES, {"metadata": {"name": "lost"}, "spec": spec}, place.namespace)
    eventually("it is there again", lost.body, bool, seconds=60)
    settles(lost, 3, RESTORED_SECONDS)

    eventually("it says so", complete, lambda one: one.get("status") == "True")
    assert lost.body()["spec"]["pod"] == {"labels": {"team": "a"}}
    assert backups.lost(lost.client, load, before) == []
    assert int(lost.client.status()["header"]["revision"]) > last


@pytest.mark.verify
@pytest.mark.timeout(480)
def test_the_object_alone_restores_in_another_namespace_and_under_another_name(
    place: Place, s3: S3Server
) -> None:
    """The credentials of the store must be there as well."""
    source = place.declare(size=1, name="source", version=VERSION).comes_up()
    source.client.put("key", "value")
    backups.secret(place, s3)
    at = backups.s3_place(s3, "mybucket/elsewhere")
    backups.declare(place, "b", clusterRef={"name": "source"}, storageType="S3", s3=at).succeeds()
    elsewhere = Place.make(place.kube, place.reach, place.operator, place.ledger, "elsewhere")
    try:
        backups.secret(elsewhere, s3)
        for name in ("source", "copy"):
            spec = {"etcdCluster": {"name": name}, "backupStorageType": "S3", "s3": at}
            restore = {"metadata": {"name": name}, "spec": spec}
            place.kube.create(RESTORES, restore, elsewhere.namespace)
            new = elsewhere.cluster(name)
            eventually(f"{name} is created", new.body, bool, seconds=60)
            settles(new, 1, RESTORED_SECONDS)
            assert new.client.get("key") == "value"
            assert new.client.members().cluster_id != source.client.members().cluster_id
        elsewhere.check()
    finally:
        elsewhere.leave()


@pytest.mark.verify
def test_a_cluster_without_tls_is_backed_up_and_restored_with_tls(
    place: Place, s3: S3Server
) -> None:
    """As coreos's manifest says it."""
    old = place.declare(size=1, name="old", version=VERSION, TLS=PLAINTEXT).comes_up()
    old.client.put("key", "value")
    backups.secret(place, s3)
    at = backups.s3_place(s3, "mybucket/without-tls")
    backups.declare(
        place, "b", etcdEndpoints=["http://old-client:2379"], storageType="S3", s3=at
    ).succeeds()

    restore = {"storageType": "S3", "s3": at}
    new = place.declare(size=3, name="new", version=VERSION, bootstrap={"restore": restore})
    settles(new, 3, RESTORED_SECONDS)

    assert new.client.get("key") == "value"
    schemes = {
        url.partition(":")[0] for one in new.client.members().members for url in one.peer_urls
    }
    assert schemes == {"https"}


@pytest.mark.verify
@pytest.mark.timeout(780)
def test_a_restore_waits_for_its_backup_which_may_be_deleted_afterwards(
    place: Place, s3: S3Server
) -> None:
    """Of an interval, for a new cluster; of one time, for one that is gone."""
    place.may_lose |= {"data-lost-0"}
    backups.secret(place, s3)
    by_name = {"backupRef": {"name": "often"}}
    new = place.declare(size=1, name="new", version=VERSION, bootstrap={"restore": by_name})
    new.holds("BackupAwaited", "spec.bootstrap.restore.backupRef.name", "often does not exist")
    lost = place.declare(size=1, name="lost", version=VERSION).comes_up()
    lost.client.put("key", "value")
    assert not new.claims(), "nothing is made meanwhile"
    assert new.stateful_set() is None

    often = backups.declare(
        place,
        "often",
        clusterRef={"name": "lost"},
        storageType="S3",
        s3=backups.s3_place(s3, "mybucket/often"),
        backupPolicy={"backupIntervalInSecond": 6},
    )
    eventually("its Job is there", lambda: new.get(JOBS, "new-restore"), bool, seconds=90)
    assert often.status()["location"].startswith("s3://mybucket/often_v")
    place.kube.delete(BACKUPS, place.namespace, "often")
    settles(new, 1, RESTORED_SECONDS)

    assert new.client.get("key") == "value"
    assert new.get(JOBS, "new-restore") is None
    once = {"clusterRef": {"name": "lost"}, "s3": backups.s3_place(s3, "mybucket/once")}
    backups.declare(place, "once", storageType="S3", **once).succeeds()
    lost.delete()
    place.kube.delete(CLAIMS, place.namespace, "data-lost-0")
    eventually("the volume is gone", lost.claims, lambda left: not left)
    spec = {"etcdCluster": {"name": "lost"}, "backupRef": {"name": "once"}}
    place.kube.create(RESTORES, {"metadata": {"name": "lost"}, "spec": spec}, place.namespace)
    eventually("it is there again", lost.body, bool, seconds=60)
    place.kube.delete(BACKUPS, place.namespace, "once")
    settles(lost, 1, RESTORED_SECONDS)

    assert lost.client.get("key") == "value"
    assert lost.body()["spec"]["bootstrap"]["restore"]["s3"] == once["s3"]

    def columns() -> dict[str, str]:
        shown = place.kube.kubectl("-n", place.namespace, "get", "etcdrestore", "lost")
        header, row = (line.split() for line in shown.strip().splitlines())
        return dict(zip(header, row, strict=False))

    eventually("it says so", columns, lambda one: one.get("SUCCEEDED") == "true")
    assert columns()["STORAGE"] == "S3"
