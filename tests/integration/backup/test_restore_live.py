"""The containers of a restore's Job on a folder, with each minor's own etcdutl and etcd."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import memory
import pytest
from backup_orders import etcdctl, order_for
from etcd_live import BINARIES, Cluster, compact, fill, put, put_all
from minors import NEWEST, OLDEST, differing

from etcd_operator.backup.__main__ import back_up
from etcd_operator.restore import fetch as fetching
from etcd_operator.restore import finish as finishing
from etcd_operator.restore.__main__ import run
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful import identity, naming
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.jobs import restore
from etcd_stateful.jobs.restore import REFUSED_EXIT, Order
from etcd_stateful.manifests.jobs import MALLOC_ENVIRONMENT
from etcd_stateful.start import marker
from etcd_stateful.start.configuration import Settings

pytestmark = pytest.mark.integration

STORE = Store("Volume", "claim", "etcd.db")
TOKEN = "uid-new-1"


class Killed(BaseException):
    """The container is killed at this very point."""


RAISED = restore.bump_at(1_795_000_000)
"""Of a cluster that was made in November of 2026."""


class Target:
    """A new cluster's first volume, and the three containers of the Job on it."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        stores: Path,
        *,
        store: Store = STORE,
        secret: str = orders.STORE_FOLDER,
    ) -> None:
        self.cluster = cluster
        self.member = cluster.new_member()
        self.root = folder
        self.stores = stores
        self.secret = secret
        folder.mkdir()
        member_id = identity.member_id([self.member.peer_url], TOKEN)
        settings = Settings("uid-new", 1, "new-0", "pod", "127.0.0.1", "new-0.new.ns.svc")
        version = cluster.binary.resolve().parent.name.removeprefix("etcd-v").partition("-")[0]
        self.order = Order(settings, member_id, identity.cluster_id([member_id]), store, version)
        self.said = folder.with_suffix(".log")
        self.said.touch()

    async def container(self, what: str) -> int:
        journal = Journal(str(self.said), "restore")
        told = (what, self.order, self.root, journal)
        places = {"secret": self.secret, "stores": str(self.stores)}
        return await asyncio.to_thread(run, *told, **places)

    def etcdutl(self, before: Callable[[], object] | None = None) -> None:
        words = restore.etcdutl("new-0", self.member.peer_url, TOKEN, RAISED)
        words = [word.replace(naming.VOLUME_PATH, str(self.root)) for word in words]
        command = [self.cluster.tool("etcdutl"), *words[1:]]
        subprocess.run(command, check=True, capture_output=True, preexec_fn=before)

    async def job(self) -> int:
        if code := await self.container("fetch"):
            return code
        self.etcdutl()
        return await self.container("finish")

    async def start(self) -> None:
        """etcd as `start` runs it: on existing data, without being told how the cluster was
        created."""
        self.member.name = "new-0"
        self.member.folder = self.root / "data"
        self.member.start("", TOKEN, "existing")
        self.cluster.first = [self.member]
        self.cluster.token = TOKEN
        await self.cluster.ready()

    @property
    def marked(self) -> bool:
        path = self.root / marker.FILE
        return path.exists() and marker.parse(path.read_bytes()) == self.order.marker


def etcdctl_json(cluster: Cluster, *words: str) -> Any:
    command = etcdctl(cluster, *words, "-w", "json")
    done = subprocess.run(command, check=True, capture_output=True)
    return json.loads(done.stdout)


async def fill_with_history(cluster: Cluster) -> None:
    """One member with keys, older versions of them, some compacted away and some deleted."""
    cluster.begin(1)
    await cluster.ready()
    member = cluster.first[0]
    revision = await fill(member, 60)
    await compact(member, revision - 10)
    await put_all(member, ((b"key-%d" % number, b"newer") for number in range(30)))
    etcdctl_json(cluster, "del", "key-5")


async def stored(cluster: Cluster, stores: Path) -> tuple[Cluster, Path]:
    """The cluster, and the folder with its backup."""
    await fill_with_history(cluster)
    stores.mkdir()
    assert isinstance(await back_up(order_for(cluster, STORE), root=str(stores)), Stored)
    return cluster, stores


@pytest.fixture
async def source(cluster: Cluster, tmp_path: Path) -> tuple[Cluster, Path]:
    return await stored(cluster, tmp_path / "stores")


def target(source: tuple[Cluster, Path], tmp_path: Path, name: str = "new") -> Target:
    return Target(source[0], tmp_path / name, source[1])


