"""A client that watches keys for the whole of a test, as applications do.

It resumes a watch after the last revision that it has seen. If etcd has compacted that, it reads
the keys anew and watches from there. It must never be told of a smaller revision.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from aetcd import rpc
from aetcd.utils import prefix_range_end

from harness.clusters import Cluster
from harness.load import OPTIONS, TRY_SECONDS, Addresses
from harness.waiting import PASSING

WATCH_SECONDS = 5.0
PAUSE = 0.2


@dataclass
class Watcher:
    cluster: Cluster
    prefix: str
    revision: int = 0
    """The highest that it has been told of."""

    reads: int = 0
    """How often it had to read anew."""

    went_back: list[str] = field(default_factory=list)
    """Describes each revision that was smaller than an earlier one."""

    _must_read: bool = True
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        addresses = Addresses(self.cluster)
        while not self._stop.is_set():
            try:
                for where in addresses.now():
                    with self.cluster.channel(where, OPTIONS) as channel:
                        self._go_on(channel)
            except (grpc.RpcError, LookupError, *PASSING):
                pass  # The member is gone, or the watch has lasted as long as it may.
            self._stop.wait(PAUSE)

    def stop(self) -> None:
        self._stop.set()

    def _go_on(self, channel: Any) -> None:
        if self._must_read:
            answer = rpc.KVStub(channel).Range(
                rpc.RangeRequest(key=self._key, range_end=self._end, count_only=True),
                timeout=TRY_SECONDS,
            )
            self._reached(answer.header.revision, "a read")
            self.reads += 1
            self._must_read = False
        for answer in rpc.WatchStub(channel).Watch(self._asked(), timeout=WATCH_SECONDS):
            if answer.canceled:
                self._must_read = True
                return
            for event in answer.events:
                self._reached(event.kv.mod_revision, event.kv.key.decode())

    def _asked(self) -> Iterator[rpc.WatchRequest]:
        wanted = rpc.WatchCreateRequest(
            key=self._key, range_end=self._end, start_revision=self.revision + 1
        )
        yield rpc.WatchRequest(create_request=wanted)
        self._stop.wait(WATCH_SECONDS)

    def _reached(self, revision: int, what: str) -> None:
        if revision < self.revision:
            self.went_back.append(f"{revision} of {what} after {self.revision}")
        self.revision = max(self.revision, revision)

    @property
    def _key(self) -> bytes:
        return self.prefix.encode()

    @property
    def _end(self) -> bytes:
        return prefix_range_end(self._key)


@contextmanager
def watching(cluster: Cluster, prefix: str) -> Iterator[Watcher]:
    watcher = Watcher(cluster, prefix)
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.stop()
        thread.join(WATCH_SECONDS + TRY_SECONDS)
