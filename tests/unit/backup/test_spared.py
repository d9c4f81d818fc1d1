"""What an EtcdBackup without an interval finds at its path, and which of it must stay."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup import process
from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.overwriting import withdraw
from etcd_operator.backup.process import Backup
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.source import Member, Unusable
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.choice import EndpointStatus
from etcd_stateful.backup.manifest import Manifest, Undecided
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored

KEY = "before-the-upgrade.db"
STORE = Store("Volume", "claim", KEY)
ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", STORE)
ANSWER = EndpointStatus("etcd:2379", 1, 2, 2, learner=False, revision=3, version="3.7.3", db_size=0)
OURS, ANOTHERS = f"{1:016x}", f"{2:016x}"
OF_BEFORE = b"of before"
NO_QUORUM = Failure("EtcdRefused", "spec.etcdEndpoints: there is no quorum")


class Etcd:
    """Cluster 1, in its present state."""

    def __init__(self, _: Order) -> None:
        body = bytes(4096)
        self.data = body + hashlib.sha256(body).digest()

    async def __aenter__(self) -> Etcd:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def members(self) -> list[Member]:
        return [Member(ANSWER, None)]

    async def caught_up(self, member: Member) -> Member:
        return member

    async def snapshot(self, _: Member) -> AsyncIterator[bytes]:
        yield self.data


class Empty(Etcd):
    """The cluster that was created again under the same name."""

    async def members(self) -> list[Member]:
        return [Member(replace(ANSWER, cluster_id=2), None)]


class WithoutQuorum(Etcd):
    async def members(self) -> list[Member]:
        raise Unusable(NO_QUORUM)


class Killed(Exception):
    pass


async def killed(*_: object) -> None:
    raise Killed


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(process, "Source", Etcd)
    return tmp_path


def put(root: Path, beside: bytes | None) -> None:
    (root / KEY).write_bytes(OF_BEFORE)
    if beside is not None:
        (root / names.manifest_of(KEY)).write_bytes(beside)


def of(cluster_id: str, uid: str, run: str = "", revision: int = ANSWER.revision) -> bytes:
    size, made = len(OF_BEFORE), "2026-01-01T00:00:00Z"
    told = Manifest(cluster_id, revision, "3.7.3", size, "ff", made, "ns/b", uid, run=run)
    return manifest.serialise(told)


async def backed_up(root: Path, **changes: Any) -> Stored | Failure:
    order = replace(ORDER, **changes)
    return await Backup(order, Sink(STORE, None, root=str(root), owner_uid="uid-b"), Meter()).run()


async def test_an_empty_cluster_of_the_same_name_replaced_the_last_good_backup(
    root: Path,
) -> None:
    """All manifests were applied again after a loss, including the EtcdBackup's."""
    put(root, of(ANOTHERS, "uid-of-before"))

    said = await backed_up(root)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert said.message.startswith(f"spec.volume.path: {KEY} is the backup that ns/b (UID uid-of-")
    assert "give this EtcdBackup another path" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE
    assert manifest.parse((root / names.manifest_of(KEY)).read_bytes()).cluster_id == ANOTHERS


@pytest.mark.parametrize("beside", [of(OURS, "uid-of-before"), b"{}"])
async def test_an_object_that_was_applied_again_replaced_what_it_was_created_to_keep(
    root: Path, beside: bytes
) -> None:
    """Its saved manifest was applied after the upgrade."""
    put(root, beside)

    said = await backed_up(root, brought_back=True)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert "left as it is" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE
    (root / names.manifest_of(KEY)).write_bytes(of(OURS, "uid-b"))
    assert isinstance(await backed_up(root, brought_back=True), Stored), "its own"


@pytest.mark.parametrize("of_many", ["brought_back", "scheduled"])
async def test_an_object_that_was_applied_again_replaced_a_backup_that_had_not_been_read_back(
    root: Path, of_many: str
) -> None:
    """The Job had stored all of it, and ended with its namespace before it wrote the manifest."""
    put(root, manifest.undecided("uid-of-before", OURS))

    said = await backed_up(root, **{of_many: True})

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert "was interrupted, and may be complete" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE
    for own in (manifest.undecided("uid-b", OURS), manifest.undecided("", OURS)):
        (root / names.manifest_of(KEY)).write_bytes(own)
        assert isinstance(await backed_up(root, **{of_many: True}), Stored), "its own, or nobody's"


