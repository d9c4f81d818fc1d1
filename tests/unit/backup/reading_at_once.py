"""Counts how many files of a store are read at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from etcd_operator.backup.sink import Sink


@dataclass
class Reading:
    now: int = 0
    most: int = 0


def count_reads(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> Reading:
    """Lets each read of the sink take a turn of the event loop, and counts them."""
    get, reading = sink.get, Reading()

    async def slowly(key: str, limit: int) -> bytes | None:
        reading.now += 1
        reading.most = max(reading.most, reading.now)
        await asyncio.sleep(0)
        found = await get(key, limit)
        reading.now -= 1
        return found

    monkeypatch.setattr(sink, "get", slowly)
    return reading
