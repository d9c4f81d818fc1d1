"""Which acknowledged writes are still there."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import grpc
from aetcd import rpc
from harness.api import ApiError
from harness.history import acknowledged
from harness.load import OPTIONS, Addresses, Client, Load
from sides import Side

Measured = dict[str, Any]

LARGE, LARGE_COUNT = bytes(32 * 1024), 1100
SMALL, SMALL_COUNT = b"small", 5100
"""Together more entries than etcd keeps in its log, so that an empty member needs a snapshot."""

BEFORE = "before/"
READ_SECONDS = 5
EARLY_SECONDS = 0.05
PUT_SECONDS = 5
THREADS = 8


@dataclass(frozen=True, slots=True)
class Found:
    acknowledged: int
    lost: int
    """How many keys no running member has."""

    served: bool
    """Whether a quorum answers. If not, the data that is left is on members that serve nobody."""


def preload(side: Side) -> set[str]:
    """Writes about 34 MiB. Returns the keys, all of which were acknowledged."""
    values = {f"{BEFORE}large/{number}": LARGE for number in range(LARGE_COUNT)}
    values |= {f"{BEFORE}small/{number}": SMALL for number in range(SMALL_COUNT)}
    address = side.reach.pod(side.namespace, next(iter(side.pods())), 2379)
    with side.channel(address, OPTIONS) as channel, ThreadPoolExecutor(THREADS) as threads:
        stub = rpc.KVStub(channel)

        def put(key: str) -> None:
            request = rpc.PutRequest(key=key.encode(), value=values[key])
            stub.Put(request, timeout=PUT_SECONDS)

        list(threads.map(put, values))
    return set(values)


def found(side: Side, before: set[str], load: Load) -> Found:
    """Reads from a quorum or, if there is none, from every running member its own data."""
    wanted = before | {one.key for one in acknowledged(load.history)}
    for pod in side.pods():
        there = _keys(side, pod, serializable=False)
        if there is not None:
            return Found(len(wanted), len(wanted - there), served=True)
    survivors = [_keys(side, pod, serializable=True) or set() for pod in side.pods()]
    there = set(itertools.chain.from_iterable(survivors))
    return Found(len(wanted), len(wanted - there), served=False)


def _keys(side: Side, pod: str, *, serializable: bool) -> set[str] | None:
    """The keys of a member; None if it does not answer."""
    try:
        with side.channel(side.reach.pod(side.namespace, pod, 2379), OPTIONS) as channel:
            request = rpc.RangeRequest(
                key=b"\0", range_end=b"\0", keys_only=True, serializable=serializable
            )
            answer = rpc.KVStub(channel).Range(request, timeout=READ_SECONDS)
    except (grpc.RpcError, ApiError):
        return None
    return {one.key.decode() for one in answer.kvs}


class Early:
    """A client that writes from before the cluster exists until it is as declared."""

    def __init__(self, side: Side) -> None:
        self._client = Client(Addresses(side), 0)
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._answers: dict[str, float] = {}
        self._refused = 0
        self._thread = threading.Thread(target=self._put, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[set[str], Measured]:
        """The acknowledged keys, and what the client measured."""
        self._stop.set()
        self._thread.join(READ_SECONDS)
        moments = [*self._answers.values(), time.monotonic()]
        return set(self._answers), {
            "first_write": moments[0] - self._began,
            "longest_gap": max((later - one for one, later in pairwise(moments)), default=None),
            "refused": self._refused,
            "puts": self._refused + len(self._answers),
        }

    def _put(self) -> None:
        for number in itertools.count():
            if self._stop.wait(EARLY_SECONDS):
                break
            key = f"early/{number}"
            request = rpc.PutRequest(key=key.encode(), value=b"early")
            answer = self._client.ask(lambda stub, it=request: stub.Put(it, timeout=1.0))
            if answer is not None:
                self._answers[key] = time.monotonic()
            elif self._answers:
                self._refused += 1  # Before the first answer there was no member to ask.
        self._client.close()