@pytest.mark.parametrize("verify", [False, True])
async def test_a_backup_whose_job_had_died_was_replaced_by_that_of_an_empty_cluster(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, verify: bool
) -> None:
    """The lost node had run the Job and the last member. The file was complete, and nothing said
    which cluster it was of."""
    before = replace(ORDER, owner_uid="uid-of-before", verify=verify)
    for dies in (False, True):
        with monkeypatch.context() as patched:
            if dies:
                patched.setattr(Backup, "_describe", killed)
            sink = Sink(STORE, None, root=str(root), owner_uid="uid-of-before")
            with contextlib.suppress(Killed):
                await Backup(before, sink, Meter()).run()
    last = (root / KEY).read_bytes()
    monkeypatch.setattr(process, "Source", Empty)

    said = await backed_up(root)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert f"of etcd cluster {OURS}, and this would be of {ANOTHERS}" in said.message
    assert (root / KEY).read_bytes() == last
    assert isinstance(await backed_up(root, owner_uid="uid-of-before"), Stored), "its own"


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(b'{"format": 2, "compression": "zstd"}', id="of a newer operator"),
        pytest.param(of(OURS, "uid-b")[:100], id="cut off"),
        pytest.param(b"{}", id="that says nothing"),
    ],
)
async def test_a_backup_whose_manifest_could_not_be_read_was_replaced(
    root: Path, beside: bytes
) -> None:
    """It may be of any cluster, as the last one of a cluster that is lost."""
    put(root, beside)

    said = await backed_up(root)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert f"{KEY} has a manifest that cannot be read" in said.message
    assert f"delete {KEY}.manifest.json, or give this EtcdBackup another path" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE
    assert (root / names.manifest_of(KEY)).read_bytes() == beside


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(of(OURS, "uid-of-before"), id="of the same cluster, as with coreos"),
        pytest.param(of(ANOTHERS, "uid-b"), id="its own, of the cluster that it named before"),
        pytest.param(manifest.undecided(), id="one that did not come to its end"),
        pytest.param(
            manifest.undecided("uid-of-before", OURS), id="such a one of the same cluster"
        ),
        pytest.param(None, id="without a manifest, as of the coreos operator"),
    ],
)
async def test_anything_else_is_replaced(root: Path, beside: bytes | None) -> None:
    put(root, beside)

    assert isinstance(await backed_up(root), Stored)

    assert (root / KEY).read_bytes() != OF_BEFORE
    assert manifest.parse((root / names.manifest_of(KEY)).read_bytes()).cluster_id == OURS


@pytest.mark.parametrize(
    "beside",
    [of(OURS, "uid-of-before"), manifest.undecided("uid-of-before", OURS), None],
    ids=["with a manifest", "interrupted", "without a manifest"],
)
async def test_a_backup_that_a_restore_was_about_to_read_was_replaced(
    root: Path, beside: bytes | None
) -> None:
    """Each hour a script makes an EtcdBackup with the same path. The one after the damage came
    before the restore had read the one from before it."""
    put(root, beside)

    said = await backed_up(root, spare=(KEY,))

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert "give this EtcdBackup another path" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE


@pytest.mark.parametrize("uid", ["uid-of-before", "uid-b"])
async def test_writes_that_a_recovery_had_lost_were_lost_with_the_backup_that_had_them(
    root: Path, uid: str
) -> None:
    """A recovery keeps the ID of the cluster, and the survivor had been behind. A script made the
    same EtcdBackup again."""
    put(root, of(OURS, uid, run="g1", revision=ANSWER.revision + 1))

    said = await backed_up(root, run="g2")

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", False), "another may have been as fast"
    assert "at revision 4, and this would be of 3: the cluster may have lost" in said.message
    assert (root / KEY).read_bytes() == OF_BEFORE
    assert manifest.parse((root / names.manifest_of(KEY)).read_bytes()).revision == 4


