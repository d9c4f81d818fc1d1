"""Clusters with a long spec, for example with many roles: their orders and their manifests."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup.describing import describe
from etcd_operator.backup.overwriting import OverwriteRefused, check_overwrite, withdraw
from etcd_operator.backup.process import Backup
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.pruning import prune
from etcd_operator.backup.removal import remove
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import UNREADABLE, owner_of
from etcd_operator.backup.trial_restore import bring
from etcd_operator.restore import fetch as fetching
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, names, outcome, packing, recorded_cluster, trial
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Downloaded, Failure, JobReport, Removed
from etcd_stateful.manifests.jobs import unexpanded

KEY = "etcd"
STORE = Store("Volume", "claim", KEY)
ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", STORE)
LONGEST_VARIABLE = 128 * 1024
"""Linux's limit for one environment variable: MAX_ARG_STRLEN."""


def spec(roles: int, permissions: int) -> dict[str, Any]:
    said = [
        {"name": f"tenant-{role}", "permissions": [permission(role, n) for n in range(permissions)]}
        for role in range(roles)
    ]
    auth = {"rootSecret": {"name": "root"}, "roles": said, "users": []}
    return {"size": 3, "version": "3.7.3", "auth": auth}


def permission(role: int, number: int) -> dict[str, str]:
    return {"access": "ReadWrite", "prefix": f"/tenants/tenant-{role:02}/service-{number:02}/"}


def snapshot() -> bytes:
    body = bytes(4096)
    return body + hashlib.sha256(body).digest()


def described(uid: str, cluster: dict[str, Any] | None, owner: str = "ns/b") -> bytes:
    data = snapshot()
    of = recorded_cluster.record("c", cluster) if cluster else None
    sha256 = hashlib.sha256(data).hexdigest()
    made = "2026-01-01T00:00:00Z"
    told = Manifest("0a", 5, "3.7.3", len(data), sha256, made, owner, uid, cluster=of)
    return manifest.serialise(told)


LARGE = spec(64, 8)


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.sink = Sink(STORE, None, root=str(root), owner_uid="uid-b")

    def put(self, key: str, beside: bytes) -> str:
        (self.root / key).write_bytes(snapshot())
        (self.root / names.manifest_of(key)).write_bytes(beside)
        return key

    def keys(self) -> set[str]:
        return {one.name for one in self.root.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "store").mkdir()
    return Folder(tmp_path / "store")


def test_a_cluster_may_have_that_many_roles() -> None:
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "generation": 1}
    assert parse_cluster({"metadata": metadata, "spec": LARGE}).name == "c"
    assert len(described("uid-b", LARGE)) > 64 * 1024


async def test_backups_of_another_object_with_many_roles_were_pruned_as_unowned(
    folder: Folder,
) -> None:
    theirs = described("uid-other", LARGE)
    for day in range(1, 9):
        folder.put(names.stamped(KEY, 5, f"2026-01-{day:02}-00:00:00"), theirs)
    for day in range(20, 23):
        key = names.stamped(KEY, 5, f"2026-01-{day:02}-00:00:00")
        folder.put(key, described("uid-b", None))

    assert await prune(replace(ORDER, stamped=True, keep=3), folder.sink, key) == 0


async def test_a_backup_of_another_object_with_many_roles_was_overwritten(folder: Folder) -> None:
    folder.put(KEY, described("uid-other", LARGE, "ns/other"))

    with pytest.raises(OverwriteRefused, match="is the backup that ns/other"):
        await check_overwrite(replace(ORDER, scheduled=True), folder.sink, "0a")


async def test_a_restore_by_name_used_what_another_object_had_stored_in_the_same_place(
    folder: Folder,
) -> None:
    """The EtcdRestore had created a cluster from another backup than the one that it named."""
    folder.put(KEY, described("uid-other", spec(1, 1), "ns/other"))
    meant = replace(STORE, sha256="ab" * 32)

    said = await describe(replace(ORDER, action="describe", store=meant), folder.sink)

    assert isinstance(said, Failure)
    assert (said.reason, said.final) == ("BackupReplaced", True)
    assert said.message.startswith("spec.backupRef.name: the backup at volume://claim/etcd has")


async def test_a_backup_that_was_running_made_an_etcd_restore_fail_for_good(folder: Folder) -> None:
    """Until a backup has its manifest, nothing says that it belongs to another object."""
    folder.put(KEY, manifest.undecided("uid-b"))

    said = await describe(replace(ORDER, action="describe"), folder.sink)

    assert isinstance(said, Failure)
    assert (said.reason, said.final) == ("NoManifest", False)
    assert "was interrupted" in said.message


async def test_a_trial_restore_with_many_roles_never_succeeded(
    folder: Folder, tmp_path: Path
) -> None:
    folder.put(KEY, described("uid-b", LARGE))
    expected = hashlib.sha256(snapshot()).hexdigest()
    order = replace(ORDER, action="bring", expected=expected)

    assert isinstance(await bring(order, folder.sink, tmp_path), Downloaded)


