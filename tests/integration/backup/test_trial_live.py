"""Trial restores with each minor's own etcdutl and etcd: what is proven, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backup_orders import etcdctl, order_for
from etcd_live import Cluster, compact, fill, put
from minors import NEWEST, OLDEST, differing
from test_restore_live import fill_with_history

from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.trial_restore import bring, prove
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, trial
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Downloaded, Failure, Stored, Verified
from localkube.s3 import free_port

pytestmark = pytest.mark.integration

STORE = Store("Volume", "claim", "etcd.db")


class Pod:
    """The four containers of the Job, on a folder."""

    def __init__(self, cluster: Cluster, order: Order, root: Path) -> None:
        self.order = order
        self.root = root
        self.stores = root / "stores"
        self.folder = root / "trial"
        self.tool = cluster.tool
        self.stores.mkdir()
        self.folder.mkdir()
        self.port, self.peer_port = free_port(), free_port()
        self._etcd: subprocess.Popen[bytes] | None = None

    async def store(self) -> Stored:
        done = await back_up(self.order, root=str(self.stores))
        assert isinstance(done, Stored), done
        self.order = replace(self.order, expected=done.sha256)
        return done

    async def bring(self) -> Downloaded | Failure:
        sink = Sink(self.order.store, None, root=str(self.stores))
        return await bring(self.order, sink, self.folder)

    def _here(self, words: list[str]) -> list[str]:
        told = [self.tool(Path(words[0]).name), *words[1:]]
        for old, new in ((trial.FOLDER, str(self.folder)), (f":{trial.PORT}", f":{self.port}"),
                         (f":{trial.PEER_PORT}", f":{self.peer_port}")):  # fmt: skip
            told = [word.replace(old, new) for word in told]
        return told

    def restore(self) -> None:
        subprocess.run(self._here(trial.etcdutl()), check=True, capture_output=True)
        with (self.root / "log").open("wb") as log:
            self._etcd = subprocess.Popen(self._here(trial.etcd()), stdout=log, stderr=log)

    async def prove(self) -> Verified | Failure:
        async with asyncio.timeout(90):
            return await prove(self.order, self.folder, port=self.port)

    async def whole(self) -> Verified | Failure:
        brought = await self.bring()
        assert isinstance(brought, Downloaded), brought
        self.restore()
        return await self.prove()

    def stop(self) -> None:
        if self._etcd:
            self._etcd.kill()
            self._etcd.wait(10)


@pytest.fixture
async def pod(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Pod]:
    await fill_with_history(cluster)
    pod = Pod(cluster, order_for(cluster, STORE, measure=True), tmp_path)
    yield pod
    pod.stop()


def edit(pod: Pod, **changes: Any) -> None:
    """What the manifest says was measured."""
    path = pod.folder / trial.MANIFEST
    given = json.loads(path.read_bytes())
    given["measured"] |= changes
    path.write_text(json.dumps(given))


@differing("cluster", OLDEST, NEWEST)
async def test_a_trial_restore_finds_the_data_of_the_cluster(pod: Pod) -> None:
    done = await pod.store()

    found = await pod.whole()

    assert isinstance(found, Verified), found
    assert found.same == (f"revision {done.revision}", "59 keys", "etcd's hash")
    assert found.unknown == ()


async def test_writes_and_a_compaction_while_it_streams_are_no_difference(
    pod: Pod, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sources.Source.snapshot

    async def meanwhile(self: Any, member: Any) -> Any:
        first = cluster.first[0]
        await fill(first, 20)
        await compact(first, member.answer.revision - 1)
        async for piece in whole(self, member):
            yield piece

    monkeypatch.setattr(sources.Source, "snapshot", meanwhile)
    done = await pod.store()

    found = await pod.whole()

    assert isinstance(found, Verified), found
    assert found.same == (f"revision {done.revision + 20}", "59 keys", "etcd's hash")


async def test_another_value_under_one_key_is_a_difference(pod: Pod, cluster: Cluster) -> None:
    """Same revision, same number of keys: etcd's hash alone tells them apart."""
    await put(cluster.first[0], b"key-7", b"one value")
    await pod.store()
    assert isinstance(await pod.bring(), Downloaded)
    said = manifest.parse((pod.folder / trial.MANIFEST).read_bytes())
    assert said.measured
    [found] = said.measured.hashes
    edit(pod, hashes=[{"compacted": found.compacted, "hash": found.value ^ 1}])
    pod.restore()

    failure = await pod.prove()

    assert isinstance(failure, Failure)
    assert (failure.reason, failure.final) == ("VerificationFailed", True)
    assert failure.message == (
        "spec.volume.path: etcd.db was restored, and etcd's hash at revision "
        f"{said.revision} is not the cluster's"
    )


async def test_a_key_that_is_missing_is_a_difference(pod: Pod) -> None:
    await pod.store()
    assert isinstance(await pod.bring(), Downloaded)
    edit(pod, keys=60)
    pod.restore()

    failure = await pod.prove()

    assert isinstance(failure, Failure)
    assert "it has 59 keys at" in failure.message
    assert "and the cluster had 60" in failure.message


async def test_an_older_snapshot_with_the_manifest_of_a_newer_one_is_a_difference(
    pod: Pod, cluster: Cluster
) -> None:
    await pod.store()
    old = (pod.stores / "etcd.db").read_bytes()
    await fill(cluster.first[0], 3)
    await pod.store()
    assert isinstance(await pod.bring(), Downloaded)
    (pod.folder / trial.SNAPSHOT).write_bytes(old)
    pod.restore()

    failure = await pod.prove()

    assert isinstance(failure, Failure)
    assert "and the backup is of" in failure.message


@pytest.mark.parametrize("damage", ["flipped", "another", "gone", "undecided"])
async def test_a_backup_that_was_changed_in_the_store_is_not_tried(
    pod: Pod, cluster: Cluster, damage: str
) -> None:
    await pod.store()
    file, beside = pod.stores / "etcd.db", pod.stores / "etcd.db.manifest.json"
    if damage == "flipped":
        data = bytearray(file.read_bytes())
        data[4096] ^= 1
        file.write_bytes(data)
    elif damage == "another":
        expected = pod.order.expected
        await fill(cluster.first[0], 1)
        await pod.store()
        pod.order = replace(pod.order, expected=expected)
    elif damage == "gone":
        beside.unlink()
    else:
        beside.write_bytes(manifest.undecided())

    failure = await pod.bring()

    assert isinstance(failure, Failure)
    assert failure.reason == "VerificationFailed"
    assert failure.message.startswith("spec.volume.path: ")


async def test_data_with_users_is_read_with_a_root_certificate(pod: Pod, cluster: Cluster) -> None:
    done = await pod.store()
    data = pod.stores / "etcd.db"
    for words in (
        "user add root:pw",
        "user grant-role root root",
        "auth enable",
        f"--user=root:pw snapshot save {data}",
    ):
        command = etcdctl(cluster, *words.split())
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    path = pod.stores / "etcd.db.manifest.json"
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    said = replace(manifest.parse(path.read_bytes()), sha256=digest)
    path.write_bytes(manifest.serialise(said))
    pod.order = replace(pod.order, expected=digest)

    found = await pod.whole()

    assert isinstance(found, Verified), found
    assert found.same == (f"revision {done.revision}", "59 keys", "etcd's hash")
