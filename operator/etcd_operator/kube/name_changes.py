"""Notices changes of objects that kopf does not watch, without reading the objects.

Secrets that users provide do not have our label, so the watches of `watches.py` do not include
them, and a watch on all Secrets would bring other people's Secrets into this process. Certificates
of cert-manager have the label, but their API comes and goes with cert-manager, and if one of kopf's
watches ends, all do. So each namespace in which a cluster needs such objects has a watch that
delivers only names (`tables.py`). An object is read only if it is needed, and again only after it
has changed.

While there is no such watch, or after it was interrupted and may have missed a change, no object
counts as unchanged. The watch of a namespace ends when no cluster has asked about it for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from etcd_operator.kube.api import Key, KubeError, Rejected, Resource
from etcd_operator.kube.tables import Change

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 600.0
"""A watch ends if no cluster has asked for so long. Passes over a settled cluster are much more
frequent."""

FORGET_SECONDS: Final = 3600.0
"""After this time without a pass a cluster is taken to be gone, and what it has asked about is
forgotten. If it is not gone, it only reads its objects once more."""

AGAIN_SECONDS: Final = 1.0
"""The pause between the end of a watch and the next one, which continues at the same version."""

FIRST_DELAY: Final = 1.0
LAST_DELAY: Final = 60.0
PASSING: Final = (404, 410)
"""Statuses that pass by themselves: the kind is not served yet, or the watch began at a version
that is too old."""

Mark = Callable[[Resource, Key, str], int | None]
"""Returns a number for an object that a cluster needs, which changes with the object; None while
changes would not be noticed."""


class Tables(Protocol):
    async def version(self, resource: Resource, namespace: str) -> int:
        """The current resourceVersion."""
        ...

    def changes(
        self, resource: Resource, namespace: str, since: int
    ) -> AsyncGenerator[Change, None]:
        """Yields the changes after `since`, until the watch ends for any reason.

        Raises KubeError if the watch cannot begin, or not at that version (410).
        """
        ...


@dataclass(slots=True)
class _Place:
    """The objects of one kind in one namespace, which have one watch."""

    resource: Resource
    namespace: str
    asked: float
    hears: bool = False
    told: bool = False
    delay: float = FIRST_DELAY
    """The delay before the next try. It is reset after a watch has worked."""

    marks: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, dict[Key, float]] = field(default_factory=dict)
    """For each name: the clusters that need a pass when that object changes, and when each has last
    asked."""

    pruned: float = 0.0
    """When clusters that are gone were last removed from `waiting`."""

    def prune(self, now: float) -> None:
        self.pruned = now
        for name, clusters in list(self.waiting.items()):
            left = {one: at for one, at in clusters.items() if now - at < FORGET_SECONDS}
            if left:
                self.waiting[name] = left
            else:
                del self.waiting[name]
                self.marks.pop(name, None)


class NameChanges:
    def __init__(
        self,
        tables: Tables,
        look: Callable[[Key], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` is called with each cluster that needs a pass."""
        self._tables = tables
        self._look = look
        self._clock = clock
        self._numbers = itertools.count(1)
        self._places: dict[tuple[Resource, str], _Place] = {}
        self._new: asyncio.Queue[_Place] = asyncio.Queue()

    def mark(self, resource: Resource, cluster: Key, name: str) -> int | None:
        """A number that stays the same until the object changes; None while changes would not be
        noticed.

        When the object changes, the cluster gets a pass.
        """
        where = (resource, cluster[0])
        if where not in self._places:
            self._places[where] = _Place(*where, self._clock())
            self._new.put_nowait(self._places[where])
        place, now = self._places[where], self._clock()
        if now - place.pruned >= FORGET_SECONDS:
            place.prune(now)
        place.asked = now
        place.waiting.setdefault(name, {})[cluster] = now
        if not place.hears:
            return None
        if name not in place.marks:
            place.marks[name] = next(self._numbers)
        return place.marks[name]

    async def run(self) -> None:
        """Runs the watches; never returns."""
        async with asyncio.TaskGroup() as group:
            while True:
                place = await self._new.get()
                what = f"{place.resource.plural} in {place.namespace}"
                group.create_task(self._listen(place), name=what)

    async def _listen(self, place: _Place) -> None:
        while self._is_asked_for(place):
            try:
                await self._watch(place)
            except KubeError as error:
                _tell(place, error)
            place.hears = False
            place.marks.clear()
            await asyncio.sleep(place.delay)
            place.delay = min(2 * place.delay, LAST_DELAY)
        del self._places[place.resource, place.namespace]

    async def _watch(self, place: _Place) -> None:
        since = await self._tables.version(place.resource, place.namespace)
        place.hears = True
        # An object that was read before this moment may have changed in between.
        self._wake(place, *place.waiting)
        while self._is_asked_for(place):
            watch = self._tables.changes(place.resource, place.namespace, since)
            async with contextlib.aclosing(watch):
                async for change in watch:
                    since, place.told, place.delay = change.version, False, FIRST_DELAY
                    self._changed(place, change.name)
            place.delay = FIRST_DELAY
            await asyncio.sleep(AGAIN_SECONDS)

    def _changed(self, place: _Place, name: str) -> None:
        place.marks.pop(name, None)
        self._wake(place, name)

    def _wake(self, place: _Place, *names: str) -> None:
        for cluster in {one for name in names for one in place.waiting.pop(name, ())}:
            self._look(cluster)

    def _is_asked_for(self, place: _Place) -> bool:
        return self._clock() - place.asked < IDLE_SECONDS


def _tell(place: _Place, error: KubeError) -> None:
    """Logs a refusal once as a warning, because someone may want to grant the right. Other errors
    pass by themselves, and are logged at DEBUG."""
    refused = isinstance(error, Rejected) and error.status not in PASSING
    log.log(
        logging.WARNING if refused and not place.told else logging.DEBUG,
        "%s in namespace %s are read at intervals, as they cannot be watched: %s",
        place.resource.plural,
        place.namespace,
        error,
    )
    place.told = place.told or refused