@pytest.mark.parametrize("there", [True, False], ids=["its own", "nothing yet"])
async def test_a_backup_that_a_restore_waits_for_is_made(root: Path, there: bool) -> None:
    if there:
        put(root, of(OURS, "uid-b"))

    assert isinstance(await backed_up(root, spare=(KEY,)), Stored)


async def test_the_file_that_a_restore_was_reading_was_replaced_after_an_edit_of_its_own_object(
    root: Path,
) -> None:
    """It had failed its trial, whose message asks for a higher timeout. It was restored all the
    same, as the last one from before the damage."""
    put(root, of(OURS, "uid-b", run="g1"))

    said = await backed_up(root, spare=(KEY,), run="g2")

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert (root / KEY).read_bytes() == OF_BEFORE


async def test_an_attempt_that_died_kept_the_next_one_from_the_path_that_a_restore_waits_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had stored its file, and had yet to write the manifest that says whose it is."""
    with monkeypatch.context() as patch:
        patch.setattr(Backup, "_describe", killed)
        with pytest.raises(Killed):
            await backed_up(root, spare=(KEY,))
    assert (root / KEY).exists()

    assert isinstance(await backed_up(root, spare=(KEY,)), Stored)


@pytest.mark.parametrize(
    ("theirs", "changes"),
    [(ANOTHERS, {}), (OURS, {"brought_back": True}), (OURS, {"scheduled": True})],
)
async def test_a_backup_that_had_come_during_the_upload_was_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch, theirs: str, changes: dict[str, bool]
) -> None:
    """Two clusters had one path and were backed up at the same hour. The one of the slower upload
    looked before it and not after it, and the last backup of the other cluster was gone."""

    class Slow(Etcd):
        async def snapshot(self, _: Member) -> AsyncIterator[bytes]:
            yield self.data[:2048]
            put(root, of(theirs, "uid-c"))
            yield self.data[2048:]

    monkeypatch.setattr(process, "Source", Slow)
    said = await backed_up(root, **changes)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("AlreadyStored", True)
    assert (root / KEY).read_bytes() == OF_BEFORE
    beside = manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert (beside.owner_uid, beside.cluster_id) == ("uid-c", theirs)


async def test_a_backup_that_had_come_during_the_upload_was_replaced_as_the_store_failed_just_then(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look had no answer, and that was taken for a right that the credentials lack."""

    async def down(*_: object) -> None:
        raise StoreFailed(Failure("StoreUnreachable", "503"))

    class Slow(Etcd):
        async def snapshot(self, _: Member) -> AsyncIterator[bytes]:
            yield self.data[:2048]
            put(root, of(ANOTHERS, "uid-c"))
            monkeypatch.setattr(Sink, "get", down)
            yield self.data[2048:]

    monkeypatch.setattr(process, "Source", Slow)
    said = await backed_up(root)

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("StoreUnreachable", False)
    assert (root / KEY).read_bytes() == OF_BEFORE
    assert manifest.parse((root / names.manifest_of(KEY)).read_bytes()).owner_uid == "uid-c"


class Interrupting(Sink):
    """A store in which something else happens once the file is written."""

    def __init__(
        self, root: Path, meanwhile: Callable[[], Awaitable[object]], *, verifies: bool = False
    ) -> None:
        super().__init__(STORE, None, root=str(root), owner_uid="uid-b")
        self.meanwhile, self.verifies = meanwhile, verifies

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        await super().write(key, pieces)
        if not self.verifies:
            await self.meanwhile()

    async def read(self, key: str) -> AsyncGenerator[memoryview, None]:
        async for piece in super().read(key):
            yield piece
        if self.verifies:
            await self.meanwhile()