async def test_a_file_of_any_size_was_fetched_only_to_find_that_it_is_another(
    folder: Folder, tmp_path: Path
) -> None:
    """It filled the node's disk, whoever had stored it."""
    folder.put(KEY, described("uid-b", None))
    expected = hashlib.sha256(snapshot()).hexdigest()
    order = replace(ORDER, action="bring", expected=expected, size=len(snapshot()))
    with (folder.root / KEY).open("ab") as file:
        file.truncate(2**26)

    said = await bring(order, folder.sink, tmp_path)

    assert isinstance(said, Failure)
    assert (said.reason, said.final) == ("VerificationFailed", True)
    assert f"has {2**26} bytes, and what was stored had {order.size}" in said.message
    assert not (tmp_path / trial.SNAPSHOT).exists()


async def test_a_backup_of_a_cluster_with_many_roles_was_not_deleted(folder: Folder) -> None:
    folder.put(KEY, described("uid-b", LARGE))

    assert await remove(replace(ORDER, action="delete"), folder.sink) == Removed(1)
    assert not folder.keys()


class TestAManifestThatIsTooLarge:
    """It exists, but cannot be read."""

    @pytest.fixture(autouse=True)
    def _too_large(self, folder: Folder) -> None:
        folder.put(KEY, b" " * (manifest.MAX_BYTES + 1))

    async def test_its_owner_is_unknown(self, folder: Folder) -> None:
        assert await owner_of(folder.sink, KEY) == UNREADABLE

    @pytest.mark.parametrize("scheduled", [False, True])
    async def test_nothing_replaces_it(self, folder: Folder, *, scheduled: bool) -> None:
        with pytest.raises(OverwriteRefused, match="cannot be read"):
            await check_overwrite(replace(ORDER, scheduled=scheduled), folder.sink, "0a")

    async def test_nothing_replaces_it_that_has_come_during_the_upload(
        self, folder: Folder
    ) -> None:
        with pytest.raises(OverwriteRefused, match="cannot be read"):
            await withdraw(ORDER, folder.sink, KEY, "00000000000000aa", 9)

    async def test_an_etcd_restore_says_so(self, folder: Folder) -> None:
        said = await describe(replace(ORDER, action="describe"), folder.sink)
        assert isinstance(said, Failure)
        assert f"more than {manifest.MAX_BYTES} bytes" in said.message

    async def test_a_trial_says_so(self, folder: Folder, tmp_path: Path) -> None:
        said = await bring(replace(ORDER, action="bring"), folder.sink, tmp_path)
        assert isinstance(said, Failure)
        assert f"more than {manifest.MAX_BYTES} bytes" in said.message

    async def test_a_restore_is_refused(self, folder: Folder) -> None:
        with pytest.raises(fetching.Refused, match=f"more than {manifest.MAX_BYTES} bytes"):
            await fetching._manifest(folder.sink, KEY)


def test_a_manifest_is_never_written_larger_than_the_limit_for_reading_it() -> None:
    """Its indentation makes each permission half as long again."""
    said = spec(1024, 40)
    plain = len(json.dumps(said))

    assert plain < manifest.MAX_BYTES
    assert len(json.dumps(said, indent=2)) > manifest.MAX_BYTES
    assert len(described("uid-b", said)) <= manifest.MAX_BYTES


