"""One pass over one cluster: observe, decide, apply one step, report.

Passes are level-triggered. From earlier passes they only know how long to wait before the next. The
memory of each cluster (polls, failures, writes that others undo) may be lost at any moment.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

from etcd_operator.cluster.apply import Applier
from etcd_operator.cluster.labelling import Labels
from etcd_operator.cluster.observe import ObservedCluster, Observer
from etcd_operator.cluster.report import Reporter
from etcd_operator.cluster.requeue import WAIT_SECONDS, Memory, requeue_after, why_limited
from etcd_operator.cluster.step_events import event_of
from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    REJECTED_SECONDS,
    Json,
    Key,
    Rejected,
    Unavailable,
    namespace_ends,
)
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES, FailedPasses, in_words
from etcd_operator.kube.store import Store
from etcd_operator.step_result import Declined, Done, Outdated, StepResult, TicketRefused, Uncertain
from etcd_operator.tasks import loop_time
from etcd_operator.telemetry.metrics import Metrics, asked_or_now
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster, stand_in
from etcd_stateful.membership.irreversible import comparable, goes_by_objects, is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.put_off import Postponable, may_wait
from etcd_stateful.membership.steps import (
    Defragment,
    Hold,
    PushTicket,
    Settled,
    Step,
    TouchStatefulSet,
    Wait,
    Write,
    WriteBootstrap,
)
from etcd_stateful.status.outcome import Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Pass:
    """The state of one pass."""

    body: Json
    cluster: EtcdCluster
    memory: Memory
    seen: ObservedCluster
    since: float
    """When the pass was asked for, in the event loop's time."""


