"""The watch events of a cluster's pods: which stopped, in which order, and how many at once."""

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
    """Records watch events of the pods, beginning with the existing pods."""

    cluster: Cluster
    chapters: list[Chapter] = field(default_factory=list)
    moments: dict[str, float] = field(default_factory=dict)
    """When each pod, by UID, began to terminate."""

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
        """Names of pods in the order in which they were deleted. A name may occur several times."""
        order: dict[str, str] = {}
        for chapter in self.chapters:
            if chapter.stopping or chapter.gone:
                order.setdefault(chapter.uid, chapter.name)
        return list(order.values())

    @property
    def most_down(self) -> int:
        """The largest number of pods that were not ready at once, after they had been ready."""
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
        """The largest number of pods that were deleted and not ready again at once.

        A pod that is merely not ready does not count, as one of two members is while the other one
        restarts.
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
            return  # The namespace is gone, or the test is over.

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
