"""Tells when objects change that kopf does not watch, without reading any.

Secrets that users provide carry no label of ours, so the watches of `watches.py` do not tell of
them, and one of all Secrets would bring everybody's into this process. Certificates of cert-manager
carry it, but their API comes and goes with cert-manager, and kopf's watches all end with one. So
each namespace in which a cluster needs to know of either has a watch that tells names alone
(`tables.py`). What is in an object is read only where it is needed, and again only when it has
changed.

Where there is no such watch, or it was cut off and may have missed something, nothing counts as
unchanged. Namespaces that nobody asks about any more are let go.
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
"""The longest that a cluster at rest goes without a pass is well below."""

AGAIN_SECONDS: Final = 1.0
"""Between the end of a watch and the next one, which begins where that has ended."""

FIRST_DELAY: Final = 1.0
LAST_DELAY: Final = 60.0
PASSING: Final = (404, 410)
"""Nobody serves them yet; or the watch began too early."""

Mark = Callable[[Resource, Key, str], int | None]
"""Of an object that a cluster needs: another number when it has changed; None: nobody tells."""


def unheard(_resource: Resource, _cluster: Key, _name: str) -> None:
    """Where nothing is heard of anything."""


class Tables(Protocol):
    async def version(self, resource: Resource, namespace: str) -> int:
        """The resourceVersion of this moment."""
        ...

    def changes(
        self, resource: Resource, namespace: str, since: int
    ) -> AsyncGenerator[Change, None]:
        """What changes after `since`, until the watch ends, for whatever reason.

        Raises KubeError where it cannot begin, or not from there (410).
        """
        ...


@dataclass(slots=True)
class _Place:
    """Objects of one kind in one namespace that are listened to."""

    resource: Resource
    namespace: str
    asked: float
    hears: bool = False
    told: bool = False
    delay: float = FIRST_DELAY
    """After which it is tried again; the first one again once a watch has begun."""

    marks: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, set[Key]] = field(default_factory=dict)
    """By name: the clusters to look at when it changes."""


class NameChanges:
    def __init__(
        self,
        tables: Tables,
        look: Callable[[Key], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` is told of a cluster that is to be looked at."""
        self._tables = tables
        self._look = look
        self._clock = clock
        self._numbers = itertools.count(1)
        self._places: dict[tuple[Resource, str], _Place] = {}
        self._new: asyncio.Queue[_Place] = asyncio.Queue()

    def mark(self, resource: Resource, cluster: Key, name: str) -> int | None:
        """A number that stays as long as the object does not change; None while nobody would tell.

        When it changes, the cluster is looked at.
        """
        where = (resource, cluster[0])
        if where not in self._places:
            self._places[where] = _Place(*where, self._clock())
            self._new.put_nowait(self._places[where])
        place = self._places[where]
        place.asked = self._clock()
        place.waiting.setdefault(name, set()).add(cluster)
        if not place.hears:
            return None
        if name not in place.marks:
            place.marks[name] = next(self._numbers)
        return place.marks[name]

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                place = await self._new.get()
                what = f"{place.resource.plural} in {place.namespace}"
                group.create_task(self._listen(place), name=what)

    async def _listen(self, place: _Place) -> None:
        while self._is_asked_for(place):
            try:
                await self._hear(place)
            except KubeError as error:
                _tell(place, error)
            place.hears = False
            place.marks.clear()
            await asyncio.sleep(place.delay)
            place.delay = min(2 * place.delay, LAST_DELAY)
        del self._places[place.resource, place.namespace]

    async def _hear(self, place: _Place) -> None:
        since = await self._tables.version(place.resource, place.namespace)
        place.hears = True
        # What was read before this moment may have changed before it.
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
    """One line for a refusal, which somebody may want to mend; the rest passes."""
    refused = isinstance(error, Rejected) and error.status not in PASSING
    log.log(
        logging.WARNING if refused and not place.told else logging.DEBUG,
        "%s in namespace %s are read at intervals, as they cannot be watched: %s",
        place.resource.plural,
        place.namespace,
        error,
    )
    place.told = place.told or refused
