"""Writes what is noted on pods, in background tasks that no step waits for.

If such a write fails, a later pass sees that the label is still missing and writes it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from etcd_operator.kube.api import PODS, Conflict, Key, Kubernetes, Rejected, Unavailable
from etcd_operator.kube.finder import Finder
from etcd_operator.rate_limit import RateLimit
from etcd_operator.tasks import cancel
from etcd_stateful import naming
from etcd_stateful.membership.members import labels
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.pods import Pod

log = logging.getLogger(__name__)

REFUSED_SECONDS: Final = 600.0
"""When to retry a write that was rejected. An admission policy may have been fixed, and no event
announces that."""

MOST_WRITES: Final = 16
"""How many writes may be in flight, for all clusters together. Writes that hang at a webhook must
not keep the calls of passes from their turn."""

UNANSWERED_SECONDS: Final = 10.0
"""When to retry after a write got no answer. Passes may follow each other within milliseconds,
while a webhook may be down for hours."""


_Noted = labels.Note | labels.Touch


class Labels:
    """Writes the labels with member IDs, and touches pods, each in a task of its own."""

    def __init__(self, kube: Kubernetes, finder: Finder, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._finder = finder
        self._clock = clock
        self._under_way: dict[asyncio.Task[None], tuple[Key, str]] = {}
        """The cluster and the pod (by UID) that each write is for."""

        self._refused: dict[Key, dict[tuple[str, _Noted], float]] = {}
        """When to retry, for each pod (by UID) and what of it was rejected."""

        self._rate_limit = RateLimit()
        self._unanswered: dict[Key, float] = {}
        """When to retry, for each cluster with a write that got no answer."""

    def forget(self, cluster: Key) -> None:
        self._refused.pop(cluster, None)
        self._unanswered.pop(cluster, None)
        for task, (key, _) in self._under_way.items():
            if key == cluster:
                task.cancel()  # or a refusal would be remembered after all

    def write(self, seen: Observation) -> None:
        """Starts one patch for each pod that needs one and has none under way."""
        key = seen.cluster.key
        if self._clock() < self._unanswered.get(key, float("-inf")):
            return
        self._unanswered.pop(key, None)
        refused = self._still_refused(key, seen.pods)
        busy = {uid for _, uid in self._under_way.values()}
        noted: list[tuple[Pod, _Noted]] = [*labels.due(seen), *labels.touches(seen)]
        for pod, note in noted:
            undone = self._rate_limit.pause(_name(pod, note), self._clock()) > 0
            waits = undone or pod.uid in busy or (pod.uid, note) in refused
            if not waits and len(self._under_way) < MOST_WRITES:
                task = asyncio.create_task(self._write(key, pod, note))
                self._under_way[task] = (key, pod.uid)
                task.add_done_callback(self._under_way.pop)

    def _still_refused(self, cluster: Key, pods: Iterable[Pod]) -> set[tuple[str, _Noted]]:
        here, before = {pod.uid for pod in pods}, self._refused.pop(cluster, {})
        if left := {one: again for one, again in before.items() if one[0] in here}:
            self._refused[cluster] = left
        now = self._clock()
        return {one for one, again in left.items() if now < again}

    async def drain(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def abandon(self) -> None:
        await cancel(*self._under_way)

    async def _write(self, cluster: Key, pod: Pod, note: _Noted) -> None:
        patch = {"metadata": {"uid": pod.uid, **_metadata(note)}}
        try:
            written = await self._kube.merge_patch(PODS, cluster[0], pod.name, patch)
            self._rate_limit.happened(_name(pod, note), self._clock())
            self._finder.take_beside(PODS, written)
        except Conflict:
            return  # another pod has the name by now
        except Unavailable:
            self._unanswered[cluster] = self._clock() + UNANSWERED_SECONDS
        except Rejected as error:
            if error.not_found:
                return
            refused, one = self._refused.setdefault(cluster, {}), (pod.uid, note)
            level = logging.DEBUG if one in refused else logging.WARNING
            log.log(level, "cannot label or annotate pod %s: %s", pod.name, error)
            refused[one] = self._clock() + REFUSED_SECONDS


def _name(pod: Pod, note: _Noted) -> str:
    return f"{pod.uid} {note}"


def _metadata(note: _Noted) -> dict[str, dict[str, str]]:
    if isinstance(note, labels.Touch):
        return {"annotations": {naming.TOUCHED: "true"}}
    marked = {"labels": {naming.MEMBER_ID: note.member}}
    trusts = f"{note.trust}-{note.restarts}"
    return marked | ({"annotations": {naming.TRUSTS: trusts}} if note.trust else {})
