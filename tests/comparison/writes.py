"""What was acknowledged, and what of it is still there."""

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
"""Together more than etcd keeps in its log: a member that begins empty needs a whole snapshot."""

BEFORE = "before/"
READ_SECONDS = 5
EARLY_SECONDS = 0.05
PUT_SECONDS = 5
THREADS = 8


@dataclass(frozen=True, slots=True)
class Found:
    acknowledged: int
    lost: int
    """Keys that no living member has."""

    served: bool
    """Whether a quorum answers; if not, what is left lies with members that serve nobody."""


def preload(side: Side) -> set[str]:
    """About 34 MiB. Returns the keys, all of them acknowledged."""
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
    """Asks a quorum; where there is none, every living member for what it has by itself."""
    wanted = before | {one.key for one in acknowledged(load.history)}
    for pod in side.pods():
        there = _keys(side, pod, serializable=False)
        if there is not None:
            return Found(len(wanted), len(wanted - there), served=True)
    survivors = [_keys(side, pod, serializable=True) or set() for pod in side.pods()]
    there = set(itertools.chain.from_iterable(survivors))
    return Found(len(wanted), len(wanted - there), served=False)


def _keys(side: Side, pod: str, *, serializable: bool) -> set[str] | None:
    """None: it does not answer."""
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
    """A client that puts from before the cluster is there until it is as declared."""

    def __init__(self, side: Side) -> None:
        self._client = Client(Addresses(side), 0)
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._answers: dict[str, float] = {}
        self._refused = 0
        self._thread = threading.Thread(target=self._put, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[set[str], Measured]:
        """The keys that were acknowledged, and what the client went through."""
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
                self._refused += 1  # before the first answer there was nobody to ask
        self._client.close()
