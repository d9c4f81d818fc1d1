"""The first container of the restore Job: what it accepts, and what it refuses before reading."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etcd_operator.backup.sink import Sink
from etcd_operator.restore import finish as finishing
from etcd_operator.restore.__main__ import run
from etcd_operator.restore.fetch import Refused, Unfinished, fetch
from etcd_operator.restore.finish import NotMade, finish
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.options import DEFAULT_QUOTA
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest as manifests
from etcd_stateful.backup import names
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.jobs import restore
from etcd_stateful.jobs.restore import BUMP, REFUSED_EXIT, Order, over_quota, parse_order
from etcd_stateful.manifests.restore_job import restore_job
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records import successor
from etcd_stateful.start import configuration, marker, rules, wal
from etcd_stateful.start.configuration import run_config

STORE = Store("Volume", "claim", "etcd.db")
MIB = 2**20
SIZE = 16 * MIB


def ordered(**etcd: Any) -> Order:
    """The order in the Job of a cluster with this `spec.etcd`."""
    resource = {
        "metadata": {"namespace": "ns", "name": "c", "uid": "uid"},
        "spec": {"size": 3, "etcd": etcd},
    }
    cluster = parse_cluster(resource)
    record = records.restoring(
        records.first_attempt("uid", {"c-0": cluster.peer_url(0)}, "3.7.3"), size=3
    )
    job = restore_job(cluster, record, STORE, claim_uid="v1", operator_image="operator:1")
    told = job["spec"]["template"]["spec"]["initContainers"][0]["env"]
    return parse_order({one["name"]: one.get("value", "uid-pod") for one in told})


async def broken_off(*_: object) -> AsyncIterator[bytes]:
    yield bytes(4096)


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    folder = tmp_path / "stores"
    folder.mkdir()
    content = bytes(SIZE)
    (folder / STORE.key).write_bytes(content + hashlib.sha256(content).digest())
    return folder


async def fetched(order: Order, stores: Path) -> Path:
    root = stores.with_name("volume")
    root.mkdir()
    await fetch(order, Sink(order.store, None, root=str(stores)), root)
    return root / restore.SNAPSHOT


async def test_a_backup_within_the_quota_is_fetched(stores: Path) -> None:
    found = await fetched(ordered(quotaBackend="17Mi"), stores)

    assert found.stat().st_size == SIZE + hashlib.sha256().digest_size


@pytest.mark.parametrize("version", ["3.7.3", "3.7.3-acme.1"])
async def test_a_cluster_was_replaced_by_data_of_a_newer_private_build(
    stores: Path, version: str
) -> None:
    """Its members reported a suffix, so the version of its backup was not compared. The restored
    etcd did not run, and the cluster that had served was gone."""
    beside(stores, 5, version)

    with pytest.raises(Refused) as refused:
        await fetched(replace(ordered(), version="3.6.14"), stores)

    assert "the backup is of etcd 3.7.3, which etcd 3.6.14 cannot run" in str(refused.value)


async def test_a_backup_that_would_raise_an_alarm_is_refused_before_it_is_read(
    stores: Path,
) -> None:
    """A restore in place had already deleted the old volumes when writes were no longer
    possible."""
    with pytest.raises(Refused) as refused:
        await fetched(ordered(quotaBackend="16Mi"), stores)

    said = str(refused.value)
    assert said.startswith("spec.etcd.quotaBackend: ")
    assert f"{SIZE + 32} bytes" in said
    assert f"quota is {SIZE}" in said
    assert not (stores.with_name("volume") / restore.SNAPSHOT).exists()


@pytest.mark.parametrize(("size", "fits"), [(MIB - 4096 + 32, True), (MIB + 32, False)])
def test_a_database_as_large_as_the_quota_takes_no_write_either(size: int, fits: bool) -> None:
    assert (over_quota(size, MIB) == "") is fits


def beside(stores: Path, revision: int, version: str = "3.7.3") -> None:
    data = (stores / STORE.key).read_bytes()
    sha256, made = hashlib.sha256(data).hexdigest(), "2026-01-01T00:00:00Z"
    told = Manifest("0a", revision, version, len(data), sha256, made, "ns/b", "uid-b")
    (stores / names.manifest_of(STORE.key)).write_bytes(manifests.serialise(told))


@pytest.mark.parametrize("known", [True, False], ids=["with a manifest", "without one"])
async def test_a_cluster_that_was_restored_every_night_for_a_month_had_negative_revisions(
    stores: Path, *, known: bool
) -> None:
    """Each restore raised them by as much as they had reached. etcdutl accepts that, but no etcd
    runs on the result. By then the old cluster was stopped."""
    live, order, refused = BUMP, ordered(quotaBackend="1Gi"), ""
    for _ in range(40):
        bump = successor.bump(live, 0)
        if known:
            beside(stores, live)
        try:
            await fetched(replace(order, bump=bump), stores)
        except Refused as error:
            refused = str(error)
            break
        shutil.rmtree(stores.with_name("volume"))
        live += bump
        assert live < 2**63

    assert live > 2**60, "it was refused long before"
    assert "too close to etcd's limit" in refused


@pytest.mark.parametrize(("said", "is_refused"), [(5, False), (4, False), (6, True)])
async def test_a_status_that_lied_let_clients_see_revisions_twice(
    stores: Path, said: int, *, is_refused: bool
) -> None:
    """What the status of the EtcdBackup said was subtracted from what the members had reached."""
    beside(stores, 5)
    order = replace(ordered(), revision=said)

    if not is_refused:
        await fetched(order, stores)
        return
    with pytest.raises(Refused) as refused:
        await fetched(order, stores)
    assert "EtcdBackup says that its revision is 6, and the manifest" in str(refused.value)


def test_the_job_says_by_how_much_it_raises_the_revisions() -> None:
    assert ordered().bump == BUMP


async def test_one_broken_connection_to_the_store_ended_the_restore_for_good(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the backup were damaged, which another attempt would only find again."""
    monkeypatch.setattr(Sink, "read", broken_off)

    with pytest.raises(Unfinished, match=f"the store sent 4096 of {SIZE + 32} bytes"):
        await fetched(ordered(), stores)


