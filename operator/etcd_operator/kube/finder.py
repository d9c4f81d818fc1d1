"""Looks up the objects that a cluster needs by name, in the store first.

The store only knows objects with our label. But another owner's object, or one of ours whose labels
were changed, may have the name as well. So before a name counts as free, it is read from the API
server. For a settled cluster everything is in the store, and nothing is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from etcd_operator.kube.api import (
    REJECTED_SECONDS,
    Json,
    Kubernetes,
    Listing,
    Rejected,
    Resource,
)
from etcd_operator.kube.store import Store, key_of, version_of
from etcd_operator.tasks import together
from etcd_stateful import naming
from etcd_stateful.metadata import labels_of

ABSENT_SECONDS: Final = 10.0
"""How long a 404 is remembered between passes. Before the object is created, its name is read once
more, unless it `is_just_free`."""

JUST_SECONDS: Final = 0.05
"""How old a 404 may be to count as current. A fresh one would be about as old when the write
follows it."""

Name = tuple[Resource, str, str]


class Finder:
    def __init__(
        self, kube: Kubernetes, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._store = store
        self._clock = clock
        self._absent: dict[Name, float] = {}
        """When the API server was asked for a name that it did not have."""

        self._refused: dict[Name, float] = {}
        """When the API server refused to read a name."""

    async def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """The object from the store, or else from the API server."""
        if (known := self.known(resource, namespace, name)) is not None:
            return known
        if self._is_absent((resource, namespace, name), ABSENT_SECONDS):
            return None
        return await self.read(resource, namespace, name)

    async def find_all(
        self, resource: Resource, namespace: str, names: Iterable[str]
    ) -> list[Json]:
        """Those of these objects that exist, as `find` finds them, all at once."""
        found = await together(*(self.find(resource, namespace, name) for name in names))
        return [one for one in found if one is not None]

    async def find_if_allowed(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Like `find`, but returns None if the operator may not read the object, and does not ask
        again for REJECTED_SECONDS. That is safe: before the object is created it is read again,
        which is refused and reported."""
        place = (resource, namespace, name)
        if self._clock() - self._refused.get(place, float("-inf")) < REJECTED_SECONDS:
            return self.known(*place)
        try:
            return await self.find(*place)
        except Rejected as error:
            if not error.forbidden:
                raise
            self._refused = self._recent(self._refused, REJECTED_SECONDS)
            self._refused[place] = self._clock()
            return None

    def known(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._store.get(resource, namespace, name)

    async def read(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Reads the object from the API server, and updates the store."""
        asked, before = self._clock(), self.known(resource, namespace, name)
        found = await self._kube.get(resource, namespace, name)
        if found is None:
            # An object that was created and stored while the answer was on its way is kept.
            if before is not None:
                self._forget(resource, before)
            self._remember_absent((resource, namespace, name), asked)
        else:
            self._take_read(resource, found)
        return found

    def is_just_free(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether the API server answered a moment ago that the name is free."""
        return self._is_absent((resource, namespace, name), JUST_SECONDS)

    def take(self, resource: Resource, obj: Json) -> None:
        """Puts the answer to a write into the store, as `_take_read` does with what was read."""
        self._take(resource, obj, self._store.put)

    def take_beside(self, resource: Resource, obj: Json) -> None:
        """Like `take`, for a write that no pass waits for."""
        self._take(resource, obj, self._store.put_beside)

    def _take_read(self, resource: Resource, obj: Json) -> None:
        self._take(resource, obj, self._store.put_read)

    def _take(self, resource: Resource, obj: Json, put: Callable[[Resource, Json], object]) -> None:
        """Puts an object that was read or written into the store.

        This is only done for custom resources and for objects with our label. Others are not
        watched, so their deletion would never be noticed. An object that has lost the label is
        removed, as by the watch.
        """
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self._absent.pop((resource, namespace, name), None)
        ours = labels_of(obj).get(naming.LABEL_MANAGED_BY) == naming.MANAGER
        if resource.group == naming.GROUP or ours:
            put(resource, obj)
        elif self.known(resource, namespace, name) is not None:
            self._store.remove(resource, namespace, name, metadata["uid"], version_of(obj))

    async def read_all(self, resource: Resource, namespace: str, cluster: str) -> None:
        """Lists all objects of the cluster, including the pods of its Jobs, and updates the
        store. Objects that no longer exist are removed from it."""
        selector = ",".join(f"{key}={value}" for key, value in naming.ours(cluster).items())
        listing = await self._kube.list(resource, namespace, selector)
        for one in listing.items:
            self._take_read(resource, one)
        listed = {one["metadata"]["name"] for one in listing.items}
        for one in self._store.of_cluster(resource, namespace, cluster):
            if one["metadata"]["name"] not in listed:
                self._forget(resource, one, listing.version)

    def _forget(self, resource: Resource, gone: Json, version: int | None = None) -> None:
        """Removes an object that was not found from the store, maybe before its event came."""
        if self._store.remove(resource, *key_of(gone), gone["metadata"]["uid"], version):
            self._store.wake_owners(resource, gone)

    def take_all(self, resource: Resource, namespace: str, listing: Listing) -> None:
        """Puts a LIST of a resource that is not watched into the store."""
        self._store.replace(resource, namespace, listing.items, listing.version)

    def drop_all(self, resource: Resource, namespace: str) -> None:
        """Removes from the store what `take_all` put there."""
        self._store.drop(resource, namespace)

    def _is_absent(self, name: Name, seconds: float) -> bool:
        return self._clock() - self._absent.get(name, float("-inf")) < seconds

    def _remember_absent(self, name: Name, asked: float) -> None:
        self._absent = self._recent(self._absent, ABSENT_SECONDS)
        self._absent[name] = asked

    def _recent(self, asked: dict[Name, float], seconds: float) -> dict[Name, float]:
        oldest = self._clock() - seconds
        return {one: at for one, at in asked.items() if at > oldest}