class Reconciler:
    """The passes over EtcdClusters."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        observer: Observer,
        applier: Applier,
        reporter: Reporter,
        labels: Labels,
        failed_passes: FailedPasses,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._observer = observer
        self._applier = applier
        self._reporter = reporter
        self._labels = labels
        self._failed_passes = failed_passes
        self._clock = clock
        self._memories: dict[Key, Memory] = {}

    async def drain(self) -> None:
        """Waits for the background tasks of passes, for a graceful stop."""
        await self._labels.drain()
        await self._reporter.drain()

    async def abandon(self) -> None:
        """Cancels the background tasks of passes, because another replica may lead now."""
        await self._labels.abandon()
        await self._reporter.abandon()

    async def reconcile(self, key: Key) -> float | None:
        """Runs one pass. Returns the seconds until the next one; None: the next event starts it.

        Raises whatever ended the pass. The queue logs and counts it, and retries with back-off.
        """
        body = self._store.get(ETCD_CLUSTERS, *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._forget(key)
            return None
        memory = self._remember(key, body)
        if (pause := memory.still_until - self._clock()) > 0:
            return pause
        report = partial(self._stopped, body)
        delay = await self._failed_passes.watch(key, self._pass(body, memory), report, _meanwhile)
        return delay if delay is None else min(delay, self._observer.postponed.next(key))

    async def _pass(self, body: Json, memory: Memory) -> float | None:
        try:
            cluster = parse_cluster(body)
        except RefusedCluster as refused:
            return await self._refuse(body, memory, refused)
        since = asked_or_now()
        seen, step = await self._decide(body, cluster, memory)
        self._labels.write(seen.observation)
        for name in self._observer.defrag_backoff.ended(cluster.key, seen.observation):
            words = f"{name} is defragmented, which took longer than the operator waited"
            self._reporter.event(body, "Normal", "Defragmented", words)
        current = _Pass(body, cluster, memory, seen, since)
        if isinstance(step, Wait | Hold | Settled):
            return await self._idle(current, step)
        return await self._write(current, step)

    async def _decide(
        self, body: Json, cluster: EtcdCluster, memory: Memory
    ) -> tuple[ObservedCluster, Step]:
        """Observes the cluster and decides on the step.

        An observation that is not fresh is enough to repeat the last step, or for a step that
        depends on Kubernetes objects alone.
        """
        if cluster.paused:
            seen = ObservedCluster(
                self._observer.from_store(body, cluster), fresh=True, next_sweep=0.0
            )
            return seen, decide(seen.observation)
        seen = await self._observer.observe(body, cluster, quiet=memory.quiet)
        step = decide(seen.observation)
        if not (seen.fresh or step == memory.step or goes_by_objects(step)):
            seen = await self._observer.observe(body, cluster, quiet=False)
            step = decide(seen.observation)
        return seen, step

    async def _refuse(self, body: Json, memory: Memory, refused: RefusedCluster) -> float | None:
        """Reports a spec that is refused. Nothing is changed, and the status still shows the
        members."""
        hold = Hold(refused.reason, str(refused))
        self._reporter.decision(body, hold)
        if memory.step != hold:
            self._reporter.event(body, "Warning", refused.reason, str(refused))
        memory.step = hold
        found = stand_in(body)
        observation = self._observer.from_store(body, found) if found else None
        pending = await self._reporter.status(body, Outcome(observation, refused=refused))
        return pending or None

    async def _idle(self, current: _Pass, step: Wait | Hold | Settled) -> float | None:
        """Ends a pass that changes nothing but the status."""
        body, memory, seen = current.body, current.memory, current.seen
        if memory.doubts(step):
            return memory.next_poll()
        outcome = Outcome(seen.observation, step)
        as_declared = isinstance(step, Settled) and not outcome.put_off
        if as_declared and (wait := memory.disputed_until - self._clock()) > 0:
            return wait
        if as_declared or not isinstance(step, Settled):
            self._reporter.decision(body, step)
            if event := event_of(memory.step, step, seen.observation):
                self._reporter.event(body, *event)
        if (memory.step, memory.shape) != (step, seen.shape):
            memory.polls = 0
        memory.step, memory.shape, memory.retries = step, seen.shape, 0
        pending = await self._reporter.status(body, outcome)
        delay = requeue_after(memory, seen, step)
        return min(delay or pending, pending) if pending else delay

    async def _write(self, current: _Pass, step: Write) -> float:
        if pause := current.memory.rate_limit.pause(step, self._clock()):
            why = why_limited(current.memory, step)
            return await self._put_off(current, step, why, pause, undone=True)
        if is_final(step):
            confirmed = await self._confirm(current, step)
            if confirmed is None:
                why = "no longer needed, now that everything was read again"
                return await self._applied(current, step, Outdated(why))
            current, step = confirmed
        if isinstance(step, Defragment):
            self._observer.defrag_backoff.begin(current.cluster.key, step.name, step.in_use)
        try:
            applied = await self._applier.apply(current.cluster, step)
        except Rejected as error:
            if namespace_ends(error):
                return self._pause_while_deleted(current)
            words = f"{step.reason}: rejected by the API server: {error}"
            return await self._put_off(current, step, words, REJECTED_SECONDS)
        except Unavailable as error:
            words = f"{step.reason}: {in_words(error)}"
            if not self._is_given_up(current, step):
                if self._failed_passes.is_reported(current.cluster.key):
                    self._note_needed(current, step, words)
                raise
            return await self._put_off(current, step, words, REJECTED_SECONDS)
        return await self._applied(current, step, applied)

    def _is_given_up(self, current: _Pass, step: Write) -> bool:
        """Whether to put off this write, because only it fails: the API server does while a webhook
        is down, and no ticket may arrive in one pod."""
        key, tries = current.cluster.key, current.memory.retries + 1
        return _can_wait(step, current.seen.observation) and (
            self._failed_passes.is_reported(key)
            or (isinstance(step, PushTicket) and tries >= UNANSWERED_PASSES)
            or self._observer.postponed.knows(key, step)
        )

    def _pause_while_deleted(self, current: _Pass) -> float:
        """Pauses the passes while the namespace is being deleted. Nothing can be created in it, and
        each object that disappears would start another pass."""
        step = Wait("the namespace to be gone, which is being deleted: nothing is recreated in it")
        self._reporter.decision(current.body, step)
        current.memory.still_until = self._clock() + REJECTED_SECONDS
        return REJECTED_SECONDS

    async def _confirm(self, current: _Pass, step: Write) -> tuple[_Pass, Write] | None:
        """Decides again on an observation without anything remembered; None if the step differs.

        The step and the state of the pass that it returns are those of the second observation.
        """
        fresh = await self._observer.confirm(current.cluster.key)
        if fresh is None or fresh.cluster.uid != current.cluster.uid:
            return None
        again = decide(fresh.seen.observation)
        if comparable(again) != comparable(step) or isinstance(again, Wait | Hold | Settled):
            return None
        current = replace(current, body=fresh.body, cluster=fresh.cluster, seen=fresh.seen)
        return current, again

    async def _applied(self, current: _Pass, step: Write, applied: StepResult) -> float:
        match applied:
            case Done():
                return await self._done(current, step, applied)
            case Declined(why=why):
                return await self._declined(current, step, why)
            case TicketRefused(why=why):
                return await self._put_off(current, step, why, WAIT_SECONDS)
            case Uncertain(why=why) if self._is_given_up(current, step):
                return await self._put_off(current, step, why, WAIT_SECONDS)
            case Outdated(why=why) | Uncertain(why=why):
                return await self._look_again(current, step, why)

    async def _look_again(self, current: _Pass, step: Write, why: str) -> float:
        """Ends a pass whose step has not been carried out, or perhaps not."""
        body, memory, seen = current.body, current.memory, current.seen.observation
        memory.step, memory.refusal = step, ""
        if isinstance(step, Defragment):
            self._observer.defrag_backoff.unanswered(current.cluster.key, step.name, seen)
        self._reporter.decision(body, step, why)
        await self._reporter.status(body, Outcome(seen, step))
        return memory.next_retry()

    async def _done(self, current: _Pass, step: Write, done: Done) -> float:
        body, memory, seen = current.body, current.memory, current.seen
        name = type(step).__name__
        self._metrics.steps.labels(name).inc()
        delay = loop_time() - _enabled_at(current, step)
        self._metrics.step_delays.labels(name).observe(delay)
        memory.rate_limit.happened(step, self._clock())
        memory.step, memory.refusal = step, ""
        memory.polls = memory.retries = 0
        self._failed_passes.over(current.cluster.key)
        self._reporter.decision(body, step, done.words, always=True)
        if event := event_of(None, step, seen.observation, created=done.created):
            self._reporter.event(body, *event)
        # If a pod stays missing, or someone else undoes the write each time, the status says so. It
        # must not say something else for a moment at each try.
        pause = memory.rate_limit.pause(step, self._clock())
        memory.disputed_until = self._clock() + pause
        if not (isinstance(step, TouchStatefulSet) or pause):
            await self._reporter.status(body, Outcome(seen.observation, step))
        return 0.0

    async def _declined(self, current: _Pass, step: Write, why: str) -> float:
        """Reports that etcd declines the step for now as a wait, which may end within
        milliseconds."""
        wait = Wait(f"etcd, which declines this for now ({why!r}): {step.reason}", soon=True)
        delay = current.memory.next_try(step)
        current.memory.step, current.memory.refusal = step, ""
        self._reporter.decision(current.body, wait)
        await self._reporter.status(current.body, Outcome(current.seen.observation, wait))
        return delay

    async def _put_off(
        self, current: _Pass, step: Write, words: str, delay: float, *, undone: bool = False
    ) -> float:
        """Like `_fail`; but a step that others do not depend on is put off, and they go on."""
        if not _can_wait(step, current.seen.observation):
            return await self._fail(current, step, words, delay)
        if self._observer.postponed.begin(current.cluster.key, step, words, delay, undone=undone):
            self._reporter.failure(current.body, words)
        self._reporter.event(current.body, "Warning", "StepFailed", words)
        return current.memory.next_retry()

    def _note_needed(self, current: _Pass, step: Write, words: str) -> None:
        """Notes the failure until after the next try, which a change of users or roles precedes."""
        if isinstance(step, Postponable):
            key, seconds = current.cluster.key, 2 * REJECTED_SECONDS
            self._observer.postponed.begin_needed(key, step, words, seconds)

    async def _fail(self, current: _Pass, step: Write, words: str, delay: float) -> float:
        """Reports that the step fails for now: in the log, an Event and the status. It is retried
        after `delay`."""
        current.memory.step, current.memory.refusal = step, words
        self._note_needed(current, step, words)
        outcome = Outcome(current.seen.observation, step, failure=words)
        self._reporter.failure(current.body, words)
        self._reporter.event(current.body, "Warning", "StepFailed", words)
        await self._reporter.status(current.body, outcome, urgent=True)
        return delay

    async def _stopped(self, body: Json, _reason: str, words: str) -> None:
        """Reports why passes come to nothing, with an observation from the store if that works."""
        observation = None
        with contextlib.suppress(Exception):  # the fault may be in the reading
            observation = self._observer.from_store(body, parse_cluster(body))
        self._reporter.event(body, "Warning", "StepFailed", words)
        await self._reporter.status(body, Outcome(observation, failure=words), urgent=True)

    def _remember(self, key: Key, body: Json) -> Memory:
        uid = str(body["metadata"]["uid"])
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            self._forget(key)
            memory = self._memories[key] = Memory(uid)
        return memory

    def _forget(self, key: Key) -> None:
        if self._memories.pop(key, None) is not None:
            self._observer.forget(key)
            self._reporter.forget(key)
            self._labels.forget(key)
            self._failed_passes.over(key)


def _meanwhile(_: Rejected) -> str:
    return "Nothing else is done meanwhile"


def _can_wait(step: Write, seen: Observation) -> TypeGuard[Postponable]:
    """Whether others do not depend on the step."""
    return isinstance(step, Postponable) and may_wait(seen, step)


def _enabled_at(current: _Pass, step: Write) -> float:
    """When the step became possible. Latching becomes possible only when etcd answers, which is
    after the pass began."""
    if isinstance(step, WriteBootstrap) and step.record.latched:
        return max(current.since, current.seen.answered)
    return current.since