class Later(Etcd):
    """The same cluster, a few writes later."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        body = bytes(1024) + b"written since" + bytes(3072 - len(b"written since"))
        self.data = body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("verify", [False, True])
async def test_two_objects_with_one_path_ended_with_the_file_of_one_and_the_manifest_of_the_other(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, verify: bool
) -> None:
    """Both had succeeded, and no restore accepted the result."""
    theirs = replace(ORDER, owner="ns/c", owner_uid="uid-c", verify=verify)

    async def meanwhile() -> None:
        monkeypatch.setattr(process, "Source", Later)
        sink = Sink(STORE, None, root=str(root), owner_uid="uid-c")
        assert isinstance(await Backup(theirs, sink, Meter()).run(), Stored)

    sink = Interrupting(root, meanwhile, verifies=verify)
    said = await Backup(replace(ORDER, verify=verify), sink, Meter()).run()

    assert isinstance(said, Failure), said
    assert (said.reason, said.final) == ("VerificationFailed", False)
    assert said.message.startswith(f"spec.volume.path: what lies at {KEY} is not what was stored")
    assert (root / KEY).read_bytes() == Later(ORDER).data
    beside = manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert beside.owner_uid == "uid-c"


async def test_the_file_of_another_object_was_deleted_with_one_that_was_still_reading_it_back(
    root: Path,
) -> None:
    async def meanwhile() -> None:
        (root / KEY).write_bytes(Later(ORDER).data)  # whose own manifest is not written yet

    sink = Interrupting(root, meanwhile, verifies=True)
    assert isinstance(await Backup(replace(ORDER, verify=True), sink, Meter()).run(), Failure)

    with pytest.raises(Undecided) as found:
        manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert found.value.owner_uid == ""


async def test_the_manifest_of_another_object_was_replaced_by_one_that_reads_its_file_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file had been replaced before that, and would have been deleted with this object."""
    theirs = replace(ORDER, owner="ns/c", owner_uid="uid-c")

    async def meanwhile() -> None:
        monkeypatch.setattr(process, "Source", Later)
        sink = Sink(STORE, None, root=str(root), owner_uid="uid-c")
        assert isinstance(await Backup(theirs, sink, Meter()).run(), Stored)

    said = await Backup(replace(ORDER, verify=True), Interrupting(root, meanwhile), Meter()).run()

    assert isinstance(said, Failure), said
    assert said.message.startswith(f"spec.volume.path: what lies at {KEY} is not what was stored")
    beside = manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert (beside.owner_uid, beside.size) == ("uid-c", len(Later(ORDER).data))


@pytest.mark.parametrize(
    ("found", "owner"), [(Later(ORDER).data, ""), (b"damaged", "uid-b")], ids=["whole", "damaged"]
)
async def test_the_file_of_another_object_was_deleted_with_one_that_had_not_read_it_back_yet(
    root: Path, monkeypatch: pytest.MonkeyPatch, found: bytes, owner: str
) -> None:
    """What the store has damaged stays this object's own."""
    marking = process.mark

    async def mark(sink: Sink, key: str, *known: str) -> None:
        await marking(sink, key, *known)
        (root / KEY).write_bytes(found)

    monkeypatch.setattr(process, "mark", mark)
    said = await backed_up(root, verify=True)

    assert isinstance(said, Failure), said
    assert said.reason == "VerificationFailed"
    with pytest.raises(Undecided) as left:
        manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert left.value.owner_uid == owner


@pytest.mark.parametrize(("whose", "owner"), [("uid-c", ""), ("uid-b", "uid-b")])
async def test_the_file_of_another_object_was_deleted_with_one_that_died_before_it_replaced_it(
    root: Path, whose: str, owner: str
) -> None:
    put(root, of(OURS, whose))
    sink = Sink(STORE, None, root=str(root), owner_uid="uid-b")
    await withdraw(ORDER, sink, KEY, OURS, ANSWER.revision)

    with pytest.raises(Undecided) as left:
        manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert left.value.owner_uid == owner