def noise(length: int) -> str:
    """Text that cannot be compressed. The seed is not a secret."""
    random_bytes = random.Random(1).randbytes(length * 3 // 4)
    return base64.b64encode(random_bytes).decode()


def ordered(cluster: dict[str, Any]) -> Order:
    return replace(ORDER, cluster=recorded_cluster.record("c", cluster))


class TestTheOrder:
    def test_an_order_with_many_roles_was_too_long_for_a_variable(self) -> None:
        order = ordered(spec(64, 40))
        assert len(json.dumps(order.cluster)) > LONGEST_VARIABLE

        told = unexpanded(orders.serialise(order))

        assert orders.parse(told) == order
        subprocess.run(["/bin/true"], env={orders.VARIABLE: told}, check=True)

    def test_a_usual_order_is_plain_text(self) -> None:
        assert json.loads(orders.serialise(ordered(spec(8, 8))))["cluster"]["name"] == "c"

    def test_a_long_order_can_be_read_with_common_tools(self) -> None:
        """`base64 --decode | gunzip`."""
        told = orders.serialise(ordered(spec(64, 40)))
        text = zlib.decompress(base64.b64decode(told), wbits=31)
        assert json.loads(text)["ownerUID"] == "uid-b"

    @pytest.mark.parametrize("length", [20_000, 60_000, 100_000, 1_500_000])
    def test_dollars_do_not_make_it_too_long(self, length: int) -> None:
        """Each is six characters to the kubelet, which would expand it otherwise."""
        order = ordered({"repository": "$" * length})
        assert len(unexpanded(orders.serialise(order))) < LONGEST_VARIABLE

    @pytest.mark.parametrize("said", [{"a": noise(200_000)}, {"a": "b" * 4_000_000}])
    def test_a_spec_that_stays_too_long_is_left_out_and_that_is_reported(
        self, said: dict[str, Any]
    ) -> None:
        order = ordered(said)

        told = orders.serialise(order)

        assert len(told) < LONGEST_VARIABLE
        assert orders.parse(told) == replace(order, cluster=None, left_out=True)

    def test_an_order_that_unpacks_without_end_is_refused(self) -> None:
        bomb = base64.b64encode(zlib.compress(b" " * 10**8, wbits=31)).decode()
        with pytest.raises(orders.BadOrder):
            orders.parse(bomb)

    @pytest.mark.parametrize("text", ["", "H4sI", "not an order", "H4sIAAAAAAAA/w==", "Hé"])
    def test_a_truncated_order_is_refused(self, text: str) -> None:
        with pytest.raises(orders.BadOrder):
            orders.parse(text)


class TestASpecThatWasLeftOut:
    async def test_the_backup_says_so(self, folder: Folder) -> None:
        backup = Backup(replace(ORDER, left_out=True), folder.sink, Meter())
        assert "spec" in backup._notes[0]

    async def test_the_manifest_says_so(self, folder: Folder) -> None:
        told = replace(manifest.parse(described("uid-b", None)), left_out=True)
        assert manifest.parse(manifest.serialise(told)) == told

        folder.put(KEY, manifest.serialise(told))
        said = await describe(replace(ORDER, action="describe"), folder.sink)
        assert isinstance(said, Failure)
        assert said.reason == "NoClusterRecorded"
        assert "too long" in said.message
        assert "is of none" not in said.message


async def test_one_broken_connection_to_the_store_made_a_backup_count_as_failed(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trial restore ended for good, as if the stored file were damaged."""

    async def broken_off(*_: object) -> AsyncIterator[bytes]:
        yield bytes(64)

    folder.put(KEY, described("uid-b", None))
    monkeypatch.setattr(Sink, "read", broken_off)

    said = await bring(replace(ORDER, action="bring"), folder.sink, tmp_path)

    assert isinstance(said, Failure)
    assert (said.reason, said.final) == ("StoreUnreachable", False)
    assert f"the store sent 64 of {len(snapshot())} bytes" in said.message


class TestMessageForARestore:
    """What the Job reads for an EtcdRestore goes through 4 KiB of its pod's status."""

    async def told(self, folder: Folder, said: dict[str, Any]) -> Any:
        folder.put(KEY, described("uid-b", said))
        return await describe(replace(ORDER, action="describe"), folder.sink)

    async def test_a_cluster_with_a_few_roles_had_to_be_created_by_hand(
        self, folder: Folder
    ) -> None:
        """Its spec was recorded, but too long to be passed on."""
        said = spec(roles=20, permissions=10)
        assert len(json.dumps(said)) > 3 * outcome.MOST_BYTES

        text = outcome.serialise(await self.told(folder, said))

        assert len(text.encode()) <= outcome.MOST_BYTES
        found = outcome.parse(text).described
        assert found is not None
        assert found.spec == said

    async def test_a_spec_that_stays_too_long_is_reported(self, folder: Folder) -> None:
        found = await self.told(folder, {"a": noise(10_000)})

        assert isinstance(found, Failure)
        assert found.reason == "NoClusterRecorded"

    @pytest.mark.parametrize(
        "said",
        [
            pytest.param({"a": "b" * 2**20}, id="long"),
            pytest.param({"a": [[]] * 500_000}, id="1 s of an operator's time, at each look"),
        ],
    )
    async def test_a_spec_that_the_operator_does_not_accept_was_read_without_end(
        self, folder: Folder, said: dict[str, Any]
    ) -> None:
        """It fits. But the operator ignored the Job's message, and created the Job again."""
        found = await self.told(folder, said)

        assert isinstance(found, Failure)
        assert (found.reason, found.final) == ("NoClusterRecorded", True)

    def test_a_small_message_must_not_become_large_in_the_operator(self) -> None:
        """Whoever can write into a store decides what is in a manifest."""
        told = {"version": "3.7.3", "revision": 1, "packed": packing.pack('{"a":1}' + " " * 2**20)}
        assert outcome.parse(json.dumps({"described": told})) == JobReport()

    def test_a_spec_is_unpacked_completely_or_not_at_all(self) -> None:
        packed = packing.pack("1" * 100)
        assert packing.unpack(packed, 100) == "1" * 100
        with pytest.raises(ValueError, match="more than 99 bytes"):
            packing.unpack(packed, 99)

    @pytest.mark.parametrize("packed", ["", "H4sI", "Hé", 1, None, packing.pack("[]")])
    def test_an_invalid_packed_spec_is_ignored(self, packed: Any) -> None:
        told = {"described": {"packed": packed, "version": "3.7.3", "revision": 1}}
        assert outcome.parse(json.dumps(told)) == JobReport()


def test_a_short_text_that_unpacks_to_a_long_one_takes_no_memory() -> None:
    packed = packing.pack("0" * 2**25)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            packing.unpack(packed, 1000)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
