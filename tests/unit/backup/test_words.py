"""The termination message of a backup's Job: there always is one, and the kubelet keeps it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from etcd_operator.backup import __main__ as job
from etcd_stateful.api.stores import LONGEST_KEY, Store
from etcd_stateful.backup import names, outcome
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.foreign_files import ForeignFile, ForeignFiles
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored

STORE = Store("S3", "bucket", "key", "aws", "http://minio:9000", path_style=True)
ORDER = Order("ns/b", "uid-b", ("http://c:2379",), "spec.etcdEndpoints", STORE)


async def test_a_slow_store_was_blamed_on_a_field_that_an_etcdrestore_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(job, "describe", describe)
    store = Store("Volume", "claim", "backups/etcd.backup")
    order = replace(ORDER, store=store, endpoints=(), action="describe", timeout=0)

    said = await job.back_up(order, root=str(tmp_path))

    assert isinstance(said, Failure)
    assert said.reason == "StoreUnreachable"
    assert said.message.startswith(store.path_field)
    assert "timeoutInSecond" not in said.message


def test_a_client_that_panicked_ended_the_job_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four attempts, the only message was that a limit had been reached."""

    class RustPanic(Exception):
        pass

    async def back_up(_: Order) -> None:
        raise RustPanic("rust future panicked: with a secret")

    monkeypatch.setattr(job, "back_up", back_up)
    said = tmp_path / "termination-log"
    environment = {orders.VARIABLE: orders.serialise(ORDER), "TERMINATION_LOG": str(said)}

    assert job.main(environment) == 1

    failure = outcome.parse(said.read_text()).failure
    assert isinstance(failure, Failure)
    assert "RustPanic" in failure.message
    assert "secret" not in json.dumps(failure.message)


KEPT = 4096
"""The kubelet keeps so many bytes of a termination message."""

LONG = {
    "quotes": '"' * LONGEST_KEY,
    "backslashes": "\\" * LONGEST_KEY,
    "one byte each": "k" * LONGEST_KEY,
    "four bytes each": "\U0001f511" * (LONGEST_KEY // 4),
}


@pytest.mark.parametrize("key", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("notes", [(), ('"' * 300, "\U0001f511" * 300, "a third")])
def test_a_backup_whose_message_was_truncated_was_repeated_without_end(
    key: str, notes: tuple[str, ...]
) -> None:
    """A truncated message cannot be read, so the Job was taken for one that could not say what it
    had stored."""
    key = names.stamped(key, 2**63 - 1, "2026-01-31-23:59:59")
    location = Store("Volume", "c" * 63, key).location(key)
    one = ForeignFile('"' * 900, 1, "2026-01-31T23:59:59Z", manifest=True)
    stored = Stored(
        location, "f" * 16, 2**63 - 1, "3.7.3", 2**40, "f" * 64, key,
        verified=True, notes=notes, others=ForeignFiles(20, (one,) * 20),
    )  # fmt: skip

    text = outcome.serialise(stored)

    assert len(text.encode()) <= KEPT
    read = outcome.parse(text).stored
    assert read is not None
    assert (read.location, read.key, read.sha256) == (location, key, "f" * 64)


def test_a_failure_full_of_special_characters_did_not_fit_into_the_message() -> None:
    text = outcome.serialise(Failure("StoreUnreachable", "spec.s3.path: " + "\x1b" * 2000))

    assert len(text.encode()) <= KEPT
    failure = outcome.parse(text).failure
    assert failure is not None
    assert failure.message.startswith("spec.s3.path: ")


def test_the_message_of_an_older_job_can_be_read() -> None:
    told = asdict(Stored("s3://b/a/k", "0a", 1, "3.7.3", 2, "ff", "a/k"))

    assert outcome.parse(json.dumps({"stored": told})).stored == Stored(**told)
