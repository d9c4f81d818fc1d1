"""Backups of a cluster under load, to S3 and to a volume, read with etcd's own programs."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest
from harness import backups
from harness.api import BACKUPS, JOBS, PODS, SECRETS
from harness.backups import DONE_SECONDS, SAYS_SECONDS
from harness.held_line import held_line
from harness.load import under_load
from harness.node import volume_path
from harness.place import Place
from harness.waiting import eventually, steadily

from localkube.addresses import in_url
from localkube.s3 import S3Server

pytestmark = pytest.mark.usefixtures("local_node")

VERSION = "3.7.3"
LARGE_KEYS = 40
"""Of 1 MB each: more than a Job has on its way at once."""


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_a_backup_under_load_has_every_acknowledged_write(
    place: Place, s3: S3Server, tmp_path: Path
) -> None:
    """To S3 as coreos's manifest says it, to a volume by the cluster's name."""
    cluster = place.declare(size=3, version=VERSION).comes_up()
    backups.secret(place, s3)
    backups.claim(place, "backups")
    with under_load(cluster) as load:
        eventually("there is something", lambda: len(backups.kept_keys(load)), lambda n: n > 100)
        before = backups.kept_keys(load)
        to_s3 = backups.declare(
            place,
            "to-s3",
            etcdEndpoints=["https://etcd-client:2379"],
            storageType="S3",
            s3=backups.s3_place(s3, "mybucket/under/load"),
        )
        to_volume = backups.declare(
            place,
            "to-volume",
            clusterRef={"name": "etcd"},
            storageType="Volume",
            volume={"claimName": "backups", "path": "daily/etcd.db"},
        )
        made, other = to_s3.succeeds(), to_volume.succeeds()

    assert made["etcdVersion"] == VERSION
    assert made["clusterID"] == other["clusterID"] == cluster.status()["clusterID"]
    stored = s3.folder / "data" / "mybucket" / "under" / "load"
    on_disk = volume_path(place.kube, place.namespace, "backups") / "daily" / "etcd.db"
    for number, (file, status) in enumerate(((stored, made), (on_disk, other))):
        assert hashlib.sha256(file.read_bytes()).hexdigest() == status["sha256"]
        folder = tmp_path / str(number)
        folder.mkdir()
        revision, keys = backups.restored(file, folder, VERSION, load.kept)
        assert before <= keys
        assert revision >= status["etcdRevision"] > len(before)


@pytest.mark.verify
@pytest.mark.timeout(250)
def test_status_shows_progress_and_speed_while_a_backup_runs(place: Place, s3: S3Server) -> None:
    """The store stops accepting data in the middle, and continues once the status was seen."""
    cluster = place.declare(size=1, version=VERSION).comes_up()
    for number in range(LARGE_KEYS):
        cluster.client.put(f"large-{number}", "x" * 1_000_000)
    backups.secret(place, s3)
    with held_line(backups.HOST, (s3.host, s3.port), most=1_000_000) as line:
        at = backups.s3_place(s3, "mybucket/progress") | {"endpoint": line.endpoint}
        backup = backups.declare(
            place,
            "progress",
            clusterRef={"name": "etcd"},
            storageType="S3",
            s3=at,
            backupPolicy={"timeoutInSecond": 120},
        )
        halfway = eventually(
            "it is seen halfway",
            lambda: backup.status().get("progress") or {},
            lambda found: 0 < found.get("bytes", 0) < found["totalBytes"],
            seconds=DONE_SECONDS,
        )
        assert backup.condition()["reason"] == "Running"
        line.let_go.set()
        made = backup.succeeds()

    assert halfway["bytesPerSecond"] > 0
    assert halfway["totalBytes"] > LARGE_KEYS * 1_000_000
    assert made["size"] > LARGE_KEYS * 1_000_000
    assert "progress" not in made


@pytest.mark.timeout(200)
def test_each_mistake_is_reported_with_its_field(place: Place, s3: S3Server) -> None:
    """Within seconds by the operator; what only a Job can find out, once its pod has run."""
    place.declare(size=1, version=VERSION).comes_up()
    backups.secret(place, s3)
    backups.secret(place, s3, "wrong", credentials="[default]\naws_access_key_id = a\n")
    good = {"clusterRef": {"name": "etcd"}, "storageType": "S3"}
    fine = backups.s3_place(s3, "mybucket/mistakes")
    by_operator = {
        "spec.clusterRef.name": {"s3": fine, "clusterRef": {"name": "nobody"}},
        "spec.volume.claimName": {
            "storageType": "Volume", "volume": {"claimName": "nothing", "path": "a"},
        },
    }  # fmt: skip
    by_jobs = {
        "spec.s3.path": {"s3": fine | {"path": "nowhere/key"}},
        "spec.s3.awsSecret: Secret wrong": {"s3": fine | {"awsSecret": "wrong"}},
        "spec.s3.awsSecret: Secret missing": {"s3": fine | {"awsSecret": "missing"}},
        "spec.s3.endpoint": {"s3": fine | {"endpoint": f"http://{in_url(backups.HOST)}:9"}},
        "spec.etcdEndpoints": {
            "s3": fine, "etcdEndpoints": ["http://nobody:2379"], "clusterRef": None,
        },
        "speaks TLS: it must begin with https://": {
            "s3": fine, "etcdEndpoints": ["http://etcd-client:2379"], "clusterRef": None,
        },
    }  # fmt: skip

    began = time.monotonic()
    declared = {}
    for number, (words, changed) in enumerate((by_operator | by_jobs).items()):
        spec = {key: value for key, value in (good | changed).items() if value is not None}
        declared[words] = backups.declare(place, f"bad-{number}", **spec)
    for words, backup in declared.items():
        backup.says(words, seconds=SAYS_SECONDS if words in by_operator else DONE_SECONDS)
        print(f"{words}: said within {time.monotonic() - began:.1f} s")
        place.kube.delete(BACKUPS, place.namespace, backup.name)


@pytest.mark.verify
@pytest.mark.timeout(200)
def test_a_secret_created_later_is_found(place: Place, s3: S3Server) -> None:
    """Applied in any order, as tools do it."""
    place.declare(size=1, version=VERSION).comes_up()
    backup = backups.declare(
        place,
        "late",
        clusterRef={"name": "etcd"},
        storageType="S3",
        s3=backups.s3_place(s3, "mybucket/late"),
    )
    backup.says("spec.s3.awsSecret", seconds=DONE_SECONDS)
    backups.secret(place, s3)

    backup.succeeds(seconds=60)


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.timeout(200)
def test_an_interval_keeps_the_newest_backups_even_if_the_operator_dies(
    place: Place, s3: S3Server
) -> None:
    place.operator_may_restart = True
    place.declare(size=1, version=VERSION).comes_up()
    backups.secret(place, s3)
    folder = s3.folder / "data" / "mybucket" / "often"
    folder.mkdir()
    (folder / "etcd_vault").write_text("a neighbour")
    backup = backups.declare(
        place,
        "often",
        clusterRef={"name": "etcd"},
        storageType="S3",
        s3=backups.s3_place(s3, "mybucket/often/etcd"),
        backupPolicy={"backupIntervalInSecond": 6, "maxBackups": 2},
    )

    def stored() -> list[str]:
        names = (path.name for path in folder.iterdir())
        return sorted(name for name in names if name.startswith("etcd_v") and name[6].isdigit())

    backup.succeeds()
    first = stored()
    place.operator.kill()

    eventually(
        "the first of them is gone",
        stored,
        lambda found: found and not set(first) & set(found),
        seconds=90,
    )
    steadily(
        "never more than kept, and one on its way", lambda: len(stored()) // 2, lambda n: n <= 3, 5
    )
    assert (folder / "etcd_vault").read_text() == "a neighbour"


@pytest.mark.timeout(200)
def test_a_backup_restored_in_a_scratch_pod_is_verified(place: Place, s3: S3Server) -> None:
    """Under load: what is written meanwhile is no difference."""
    cluster = place.declare(size=1, version=VERSION).comes_up()
    backups.secret(place, s3)
    with under_load(cluster) as load:
        eventually("there is something", lambda: len(backups.kept_keys(load)), lambda n: n > 100)
        backup = backups.declare(
            place,
            "proven",
            clusterRef={"name": "etcd"},
            storageType="S3",
            s3=backups.s3_place(s3, "mybucket/proven"),
            verify="Restore",
        )
        status = backup.succeeds(seconds=120)

    assert status["verified"] == "Restore"
    assert status["verifiedDate"]
    words = backup.condition()["message"]
    assert f"restored with etcd {VERSION} and compared: revision " in words
    assert "keys, etcd's hash" in words
    label = "app.kubernetes.io/component=backup"
    eventually(
        "no pod of it runs on",
        lambda: [one["status"]["phase"] for one in place.kube.list(PODS, place.namespace, label)],
        lambda phases: set(phases) == {"Succeeded"},
    )


@pytest.mark.timeout(150)
def test_deleting_an_etcdbackup_leaves_only_the_stored_backup(place: Place, s3: S3Server) -> None:
    place.declare(size=1, version=VERSION).comes_up()
    backups.secret(place, s3)
    backup = backups.declare(
        place,
        "gone",
        clusterRef={"name": "etcd"},
        storageType="S3",
        s3=backups.s3_place(s3, "mybucket/gone"),
    )
    backup.succeeds()
    job = backup.status()["job"]
    assert place.kube.get(JOBS, place.namespace, job)

    place.kube.delete(BACKUPS, place.namespace, "gone")

    eventually(
        "its Job goes", lambda: place.kube.get(JOBS, place.namespace, job), lambda it: not it
    )
    label = "app.kubernetes.io/component=backup"
    eventually(
        "its pods go", lambda: place.kube.list(PODS, place.namespace, label), lambda it: not it
    )
    assert (s3.folder / "data" / "mybucket" / "gone").exists()
    assert place.kube.get(SECRETS, place.namespace, "aws")


@pytest.mark.timeout(150)
def test_with_deletion_policy_delete_stored_files_are_deleted_first(
    place: Place, s3: S3Server
) -> None:
    place.declare(size=1, version=VERSION).comes_up()
    backups.secret(place, s3)
    backup = backups.declare(
        place,
        "all-gone",
        clusterRef={"name": "etcd"},
        storageType="S3",
        s3=backups.s3_place(s3, "mybucket/all-gone"),
        deletionPolicy="Delete",
    )
    backup.succeeds()
    stored = s3.folder / "data" / "mybucket" / "all-gone"
    assert stored.exists()

    place.kube.delete(BACKUPS, place.namespace, "all-gone")

    eventually(
        "the object goes",
        lambda: place.kube.get(BACKUPS, place.namespace, "all-gone"),
        lambda found: found is None,
        seconds=60,
    )
    assert not stored.exists()
    assert not stored.with_name("all-gone.manifest.json").exists()