async def test_a_store_that_sent_more_than_announced_filled_the_volume(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the announced size had been compared with the room and the quota. In a trial it was the
    node's disk."""

    async def on_and_on(*_: object) -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(MIB)

    monkeypatch.setattr(Sink, "read", on_and_on)

    with pytest.raises(Unfinished, match=f"the store sent more than the {SIZE + 32} bytes"):
        await fetched(ordered(), stores)
    assert (stores.with_name("volume") / restore.SNAPSHOT).stat().st_size <= SIZE + 32


@pytest.mark.parametrize("done", [True, False])
async def test_a_running_backup_ended_the_restore_of_the_previous_one_for_good(
    stores: Path, monkeypatch: pytest.MonkeyPatch, *, done: bool
) -> None:
    """As if the file did not match its manifest, which another attempt would only find again."""
    beside(stores, 5)
    real = Sink.size

    async def meanwhile(sink: Sink, key: str) -> int | None:
        content = b"newer" * 512
        (stores / key).write_bytes(content + hashlib.sha256(content).digest())
        beside(stores, 6)
        if not done:
            (stores / names.manifest_of(key)).write_bytes(manifests.undecided("uid-b"))
        return await real(sink, key)

    monkeypatch.setattr(Sink, "size", meanwhile)

    with pytest.raises(Unfinished, match=r"etcd\.db: another backup took its place"):
        await fetched(ordered(), stores)


def test_an_unset_quota_is_etcds_default() -> None:
    order = ordered()

    assert order.quota == DEFAULT_QUOTA
    assert replace(order, settings=replace(order.settings, options={})).quota == DEFAULT_QUOTA


@pytest.fixture
def restored(stores: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A volume that a restore has filled, with a readable log of its member."""
    own = wal.Identity(ordered().member_id, ordered().cluster_id)
    monkeypatch.setattr(wal, "identity", lambda _: own)
    root = stores.with_name("volume")
    (root / "data" / "member" / "wal").mkdir(parents=True)
    (root / "data" / "member" / "wal" / "0.wal").write_bytes(b"acknowledged")
    (root / marker.FILE).write_bytes(marker.serialise(ordered().marker))
    return root


async def again(stores: Path, root: Path) -> None:
    await fetch(ordered(), Sink(STORE, None, root=str(stores)), root)


async def test_a_late_job_replaced_later_writes_with_the_backup(
    stores: Path, restored: Path
) -> None:
    """An operator that stood still for a while, or a delayed request, creates it after everything
    is done. The name is free again by then, and the marker is the one that the Job would write."""
    verdict = rules.inspect(ordered().settings, volume.look(str(restored)))
    assert isinstance(verdict, rules.Run)
    volume.write_config(str(restored), verdict.config)

    with pytest.raises(Refused, match="has run on this volume"):
        await again(stores, restored)

    assert rules.inspect(ordered().settings, volume.look(str(restored))) == verdict
    assert not (restored / restore.FOLDER).exists()


@pytest.mark.parametrize("failure", [errno.EIO, errno.ESTALE, errno.EACCES])
async def test_an_error_was_taken_for_a_volume_that_no_member_has_run_on(
    stores: Path, restored: Path, monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    """The marker was removed, and at the end of the restore the later writes with it."""
    volume.write_config(str(restored), run_config(ordered().settings))
    real = os.lstat

    def fails(path: Any, **rest: Any) -> os.stat_result:
        if str(path).endswith(configuration.FILE):
            raise OSError(failure, os.strerror(failure), str(path))
        return real(path, **rest)

    monkeypatch.setattr(os, "lstat", fails)
    with pytest.raises(OSError, match=os.strerror(failure)):
        await again(stores, restored)

    assert (restored / marker.FILE).exists()


async def test_a_finished_restore_that_has_not_run_is_repeated(
    stores: Path, restored: Path
) -> None:
    """Its pod may have died before it could report success."""
    await again(stores, restored)

    assert (restored / restore.SNAPSHOT).exists()


async def test_a_second_pod_took_the_marker_from_a_volume_that_the_first_had_finished(
    stores: Path, restored: Path
) -> None:
    """Kubernetes sometimes starts a Job's pod twice. The Job was done and the second was stopped,
    so the restored cluster waited for good, on data that belonged to nobody."""
    await again(stores, restored)

    assert isinstance(rules.inspect(ordered().settings, volume.look(str(restored))), rules.Run)


async def test_data_without_a_marker_that_is_not_of_this_restore_is_left_alone(
    stores: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim was created from a volume with another etcd's data. The end of the restore would
    move it aside and delete it."""
    (restored / marker.FILE).unlink()
    monkeypatch.setattr(wal, "identity", lambda _: wal.Identity(1, 2))

    with pytest.raises(Refused, match="it is not of this restore: the log is of member"):
        await again(stores, restored)

    assert not (restored / restore.FOLDER).exists()


@pytest.fixture
def tight(restored: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A volume just large enough for a restore, with the data of an earlier attempt."""
    (restored / "data" / "member" / "snap").mkdir()
    (restored / "data" / "member" / "snap" / "db").write_bytes(bytes(SIZE))
    capacity = 2 * (SIZE + 32) + restore.LOG_BYTES

    def usage(root: Path) -> SimpleNamespace:
        used = sum(one.stat().st_size for one in root.rglob("*db"))
        return SimpleNamespace(free=capacity - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return restored


async def test_a_restore_whose_first_pod_died_at_its_end_found_the_volume_too_small_for_good(
    stores: Path, tight: Path
) -> None:
    """It had put the data in place, but nobody had noticed."""
    await again(stores, tight)

    assert (tight / restore.SNAPSHOT).exists()
    assert not (tight / "data").exists()


async def test_a_pod_that_died_while_it_made_room_left_no_room_for_the_next(
    stores: Path, tight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had deleted the log first. The database that was left belonged to nobody, and was too
    large to restore beside it."""
    real = shutil.rmtree

    def dies(path: Path) -> None:
        if (path / "member" / "wal").exists():
            real(path / "member" / "wal")
            raise SystemExit(143)
        real(path)

    monkeypatch.setattr(shutil, "rmtree", dies)
    with pytest.raises(SystemExit):
        await again(stores, tight)

    await again(stores, tight)

    assert (tight / restore.SNAPSHOT).exists()


async def test_existing_data_is_kept_if_there_is_space_or_deleting_it_would_not_help(
    stores: Path, tight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "identity", lambda _: wal.Identity(1, 2))
    with pytest.raises(Refused, match="bytes left"):
        await again(stores, tight)

    assert (tight / "data" / "member" / "snap" / "db").exists()


def made_by_etcdutl(root: Path) -> None:
    """Its log. Unless a pod has begun there already, it is the one of `ordered`."""
    made = root / restore.FOLDER / "data" / "member" / "wal"
    made.mkdir(parents=True)
    (made / "0.wal").write_bytes(b"of the backup")
    if not (root / restore.FOLDER / restore.POD).exists():
        (root / restore.FOLDER / restore.POD).write_text(ordered().settings.pod_uid)


async def test_a_database_whose_log_is_elsewhere_was_deleted_with_what_the_restore_replaced(
    stores: Path, restored: Path
) -> None:
    """As of a member with `--wal-dir`, on a volume that was bound to the claim by hand."""
    (restored / marker.FILE).unlink()
    shutil.rmtree(restored / "data" / "member" / "wal")
    (restored / "data" / "member" / "snap").mkdir()
    (restored / "data" / "member" / "snap" / "db").write_bytes(b"of somebody")
    await again(stores, restored)
    made_by_etcdutl(restored)

    finish(ordered(), restored, Journal(str(stores.with_name("end"))))

    assert (restored / "data" / "member" / "wal" / "0.wal").read_bytes() == b"of the backup"
    assert (restored / "aside-1" / "member" / "snap" / "db").read_bytes() == b"of somebody"
    assert not (restored / restore.FOLDER).exists()


def said_by_fetch(stores: Path, root: Path, code: int) -> str:
    """The termination message of a container that ends with this code."""
    end = stores.with_name("end")
    end.touch()
    assert run("fetch", ordered(), root, Journal(str(end)), stores=str(stores)) == code
    return end.read_text()


@pytest.mark.parametrize(
    ("problem", "words"), [({"f_flag": os.ST_RDONLY}, "Read-only file system"), ({}, "denied")]
)
def test_an_unusable_volume_was_reported_to_hold_data_and_never_tried_again(
    stores: Path, monkeypatch: pytest.MonkeyPatch, problem: dict[str, int], words: str
) -> None:
    root = stores.with_name("volume")
    root.mkdir()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{"f_flag": 0} | problem))
    monkeypatch.setattr(os, "access", lambda *_: False)

    said = said_by_fetch(stores, root, code=1)

    assert said.startswith(f"not restored yet: {root}: ")
    assert words in said


def test_what_cannot_be_deleted_was_only_said_to_exist(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an edit of the user that the pods run as."""
    root = stores.with_name("volume")
    (root / restore.FOLDER).mkdir(parents=True)
    (root / restore.SNAPSHOT).write_bytes(b"of another user")
    real = os.unlink

    def denied(path: Any, **rest: Any) -> None:
        if str(path).endswith("snapshot.db"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        real(path, **rest)

    monkeypatch.setattr(os, "unlink", denied)

    assert said_by_fetch(stores, root, code=1).endswith("snapshot.db: Permission denied")


def test_the_target_of_a_linked_marker_was_shown_in_the_pods_status(stores: Path) -> None:
    """The credentials of the store are files beside it."""
    root = stores.with_name("volume")
    root.mkdir()
    secret = stores.with_name("credentials")
    secret.write_text("aws_secret_access_key = hunter2")
    (root / marker.FILE).symlink_to(secret)

    said = said_by_fetch(stores, root, code=REFUSED_EXIT)

    assert said == "refused: the volume holds data already: the marker is not JSON"


def test_a_pipe_in_place_of_the_marker_blocked_the_restore_for_good(stores: Path) -> None:
    root = stores.with_name("volume")
    root.mkdir()
    os.mkfifo(root / marker.FILE)

    assert "Not a regular file" in said_by_fetch(stores, root, code=1)


def test_a_member_that_began_meanwhile_keeps_its_data(restored: Path, tmp_path: Path) -> None:
    made_by_etcdutl(restored)
    volume.write_config(str(restored), run_config(ordered().settings))

    with pytest.raises(NotMade, match="has run on this volume"):
        finish(ordered(), restored, Journal(str(tmp_path / "end")))

    assert (restored / "data" / "member" / "wal" / "0.wal").read_bytes() == b"acknowledged"


def test_a_member_that_started_while_the_backup_was_written_to_disk_lost_its_data(
    restored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing a large backup takes a while."""
    made_by_etcdutl(restored)

    def begins(_: Path) -> None:
        volume.write_config(str(restored), run_config(ordered().settings))

    monkeypatch.setattr(finishing, "fsync", begins)
    with pytest.raises(NotMade, match="has run on this volume"):
        finish(ordered(), restored, Journal(str(tmp_path / "end")))

    assert (restored / "data" / "member" / "wal" / "0.wal").read_bytes() == b"acknowledged"


async def test_a_log_without_its_database_was_called_restored(
    stores: Path, restored: Path, tmp_path: Path
) -> None:
    """Kubernetes sometimes starts a Job's pod twice. The second deleted what etcdutl of the first
    had written, while that wrote the rest: the log."""
    shutil.rmtree(restored / "data")
    (restored / marker.FILE).unlink()
    second = replace(ordered(), settings=replace(ordered().settings, pod_uid="of-the-second"))
    await again(stores, restored)
    await fetch(second, Sink(STORE, None, root=str(stores)), restored)
    made_by_etcdutl(restored)

    with pytest.raises(NotMade, match="another pod of this Job has begun"):
        finish(ordered(), restored, Journal(str(tmp_path / "end")))

    assert not (restored / marker.FILE).exists()
    assert not (restored / "data").exists()


def test_a_folder_that_could_not_be_listed_was_left_off_the_disk(
    restored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (restored / marker.FILE).unlink()
    made_by_etcdutl(restored)
    made = restored / restore.FOLDER / "data" / "member"
    real = os.scandir

    def fails(path: Any) -> Any:
        if str(path) == str(made):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(OSError, match="Input/output error"):
        finish(ordered(), restored, Journal(str(tmp_path / "end")))

    assert not (restored / marker.FILE).exists()


def test_all_of_it_is_on_the_disk_before_its_marker(
    restored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss, `start` would run whatever the marker vouches for."""
    (restored / marker.FILE).unlink()
    made_by_etcdutl(restored)
    trace: list[str] = []
    rename = os.rename

    def short(path: Any) -> str:
        return os.path.relpath(path, restored)

    def renames(old: Any, new: Any) -> None:
        trace.append(f"rename {short(old)} {short(new)}")
        rename(old, new)

    monkeypatch.setattr(os, "rename", renames)
    monkeypatch.setattr(finishing, "fsync", lambda path: trace.append(f"sync {short(path)}"))
    finish(ordered(), restored, Journal(str(tmp_path / "end")))

    assert trace == [
        "sync restore/data",
        "sync restore/data/member",
        "sync restore/data/member/wal/0.wal",
        "sync restore/data/member/wal",
        "rename data restore/before",
        "rename restore/data data",
        "sync .",
        f"rename .{marker.FILE}.tmp {marker.FILE}",
    ]
    assert not (restored / restore.FOLDER).exists()
    assert (restored / "data" / "member" / "wal" / "0.wal").read_bytes() == b"of the backup"


def test_a_restored_cluster_gets_the_ids_that_follow_from_its_own_token() -> None:
    command = restore.etcdutl("c-0", "https://c-0:2380", "uid-2")

    assert "--initial-cluster-token=uid-2" in command
    assert "--initial-cluster=c-0=https://c-0:2380" in command