@differing("cluster", OLDEST, NEWEST)
async def test_every_key_is_restored_and_revisions_only_increase(
    source: tuple[Cluster, Path], tmp_path: Path
) -> None:
    cluster, _ = source
    before = etcdctl_json(cluster, "get", "", "--prefix")
    old = cluster.first[0]
    new = target(source, tmp_path)

    assert await new.job() == 0, new.said.read_text()
    old.kill()
    await new.start()

    after = etcdctl_json(cluster, "get", "", "--prefix")
    pairs = [(one["key"], one.get("value"), one["mod_revision"]) for one in before["kvs"]]
    assert [(one["key"], one.get("value"), one["mod_revision"]) for one in after["kvs"]] == pairs
    assert after["header"]["revision"] >= before["header"]["revision"] + RAISED
    assert after["header"]["cluster_id"] == new.order.cluster_id
    assert after["header"]["member_id"] == new.order.member_id
    assert new.marked
    assert not (new.root / restore.FOLDER).exists()


async def test_a_watch_from_before_the_restore_gets_a_compaction_error(
    source: tuple[Cluster, Path], tmp_path: Path
) -> None:
    """It would otherwise continue as if nothing had been lost in between."""
    cluster, _ = source
    seen = etcdctl_json(cluster, "get", "", "--prefix")["header"]["revision"]
    old = cluster.first[0]
    new = target(source, tmp_path)
    assert await new.job() == 0
    old.kill()
    await new.start()

    command = etcdctl(cluster, "watch", "key-1", f"--rev={seen + 1}")
    watcher = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(90):
        out, _ = await watcher.communicate()
    assert b"compacted" in out


