"""Reports the result of a pass: the status, one log line per decision, Kubernetes Events.

The status is written when it differs from the stored one in more than its times: at once if the
change matters to a user, else at most once a second, because passes follow each other within
milliseconds while a cluster forms. What another controller overwrites each time is written more
slowly. Events are posted in background tasks, so they do not delay the next step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    REJECTED_SECONDS,
    Json,
    Key,
    Kubernetes,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.events import Events, Severity
from etcd_operator.kube.statuses import StatusWriter
from etcd_operator.kube.store import Store, key_of
from etcd_operator.rate_limit import RateLimit
from etcd_operator.tasks import cancel
from etcd_operator.telemetry.metrics import Metrics
from etcd_operator.timestamps import rfc3339, seconds
from etcd_stateful import stored_conditions
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait
from etcd_stateful.status.outcome import Outcome
from etcd_stateful.status.rendering import render

log = logging.getLogger(__name__)

STATUS_SECONDS: Final = 1.0
"""How long a status may be outdated if only its details have changed."""

UNANSWERED_SECONDS: Final = 10.0
"""When a status that was not answered twice is written again. Steps do not wait for it: only its
own webhook may be down, for hours, and each try may last until its deadline."""

MOST_EVENTS: Final = 64
"""How many Events may be in flight. Nobody reads more; the log has them all."""


class Reporter:
    """The status, log lines and Events of clusters."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        events: Events,
        metrics: Metrics,
        *,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._statuses = StatusWriter(kube, store, events, ETCD_CLUSTERS)
        self._events = events
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._clock = clock
        self._written: dict[Key, float] = {}
        self._said: dict[Key, tuple[str, str]] = {}
        self._failed: dict[Key, tuple[str, float]] = {}
        """Why the last status could not be written, and until when none is."""

        self._rate_limit = RateLimit()
        """For what another controller overwrites each time, such as a second operator."""

        self._posting: set[asyncio.Task[None]] = set()

    def forget(self, key: Key) -> None:
        for memory in (self._written, self._said, self._failed):
            memory.pop(key, None)
        self._metrics.forget(key)

    async def status(self, body: Json, outcome: Outcome, *, urgent: bool = False) -> float:
        """Writes the status, unless it is too early. Returns 0, or the seconds until it is due."""
        key = key_of(body)
        stored: Json = body.get("status") or {}
        status = render(body, outcome, rfc3339(self._wall_clock()))
        self._measure(key, outcome, status)
        if self._statuses.is_stored(body, status):
            return 0.0
        if (wait := self._put_off_for(key)) > 0:
            return wait
        facts = _main_facts(status)
        news = f"{body['metadata']['uid']} {facts}" if facts != _main_facts(stored) else ""
        if (wait := self._wait(key, news, urgent=urgent)) > 0:
            return wait
        await self._write(key, body, status, news)
        return self._put_off_for(key)

    def _wait(self, key: Key, news: str, *, urgent: bool) -> float:
        if news:
            return self._rate_limit.pause(news, self._clock())
        due = self._written.get(key, -STATUS_SECONDS) + STATUS_SECONDS
        return 0.0 if urgent else due - self._clock()

    def _put_off_for(self, key: Key) -> float:
        _, until = self._failed.get(key, ("", float("-inf")))
        return max(until - self._clock(), 0.0)

    async def _write(self, key: Key, body: Json, status: Json, news: str) -> None:
        self._written[key] = self._clock()
        try:
            written = await self._statuses.write(body, status)
        except (Rejected, Unavailable) as error:
            self._put_off(body, error)
            return
        self._failed.pop(key, None)
        if not written:
            return
        if news:
            self._rate_limit.happened(news, self._clock())
        if words := _new_plaintext_message(body.get("status") or {}, status):
            self.event(body, "Warning", "Plaintext", words)

    def _put_off(self, body: Json, error: Rejected | Unavailable) -> None:
        """Logs each reason once, and keeps further passes from writing the same status again."""
        key, why = key_of(body), str(error)
        before, _ = self._failed.get(key, ("", 0.0))
        rejected = isinstance(error, Rejected)
        again = UNANSWERED_SECONDS if before else STATUS_SECONDS
        self._failed[key] = (why, self._clock() + (REJECTED_SECONDS if rejected else again))
        if before != why:
            verb = "was rejected" if rejected else "could not be written"
            log.warning("the status %s: %s", verb, why)

    def decision(self, body: Json, step: Step, words: str = "", *, always: bool = False) -> None:
        """Logs a decision, in the step's own words if there are no others, unless it is the same as
        in the last pass and not `always`."""
        key, (reason, own) = key_of(body), _told(step)
        line = (type(step).__name__, words or own)
        if self._said.get(key) == line and not always:
            return
        self._said[key] = line
        generation = body["metadata"].get("generation")
        fields = {"step": line[0], "reason": reason, "generation": generation}
        log.info("%s", line[1], extra=fields)

    def failure(self, body: Json, words: str) -> None:
        """Logs a failure, unless it is the same as the last one."""
        key = key_of(body)
        if self._said.get(key) != ("failure", words):
            self._said[key] = ("failure", words)
            log.warning("%s", words)

    def event(self, body: Json, severity: Severity, reason: str, message: str) -> None:
        if len(self._posting) < MOST_EVENTS:
            about = ETCD_CLUSTERS.named(body)
            task = asyncio.create_task(self._events.emit(about, severity, reason, message))
            self._posting.add(task)
            task.add_done_callback(self._posting.discard)

    async def drain(self) -> None:
        """Waits for the Events in flight."""
        await asyncio.gather(*self._posting, return_exceptions=True)

    async def abandon(self) -> None:
        await cancel(*self._posting)

    def _measure(self, key: Key, outcome: Outcome, status: Json) -> None:
        self._measure_certificates(key, status)
        if (seen := outcome.observation) is None:
            if not outcome.refused:
                self._metrics.cluster_unobserved(key)
            return
        self._metrics.cluster(
            key,
            size=status.get("size") if outcome.refused else seen.cluster.size,
            members=len(seen.etcd.members) if seen.etcd else None,
            ready=sum(pod.takes_traffic for pod in seen.pods),
            available=stored_conditions.is_true(status, "Available"),
        )

    def _measure_certificates(self, key: Key, status: Json) -> None:
        """By the status, which keeps the dates while the cluster is paused or its spec is refused:
        the certificates are not read then, and nobody renews them."""
        told = status.get("certificates") or ()
        every = [(one, ends) for one in told if (ends := seconds(one.get("ends"))) is not None]
        self._metrics.certificates(
            key,
            certificate=min((ends for _, ends in every), default=None),
            authority=min((ends for one, ends in every if "generation" in one), default=None),
        )


def _new_plaintext_message(before: Json, status: Json) -> str:
    """The message of the condition Plaintext if it was just added, for example because an older
    operator version did not have it; else empty."""
    if stored_conditions.find(before, "Plaintext"):
        return ""
    return str(stored_conditions.find(status, "Plaintext").get("message", ""))


def _told(step: Step) -> tuple[str, str]:
    """The reason in the log, which is one word as in the conditions or why a write is done; and
    what to say of the step."""
    match step:
        case Settled():
            return "AsDeclared", "as declared"
        case Wait(reason=what):
            return "Waiting", f"waiting for {what}"
        case Hold(reason=reason, message=words):
            return reason, words
        case write:
            return write.reason, write.reason


def _main_facts(status: Mapping[str, Any]) -> tuple[object, ...]:
    """The parts of a status that a user would act on."""
    conditions = stored_conditions.ours(status)
    return (
        status.get("phase"),
        status.get("observedGeneration"),
        sorted((str(one.get("type")), str(one.get("status"))) for one in conditions),
    )
