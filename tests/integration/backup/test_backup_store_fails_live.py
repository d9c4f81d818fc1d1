"""A store that fails at any request of a backup, or answers slowly."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from backup_orders import at_s3, lasting, order_for
from clouds import FULL
from etcd_live import Cluster, fill
from faulty import Faulty, proxied

from etcd_operator.backup import clients
from etcd_operator.backup import sink as sinks
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.backup import manifest
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration


def writes(request: web.Request) -> bool:
    """A full store answers all else."""
    return request.method in ("PUT", "POST")


async def requests_of(order: Order, proxy: Faulty, secret: str) -> int:
    """How many requests a backup takes that nothing disturbs."""
    assert isinstance(await back_up(order, secret=secret), Stored)
    assert len(proxy.seen) >= 5, proxy.seen
    return len(proxy.seen)


class TestTheStoreFails:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sinks, "PART", 5 * 1024 * 1024)
        backoff = {"init_backoff": timedelta(milliseconds=20)}
        patience = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
        monkeypatch.setattr(clients, "_PATIENT", {**patience, "backoff": backoff})

    @pytest.mark.parametrize(
        ("fault", "verify"),
        [
            (500, False),
            pytest.param(503, False, marks=pytest.mark.verify),
            ("reset", True),
            pytest.param("reset", False, marks=pytest.mark.verify),
            ("lost", False),
            pytest.param("lost", True, marks=pytest.mark.verify),
        ],
    )
    async def test_one_failure_of_any_request_is_retried(
        self,
        shared_cluster: Cluster,
        s3: S3Server,
        bucket: tuple[str, Path],
        secret: str,
        fault: int | str,
        verify: bool,
    ) -> None:
        async with proxied(s3.endpoint) as proxy:
            store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
            order = order_for(shared_cluster, store, verify=verify)
            for at in range(await requests_of(order, proxy, secret)):
                proxy.seen.clear()
                proxy.judge = lambda number, _, at=at: fault if number == at else None
                done = await back_up(order, secret=secret)
                assert isinstance(done, Stored), (at, proxy.seen, done)
                assert done.verified is verify

    @pytest.mark.parametrize(
        ("fault", "verify"),
        [
            pytest.param(500, False, marks=pytest.mark.verify),
            pytest.param(403, False, marks=pytest.mark.verify),
            pytest.param("reset", False, marks=pytest.mark.verify),
            pytest.param(403, True, marks=pytest.mark.verify),
            (507, True),
        ],
    )
    async def test_a_lasting_failure_from_any_request_on_leaves_no_partial_backup(
        self,
        shared_cluster: Cluster,
        s3: S3Server,
        bucket: tuple[str, Path],
        secret: str,
        fault: int | str,
        verify: bool,
    ) -> None:
        async with proxied(s3.endpoint) as proxy:
            store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
            order = order_for(shared_cluster, store, verify=verify)
            file = bucket[1] / "a" / "etcd.backup"
            for at in range(await requests_of(order, proxy, secret)):
                file.write_text("of before")
                proxy.seen.clear()
                proxy.judge = lambda number, request, at=at: (
                    fault if number >= at and (fault != 507 or writes(request)) else None
                )
                done = await back_up(order, secret=secret)
                assert isinstance(done, Failure), (at, proxy.seen, done)
                reason, words = lasting(store)[fault]
                assert (done.reason, done.final) == (reason, False), (at, proxy.seen, done)
                assert done.message.startswith(words), (at, proxy.seen, done)
                written = file.read_bytes()
                assert written == b"of before" or len(written) > FULL

    async def test_a_new_file_never_has_the_manifest_of_an_old_one(
        self, one_member: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
    ) -> None:
        """A deletion by the old owner's UID would take the new file with it."""
        await fill(one_member.first[0], 6, 1_000_000)
        seen = set()
        async with proxied(s3.endpoint) as proxy:
            store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
            for at in range(20):
                proxy.judge = lambda *_: None
                old = order_for(one_member, store, owner_uid=f"old-{at}")
                before = await back_up(old, secret=secret)
                assert isinstance(before, Stored)
                await fill(one_member.first[0], 1)
                proxy.seen.clear()
                proxy.judge = lambda number, _, at=at: 500 if number >= at else None
                done = await back_up(order_for(one_member, store), secret=secret)

                file = (bucket[1] / "a" / "etcd.backup").read_bytes()
                text = (bucket[1] / "a" / "etcd.backup.manifest.json").read_bytes()
                if text == manifest.undecided(cluster_id=before.cluster_id):
                    assert hashlib.sha256(file[:-32]).digest() == file[-32:]
                    seen.add("undecided")
                else:
                    beside = manifest.parse(text)
                    assert beside.sha256 == hashlib.sha256(file).hexdigest()
                    assert beside.owner_uid == (
                        "uid-b" if isinstance(done, Stored) else old.owner_uid
                    )
                    seen.add(beside.owner_uid.partition("-")[0])
                if isinstance(done, Stored):
                    break

        assert seen == {"old", "undecided", "uid"}

    async def test_a_backup_to_a_hanging_store_ends_at_its_deadline(
        self, shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
    ) -> None:
        async with proxied(s3.endpoint) as proxy:
            proxy.judge = lambda _, request: "slow" if request.method in ("PUT", "POST") else None
            store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
            began = asyncio.get_running_loop().time()
            done = await back_up(order_for(shared_cluster, store, timeout=2), secret=secret)

        assert isinstance(done, Failure)
        assert (done.reason, done.final) == ("TimedOut", True)
        assert "timeoutInSecond: 2 s have passed" in done.message
        assert asyncio.get_running_loop().time() - began < 60, "it waited for the store"

    async def test_a_store_that_hangs_at_any_request_is_named_before_the_deadline(
        self, one_member: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
        monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        async with proxied(s3.endpoint) as proxy:
            order = order_for(
                one_member, replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint), verify=True
            )
            assert isinstance(await back_up(order, secret=secret), Stored)
            requests = len(proxy.seen)
            assert requests >= 5, proxy.seen
            monkeypatch.setattr(clients, "SILENT_SECONDS", 1.0)
            monkeypatch.setattr(clients, "FIRST_LOOK_SECONDS", 1.0)
            monkeypatch.setattr(clients, "_WRITING", clients._CLIENT)
            monkeypatch.setattr(clients, "_STUBBORN", {})
            monkeypatch.setattr(clients, "_PATIENT", {"max_retries": 3})
            for at in range(requests):
                proxy.seen.clear()
                proxy.judge = lambda number, _, at=at: "slow" if number >= at else None
                done = await back_up(order, secret=secret)

                assert isinstance(done, Failure), (at, proxy.seen, done)
                assert (done.reason, done.final) == ("StoreUnreachable", False), (at, proxy.seen)
                assert done.message.startswith(f"spec.s3.endpoint: {proxy.endpoint} cannot be")

    async def test_a_slow_read_has_no_overall_deadline(
        self, shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
        monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        """A deadline for the whole of an answer would be one for the size of a backup."""
        store = at_s3(s3, bucket[0])
        assert isinstance(await back_up(order_for(shared_cluster, store), secret=secret), Stored)
        short = clients._CLIENT | {"timeout": timedelta(seconds=1)}
        monkeypatch.setattr(clients, "_CLIENT", short)
        async with proxied(s3.endpoint) as proxy:
            proxy.judge = lambda *_: "drip"
            sink = sinks.Sink(replace(store, endpoint=proxy.endpoint), sinks.read_secret(secret))
            read = [len(piece) async for piece in sink.read(store.key)]

        assert sum(read) > FULL
        assert len(proxy.seen) == 1

    async def test_write_only_credentials_are_sufficient_for_a_backup(
        self, shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
    ) -> None:
        async with proxied(s3.endpoint) as proxy:
            proxy.judge = lambda _, request: 403 if request.method in ("GET", "HEAD") else None
            store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
            done = await back_up(order_for(shared_cluster, store), secret=secret)

        assert isinstance(done, Stored)