async def test_a_restore_killed_at_any_write_is_done_by_the_next_pod(
    source: tuple[Cluster, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source[0].first[0]
    for number in range(1, 60):
        new = target(source, tmp_path, f"new-{number}")
        left = [number]

        def counted(real: Any, left: list[int] = left) -> Any:
            def effect(*arguments: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return real(*arguments, **named)

            return effect

        with monkeypatch.context() as patches:
            for place, name in (
                (fetching.shutil, "rmtree"),
                (finishing.os, "fsync"),
                (finishing.os, "rename"),
                (volume, "write"),
            ):
                patches.setattr(place, name, counted(getattr(place, name)))
            try:
                code = await new.job()
            except Killed:
                code = None
        if code == 0:
            assert number > 6
            break
        assert not new.marked or (new.root / "data" / "member" / "wal").is_dir()
        assert await new.job() == 0, (number, new.said.read_text())
        assert new.marked
        shutil.rmtree(new.root)
    old.kill()
    await new.start()


FETCH = """
import os, sys
from pathlib import Path
from etcd_operator.job_exit import exit_at_once
from etcd_operator.restore.__main__ import run
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.restore import parse_order
order, journal = parse_order(os.environ), Journal("/dev/stderr", "restore")
code = run("fetch", order, Path(sys.argv[2]), journal, stores=sys.argv[1])
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
exit_at_once(code)
"""


async def test_a_large_backup_is_fetched_with_little_memory(tmp_path: Path) -> None:
    """In a process of its own, as in the Job, and as the Job tells it to use its memory."""
    stores, root = tmp_path / "stores", tmp_path / "volume"
    stores.mkdir()
    root.mkdir()
    content = bytes(128 * 2**20)
    (stores / STORE.key).write_bytes(content + hashlib.sha256(content).digest())
    settings = {"clusterUID": "uid", "epoch": 1, "domain": "etcd.ns.svc", "clientScheme": "http",
                "peerScheme": "http", "dnsTimeoutSeconds": 0, "etcd": {}}  # fmt: skip
    environment = {
        **os.environ,
        **{one["name"]: one["value"] for one in MALLOC_ENVIRONMENT},
        "POD_NAME": "etcd-0",
        "POD_UID": "uid",
        "POD_IP": "127.0.0.1",
        "START_SETTINGS": json.dumps(settings),
        "RESTORE": restore.serialise(1, 2, STORE, "3.7.3"),
    }

    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FETCH, str(stores), str(root), env=environment, stdout=-1, stderr=-1
    )
    out, errors = await run.communicate()

    assert run.returncode == 0, errors.decode()
    assert (root / restore.SNAPSHOT).stat().st_size == len(content) + 32
    assert int(out) < 100 * 1024, f"{int(out) // 1024} MiB"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """Once for all, of the newest minor: what is refused is decided by the files."""
    root = tmp_path_factory.mktemp("refused")
    with memory.folder(root) as folder, pytest.MonkeyPatch.context() as patches:
        patches.setattr(orders, "PROGRESS_PORT", 0)
        cluster = Cluster(BINARIES / "etcd", folder, "token")
        try:
            yield asyncio.run(stored(cluster, root / "stores"))
        finally:
            for member in cluster.members:
                member.kill()


class TestRefused:
    """Nothing of it ever gets the place of the data, and the words say why; on any minor."""

    @pytest.fixture
    def source(self, whole: tuple[Cluster, Path], tmp_path: Path) -> tuple[Cluster, Path]:
        """With files of its own."""
        cluster, stores = whole
        return cluster, Path(shutil.copytree(stores, tmp_path / "stores"))

    async def refused(self, new: Target, words: str, code: int = REFUSED_EXIT) -> None:
        assert await new.container("fetch") == code
        assert words in new.said.read_text()
        assert not new.marked
        assert not (new.root / "data").exists()

    async def test_a_flipped_bit_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        file = source[1] / "etcd.db"
        content = bytearray(file.read_bytes())
        content[len(content) // 3] ^= 8
        file.write_bytes(content)

        await self.refused(target(source, tmp_path), "etcd's hash at its end")

    async def test_a_truncated_file_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        file = source[1] / "etcd.db"
        file.write_bytes(file.read_bytes()[:-512])

        await self.refused(target(source, tmp_path), "hash")

    async def test_a_file_that_is_no_snapshot_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        (source[1] / "etcd.db").write_bytes(b"not a snapshot")

        await self.refused(target(source, tmp_path), "a complete snapshot cannot have")

    async def test_a_snapshot_that_does_not_match_its_manifest_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        """Whole in itself: only the manifest tells."""
        cluster, stores = source
        await put(cluster.first[0], b"one", b"more")
        other = replace(STORE, key="other.db")
        assert isinstance(await back_up(order_for(cluster, other), root=str(stores)), Stored)
        (stores / "other.db").rename(stores / "etcd.db")

        await self.refused(target(source, tmp_path), "the manifest beside it")

    async def test_another_backup_than_the_named_one_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        """Whole, and with a manifest that fits: the object that was named has stored another."""
        new = target(source, tmp_path)
        new.order = replace(new.order, store=replace(STORE, sha256="0" * 64))

        await self.refused(new, "another backup has taken its place")

    async def test_a_missing_file_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        for name in ("etcd.db", "etcd.db.manifest.json"):
            moved = name.replace("etcd.db", "etcd.db_v7_2026-11-21-03:00:00")
            (source[1] / name).rename(source[1] / moved)

        words = "there is no 'etcd.db' in 'claim'; the newest below it is 'etcd.db_v7_2026-11-21-"
        await self.refused(target(source, tmp_path), words, code=1)

    async def test_a_version_that_cannot_read_the_data_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        file = source[1] / "etcd.db.manifest.json"
        said = json.loads(file.read_text()) | {"etcdVersion": "3.9.1"}
        file.write_text(json.dumps(said))

        await self.refused(target(source, tmp_path), "spec.version: the backup is of etcd 3.9.1")

    async def test_a_volume_that_is_too_small_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: type("U", (), {"free": 1000}))

        await self.refused(target(source, tmp_path), "the volume has 1000 bytes left")

    async def test_a_database_larger_than_the_quota_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        """etcd would serve it, and answer each write with NOSPACE."""
        size = (source[1] / "etcd.db").stat().st_size
        new = target(source, tmp_path)
        quota = {"quota-backend-bytes": size - 4096}
        new.order = replace(new.order, settings=replace(new.order.settings, options=quota))

        await self.refused(new, f"spec.etcd.quotaBackend: the backup has {size} bytes")

    async def test_a_volume_with_data_of_another_member_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        new = target(source, tmp_path)
        other = replace(new.order.marker, cluster_uid="uid-other")
        (new.root / marker.FILE).write_bytes(marker.serialise(other))

        await self.refused(new, "the volume holds data already")
        assert (new.root / marker.FILE).read_bytes() == marker.serialise(other)

    async def test_a_volume_with_data_without_a_marker_is_refused(
        self, source: tuple[Cluster, Path], tmp_path: Path
    ) -> None:
        """For example one that another operator has filled."""
        new = target(source, tmp_path)
        shutil.copytree(source[0].first[0].folder, new.root / "data")

        assert await new.container("fetch") == REFUSED_EXIT
        assert "it is not of this restore: the log is of member" in new.said.read_text()
        assert list((new.root / "data" / "member" / "wal").glob("*.wal"))


async def test_a_backup_whose_manifest_was_withdrawn_is_checked_by_etcds_own_hash(
    source: tuple[Cluster, Path], tmp_path: Path
) -> None:
    """A backup was to take its place, and its Job died."""
    (source[1] / "etcd.db.manifest.json").write_bytes(manifest.undecided())

    assert await target(source, tmp_path).container("fetch") == 0


async def test_a_snapshot_without_a_manifest_is_restored(
    source: tuple[Cluster, Path], tmp_path: Path
) -> None:
    """As `etcdctl snapshot save` and the coreos operator made them."""
    (source[1] / "etcd.db.manifest.json").unlink()
    new = target(source, tmp_path)

    assert await new.job() == 0
    assert new.marked