async def test_what_the_store_has_cut_short_stays_the_objects_own(root: Path) -> None:
    async def meanwhile() -> None:
        (root / KEY).write_bytes(OF_BEFORE)

    said = await Backup(replace(ORDER, verify=True), Interrupting(root, meanwhile), Meter()).run()

    assert isinstance(said, Failure), said
    assert "reads back differently" in said.message
    with pytest.raises(Undecided) as left:
        manifest.parse((root / names.manifest_of(KEY)).read_bytes())
    assert left.value.owner_uid == "uid-b"


class TestFilesOfAnAttemptWhosePodIsGone:
    """The pod was gone with its node before the operator had noticed its success. The backup was
    taken again hours later, and replaced what it was created to keep."""

    async def stored(self, root: Path, **changes: Any) -> Stored:
        said = await backed_up(root, **changes)
        assert isinstance(said, Stored)
        return said

    async def test_counts_as_what_that_run_has_stored(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = await self.stored(root, run="g1")
        monkeypatch.setattr(process, "Source", Later)

        again = await self.stored(root, run="g1")

        assert (root / KEY).read_bytes() == Etcd(ORDER).data
        made_at = manifest.parse((root / names.manifest_of(KEY)).read_bytes()).made_at
        assert again.notes == (
            f"it was made at {made_at}, by a try that did not report its result",
        )
        assert replace(again, notes=()) == first

    async def test_was_replaced_by_an_attempt_that_had_begun_before_it(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A node came back, or a frozen machine went on, after its pod was deleted by force and
        another had stored the backup. The status had the SHA-256 of that one, so a restore by the
        name of the EtcdBackup, and its trial restore, refused what was there."""

        class Frozen(Later):
            async def snapshot(self, _: Member) -> AsyncIterator[bytes]:
                yield self.data[:2048]
                monkeypatch.setattr(process, "Source", Etcd)
                await backed_up(root, run="g1")
                yield self.data[2048:]

        monkeypatch.setattr(process, "Source", Frozen)
        late = await self.stored(root, run="g1")

        assert (root / KEY).read_bytes() == Etcd(ORDER).data
        beside = manifest.parse((root / names.manifest_of(KEY)).read_bytes())
        assert late.sha256 == beside.sha256 == hashlib.sha256(Etcd(ORDER).data).hexdigest()

    async def test_was_reported_as_failed_if_the_quorum_was_lost_with_that_node(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The EtcdBackup had failed, just when it was needed, and no restore by its name took what
        it had stored."""
        first = await self.stored(root, run="g1")
        monkeypatch.setattr(process, "Source", WithoutQuorum)

        again = await self.stored(root, run="g1")

        assert replace(again, notes=()) == first
        for other in ({"run": "g2"}, {"run": ""}, {"run": "g1", "owner_uid": "uid-c"}):
            assert await backed_up(root, **other) == NO_QUORUM

    @pytest.mark.parametrize(("uid", "run"), [("uid-b", "g2"), ("uid-b", ""), ("uid-c", "g1")])
    async def test_is_replaced_by_another_run_or_object(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, uid: str, run: str
    ) -> None:
        await self.stored(root, run="g1")
        monkeypatch.setattr(process, "Source", Later)

        await self.stored(root, owner_uid=uid, run=run)

        assert (root / KEY).read_bytes() == Later(ORDER).data

    async def test_does_not_count_if_the_file_does_not_match_its_manifest(self, root: Path) -> None:
        await self.stored(root, run="g1")
        (root / KEY).write_bytes(OF_BEFORE)

        assert (await self.stored(root, run="g1")).notes == ()

        assert (root / KEY).read_bytes() == Etcd(ORDER).data


class TestTwoIntervalsInOneSecond:
    """Copies of one manifest, applied together, had the same path, second and revision, and so the
    same name. Both had succeeded, and no restore accepted what was stored."""

    MOMENT = 1_800_000_000.0
    NAME = names.stamped(KEY, ANSWER.revision, "2027-01-15-08:00:00")

    async def run(self, root: Path, uid: str, sink: Sink | None = None) -> Stored | Failure:
        order = replace(ORDER, owner=f"ns/{uid}", owner_uid=uid, stamped=True)
        sink = sink or Sink(STORE, None, root=str(root), owner_uid=uid)
        return await Backup(order, sink, Meter(), wall_clock=lambda: self.MOMENT).run()

    async def test_what_the_other_had_stored_was_replaced(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert isinstance(await self.run(root, "uid-b"), Stored)
        monkeypatch.setattr(process, "Source", Later)

        said = await self.run(root, "uid-c")

        assert isinstance(said, Failure), said
        assert (said.reason, said.final) == ("AlreadyStored", False), "of another second it may be"
        assert said.message.startswith(f"spec.volume.path: there is a backup {self.NAME} already")
        assert (root / self.NAME).read_bytes() == Etcd(ORDER).data
        assert {path.name for path in root.iterdir()} == {self.NAME, names.manifest_of(self.NAME)}

    async def test_a_backup_that_was_replaced_before_it_was_finished_had_succeeded(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def meanwhile() -> None:
            monkeypatch.setattr(process, "Source", Later)
            (root / self.NAME).unlink()  # which that one had not seen yet
            assert isinstance(await self.run(root, "uid-c"), Stored)

        said = await self.run(root, "uid-b", Interrupting(root, meanwhile))

        assert isinstance(said, Failure), said
        assert (said.reason, said.final) == ("VerificationFailed", False)
        beside = manifest.parse((root / names.manifest_of(self.NAME)).read_bytes())
        assert beside.owner_uid == "uid-c"
        assert beside.sha256 == hashlib.sha256((root / self.NAME).read_bytes()).hexdigest()


class TestFilesThatCouldNotBeReadBack:
    """The database had grown, and the time was over while it was read back. Each run left a whole
    file, which counted nowhere and which nothing deleted. The store filled up for ever."""

    async def run(self, root: Path, hour: int = 0, **changes: Any) -> Stored | Failure:
        async def too_late() -> None:
            backup.stop(Failure("TimedOut", "60 s have passed", final=True))

        order = replace(ORDER, verify=True, **changes)
        sink = Interrupting(root, too_late)
        moment = TestTwoIntervalsInOneSecond.MOMENT + 3600 * hour
        backup = Backup(order, sink, Meter(), wall_clock=lambda: moment)
        return await backup.run()

    async def test_the_failure_says_what_is_left(self, root: Path) -> None:
        said = await self.run(root)

        told = Failure("TimedOut", "60 s have passed", final=True, left=f"volume://claim/{KEY}")
        assert said == told

    async def test_at_an_interval_only_as_many_stay_as_backups_are_kept(self, root: Path) -> None:
        for hour in range(6):
            said = await self.run(root, hour, stamped=True, keep=2)
            assert isinstance(said, Failure)

        last = [names.stamped(KEY, 3, f"2027-01-15-{hour}:00:00") for hour in (12, 13)]
        assert {one.name for one in root.iterdir()} == {*last, *map(names.manifest_of, last)}
        assert said.left == f"volume://claim/{last[-1]}"

    async def test_what_another_object_has_stored_meanwhile_is_not_left_by_this_one(
        self, root: Path
    ) -> None:
        async def meanwhile() -> None:
            put(root, of(OURS, "uid-c"))

        sink = Interrupting(root, meanwhile)
        said = await Backup(replace(ORDER, verify=True), sink, Meter()).run()

        assert isinstance(said, Failure)
        assert not said.left


async def test_a_store_that_keeps_nothing_and_reports_success_is_a_failure(root: Path) -> None:
    async def meanwhile() -> None:
        (root / KEY).unlink()

    said = await Backup(ORDER, Interrupting(root, meanwhile), Meter()).run()

    assert isinstance(said, Failure), said
    assert said.reason == "VerificationFailed"


@pytest.mark.parametrize("look", ["ends", "get"])
async def test_without_the_right_to_read_the_check_is_skipped(
    root: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    async def forbidden(*_: object) -> bool:
        raise StoreFailed(Failure("StoreRefused", "no"), forbidden=True)

    monkeypatch.setattr(Sink, look, forbidden)

    assert isinstance(await backed_up(root), Stored)
