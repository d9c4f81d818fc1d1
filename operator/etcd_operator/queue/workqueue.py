"""The work queue: decides which object gets the next pass.

It works like that of client-go. However many events there are, a key is queued at most once. It
never has two passes at the same time. After a failed pass it is retried with back-off, and it does
not keep others waiting. Namespaces take turns, so that one with many failing objects does not keep
others waiting either. All passes (for events, resyncs, timers and retries) are started here, so
one place knows why nothing happens, and has the metrics.

It is not thread-safe: call every method on the loop that runs `run`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from etcd_operator.kube.api import Key, KubeError, Unavailable
from etcd_operator.tasks import loop_time
from etcd_operator.telemetry.logs import about
from etcd_operator.telemetry.metrics import Metrics, asked_at

log = logging.getLogger(__name__)

Worker = Callable[[Key], Awaitable[float | None]]
"""Runs one pass. Returns the seconds until the next one; None: the next event starts it."""

FIRST_DELAY = 0.2
LAST_DELAY = 60.0
LONGEST_PATIENCE = 300.0
"""The longest Retry-After that is obeyed. A proxy before the API server may ask for any time."""

PASS_SECONDS = 240.0
"""The deadline of a whole pass. Each of its calls has one too, but only this one keeps a pass from
occupying a worker forever. A pass may look twice at members that each take as long as they may.
Ended before that, it would only begin anew."""


class _Turns(asyncio.Queue[Key | None]):
    """First in, first out within a namespace; the namespaces take turns. None is a namespace of its
    own."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - overrides what asyncio documents
        self._queue: dict[str, deque[Key | None]] = {}

    def _put(self, item: Key | None) -> None:
        self._queue.setdefault(item[0] if item else "", deque()).append(item)

    def _get(self) -> Key | None:
        namespace = next(iter(self._queue))
        waiting = self._queue.pop(namespace)
        item = waiting.popleft()
        if waiting:
            self._queue[namespace] = waiting
        return item


class WorkQueue:
    """The keys of one kind of object, and the workers that run their passes."""

    def __init__(
        self,
        name: str,
        metrics: Metrics,
        *,
        workers: int,
        pass_seconds: float = PASS_SECONDS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self._workers = workers
        self._pass_seconds = pass_seconds
        self._jitter = jitter
        self._ready = _Turns()
        self._waiting: dict[Key, float] = {}
        self._running: dict[Key, float] = {}
        self._again: dict[Key, float] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        """Those that passes have asked for. The next pass over the key cancels its timer."""

        self._failures: dict[Key, int] = {}
        self._bugs: dict[Key, str] = {}
        """The last error of each failing key whose traceback was logged."""

        self._stopped = False
        self._passes = metrics.passes
        self._metrics = metrics.queue(name)
        self._metrics.unfinished.set_function(lambda: sum(self._ages()))
        self._metrics.longest.set_function(lambda: max(self._ages(), default=0.0))

    def add(self, key: Key) -> None:
        """Queues a key. If its pass is running, another one follows it."""
        if key in self._running:
            if key not in self._again:
                self._again[key] = loop_time()
                self._metrics.adds.inc()
        elif key not in self._waiting:
            self._wait(key, loop_time())
            self._metrics.adds.inc()

    def stop(self) -> None:
        """Stops new passes. `run` returns when those in progress have ended."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for _ in range(self._workers):
            self._ready.put_nowait(None)

    async def all_taken_up(self) -> None:
        """Waits until workers have taken up all queued keys."""
        await self._ready.join()

    async def run(self, worker: Worker) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(worker), name=f"{self.name}-{number}")

    def _wait(self, key: Key, since: float) -> None:
        self._waiting[key] = since
        self._ready.put_nowait(key)
        self._metrics.depth.set(len(self._waiting))

    def _on_timer(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self, worker: Worker) -> None:
        while not self._stopped:
            key = await self._ready.get()
            self._ready.task_done()
            if key is None or self._stopped:
                return
            with about(**{self.name.removesuffix("s"): "/".join(key)}):
                await self._pass(key, worker)
            # A pass over a deleted object never awaits anything, and neither does `get` while the
            # queue is long. This lets other tasks run.
            await asyncio.sleep(0)

    async def _pass(self, key: Key, worker: Worker) -> None:
        asked_at.set(self._waiting[key])
        started = self._begin(key)
        failed = False
        try:
            after = await self._bounded(key, worker)
        except Exception as error:  # noqa: BLE001 - no failed pass may stop the queue
            failed = True
            after = self._delay_after(key, error)
        else:
            self._failures.pop(key, None)
            self._bugs.pop(key, None)
        finally:
            del self._running[key]
            self._metrics.work_duration.observe(loop_time() - started)
        self._finish(key, after, failed=failed)

    def _begin(self, key: Key) -> float:
        now = loop_time()
        self._metrics.queue_duration.observe(now - self._waiting.pop(key))
        self._metrics.depth.set(len(self._waiting))
        self._running[key] = now
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        return now

    async def _bounded(self, key: Key, worker: Worker) -> float | None:
        result: Literal["ok", "error", "timeout"] = "error"
        deadline = asyncio.timeout(self._pass_seconds)
        try:
            async with deadline:
                after = await worker(key)
        except TimeoutError:
            if not deadline.expired():
                raise
            result = "timeout"
            raise Unavailable(f"the pass took over {self._pass_seconds:g} s") from None
        except asyncio.CancelledError as error:
            # If only a call was cancelled, its error must not end this worker as if it were asked
            # to end: nobody would notice, and the queue would stop with the last of its workers.
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            raise RuntimeError("a call was cancelled within the pass") from error
        else:
            result = "ok"
            return after
        finally:
            self._passes.labels(self.name, result).inc()

    def _finish(self, key: Key, after: float | None, *, failed: bool) -> None:
        since = self._again.pop(key, None)
        if self._stopped:
            return
        if since is not None and not failed:
            self._wait(key, since)
        elif after is not None and after <= 0:
            self.add(key)
        elif after is not None:
            # A failing pass may cause events of its own, which must not cancel its back-off.
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(after, self._on_timer, key)

    def _delay_after(self, key: Key, error: Exception) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_DELAY * 2.0 ** min(failures - 1, 16), LAST_DELAY)
        delay *= 0.8 + 0.4 * self._jitter()
        if isinstance(error, Unavailable) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, LONGEST_PATIENCE))
        self._metrics.retries.inc()
        self._log(key, error, failures, delay)
        return delay

    def _log(self, key: Key, error: Exception, failures: int, delay: float) -> None:
        expected = isinstance(error, KubeError)
        words = str(error) if expected else repr(error)
        is_news = not expected and self._bugs.get(key) != words
        if is_news:
            self._bugs[key] = words
        log.log(
            logging.WARNING if expected else logging.ERROR,
            "the pass failed (%d times in a row), next try in %.1f s: %s",
            failures,
            delay,
            words,
            exc_info=error if is_news else None,
        )

    def _ages(self) -> list[float]:
        if not self._running:
            return []
        now = loop_time()
        return [now - since for since in self._running.values()]
