"""A store fails, once or for good, while a restore's Job fetches the backup from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from backup_orders import at_s3, lasting, order_for
from etcd_live import Cluster
from faulty import Faulty, proxied
from test_restore_live import Target

from etcd_operator.backup import clients
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.jobs import restore
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

LOOK = "GET /"
"""The first look, which has tests of its own."""

REQUESTS = ("GET /a/etcd.backup.manifest.json", "HEAD /a/etcd.backup", "GET /a/etcd.backup")
WITHOUT_BODY = ("HEAD /a/etcd.backup", "cut")
"""There is no half of that answer."""


def cases(in_every_run: tuple[int | str, ...], *others: int | str) -> pytest.MarkDecorator:
    """Every request with each of the faults, the others with `make verify` only."""
    marks = dict.fromkeys(in_every_run, ()) | dict.fromkeys(others, (pytest.mark.verify,))
    pairs = [(request, fault) for request in REQUESTS for fault in marks]
    kept = [one for one in pairs if one != WITHOUT_BODY]
    params = [pytest.param(*one, marks=marks[one[1]], id=f"{one[1]}-{one[0]}") for one in kept]
    return pytest.mark.parametrize(("asked_for", "fault"), params)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = {"init_backoff": timedelta(milliseconds=20)}
    patience = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    monkeypatch.setattr(clients, "_PATIENT", {**patience, "backoff": backoff})
    monkeypatch.setattr(clients, "SILENT_SECONDS", 2.0)


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[Faulty]:
    async with proxied(s3.endpoint) as found:
        yield found


@pytest.fixture
async def new(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str, proxy: Faulty,
    tmp_path: Path
) -> Target:  # fmt: skip
    """Its backup is in the store behind the proxy, which has seen nothing yet."""
    store = at_s3(s3, bucket[0])
    assert isinstance(await back_up(order_for(shared_cluster, store), secret=secret), Stored)
    behind: Store = replace(store, endpoint=proxy.endpoint)
    return Target(shared_cluster, tmp_path / "new", tmp_path, store=behind, secret=secret)


def is_fetched(new: Target, bucket: Path) -> bool:
    """All of it, and as it was stored."""
    file = new.root / restore.SNAPSHOT
    return file.exists() and file.read_bytes() == (bucket / "a" / "etcd.backup").read_bytes()


def asked(proxy: Faulty, bucket: str) -> tuple[str, ...]:
    paths = (one.partition("?")[0] for one in proxy.seen)
    return tuple(one.replace(f"/{bucket}", "", 1) if "/a/" in one else LOOK for one in paths)


async def test_no_request_of_a_restore_is_left_out(
    new: Target, proxy: Faulty, bucket: tuple[str, Path]
) -> None:
    assert await new.container("fetch") == 0, new.said.read_text()
    assert is_fetched(new, bucket[1])
    assert asked(proxy, bucket[0]) == (LOOK, *REQUESTS)


@cases((500, "cut"), 503, "reset", "lost", "slow")
async def test_one_failure_of_any_request_of_a_restore_is_retried(
    new: Target, proxy: Faulty, bucket: tuple[str, Path], asked_for: str, fault: int | str
) -> None:
    at = 1 + REQUESTS.index(asked_for)
    proxy.judge = lambda number, _: fault if number == at else None

    assert await new.container("fetch") == 0, new.said.read_text()
    assert is_fetched(new, bucket[1])
    assert len(proxy.seen) == 1 + len(REQUESTS) + 1


@cases((403,), 500, 503, "reset", "slow")
async def test_a_lasting_failure_from_any_request_of_a_restore_on_is_named_and_retried_later(
    new: Target, proxy: Faulty, bucket: tuple[str, Path], asked_for: str, fault: int | str
) -> None:
    """It is no refusal, which would end the restore: a store comes back, and a right is granted."""
    at = 1 + REQUESTS.index(asked_for)
    proxy.judge = lambda number, _: fault if number >= at else None
    code = await new.container("fetch")

    _, words = lasting(new.order.store)[fault]
    said = new.said.read_text()
    assert code == 1, said
    assert new.order.by_its_field(words) in said
    assert not is_fetched(new, bucket[1])
    assert not new.marked
    assert not (new.root / "data").exists()

    proxy.judge = lambda *_: None
    assert await new.container("fetch") == 0, new.said.read_text()
    assert is_fetched(new, bucket[1])
