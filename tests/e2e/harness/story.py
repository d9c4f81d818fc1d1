"""What became of a cluster's pods, event by event: which went, in which order, how many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.api import PODS, Json
from harness.clusters import INSTANCE, Cluster, is_ready
from harness.waiting import PASSING, eventually

SECONDS = 600


@dataclass(frozen=True)
class Chapter:
    name: str
    uid: str
    ready: bool
    stopping: bool
    gone: bool


@dataclass
class Story:
    """In the order of the API server's events, from what there was when it began."""

    cluster: Cluster
    chapters: list[Chapter] = field(default_factory=list)
    moments: dict[str, float] = field(default_factory=dict)
    """When pods, by UID, began to stop."""

    _ended: bool = False

    def start(self) -> Story:
        there = len(self.cluster.pods())
        threading.Thread(target=self._watch, daemon=True).start()
        eventually("the watch has begun", lambda: len(self.chapters) >= there, seconds=10)
        return self

    def stop(self) -> None:
        self._ended = True

    @property
    def stopped(self) -> list[str]:
        """Names of pods in the order in which they were deleted; twice, if it was twice."""
        order: dict[str, str] = {}
        for chapter in self.chapters:
            if chapter.stopping or chapter.gone:
                order.setdefault(chapter.uid, chapter.name)
        return list(order.values())

    @property
    def most_down(self) -> int:
        """How many that had been ready were not, at the worst moment."""
        up: dict[str, bool] = {}
        worst = 0
        for chapter in self.chapters:
            serves = chapter.ready and not chapter.stopping and not chapter.gone
            if serves or chapter.name in up:
                up[chapter.name] = serves
            worst = max(worst, sum(not one for one in up.values()))
        return worst

    @property
    def most_away(self) -> int:
        """How many had been stopped and were not back yet, at the worst moment.

        Not who is unready by itself, as a member of two is while the other one restarts.
        """
        away: set[str] = set()
        worst = 0
        for chapter in self.chapters:
            if chapter.stopping or chapter.gone:
                away.add(chapter.name)
            elif chapter.ready:
                away.discard(chapter.name)
            worst = max(worst, len(away))
        return worst

    def _watch(self) -> None:
        try:
            for event in self.cluster.kube.watch(PODS, self.cluster.namespace, SECONDS):
                if self._ended:
                    return
                self._take(event["type"], event["object"])
        except (*PASSING, ValueError, KeyError):
            return  # the namespace is gone, or the test is over

    def _take(self, what: str, pod: Json) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get(INSTANCE) != self.cluster.name:
            return
        stopping = "deletionTimestamp" in metadata
        if stopping:
            self.moments.setdefault(metadata["uid"], time.monotonic())
        self.chapters.append(
            Chapter(metadata["name"], metadata["uid"], is_ready(pod), stopping, what == "DELETED")
        )


@contextmanager
def story_of(cluster: Cluster) -> Iterator[Story]:
    story = Story(cluster).start()
    yield story
    story.stop()
