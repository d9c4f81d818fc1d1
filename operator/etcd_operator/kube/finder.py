"""Looks up the objects that a cluster needs by name, in the store first.

The store only knows objects that carry our label. An object of someone else's, or one of ours whose
labels were altered, has the name all the same; so before a name counts as free, the API server is
asked. A settled cluster finds everything in the store and reads nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from etcd_operator.kube.api import (
    REJECTED_SECONDS,
    Json,
    Kubernetes,
    Listing,
    Rejected,
    Resource,
)
from etcd_operator.kube.store import Store, version_of
from etcd_stateful import naming

ABSENT_SECONDS: Final = 10.0
"""How long a 404 is remembered between passes. Whoever creates the object reads once more, unless
the name `is_just_free`."""

JUST_SECONDS: Final = 0.05
"""How old a 404 may be to count as read just now: not much older than another one would be by the
time that a write follows it."""

Name = tuple[Resource, str, str]


class Finder:
    def __init__(
        self, kube: Kubernetes, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._store = store
        self._clock = clock
        self._absent: dict[Name, float] = {}
        """When the API server was asked for what it did not have."""

        self._refused: dict[Name, float] = {}
        """And for what may not be read."""

    async def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """The object from the store, or else from the API server."""
        if (known := self.known(resource, namespace, name)) is not None:
            return known
        if self._is_absent((resource, namespace, name), ABSENT_SECONDS):
            return None
        return await self.read(resource, namespace, name)

    async def find_if_allowed(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """As `find`. What may not be read is none: who would make it reads it first, is refused,
        and says so. Meanwhile it is not asked for."""
        place = (resource, namespace, name)
        if self._clock() - self._refused.get(place, float("-inf")) < REJECTED_SECONDS:
            return self.known(*place)
        self._refused.pop(place, None)
        try:
            return await self.find(*place)
        except Rejected as error:
            if not error.forbidden:
                raise
            self._refused[place] = self._clock()
            return None

    def known(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._store.get(resource, namespace, name)

    async def read(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """The object from the API server, which the store is told of."""
        asked, before = self._clock(), self.known(resource, namespace, name)
        found = await self._kube.get(resource, namespace, name)
        if found is None:
            # Not one that was made, and told of, while the answer was on its way.
            if before is not None:
                self._store.remove(resource, namespace, name, before["metadata"]["uid"])
            self._remember_absent((resource, namespace, name), asked)
        else:
            self.take(resource, found)
        return found

    def is_just_free(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether the API server was asked for the name a moment ago and had nothing."""
        return self._is_absent((resource, namespace, name), JUST_SECONDS)

    def take(self, resource: Resource, obj: Json) -> None:
        """Tells the store of an object that was read or written.

        Only of what the watch will tell the end of: one without our label would stay for ever. To
        the watch, one that has lost it is gone.
        """
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self._absent.pop((resource, namespace, name), None)
        labels = metadata.get("labels") or {}
        if resource.group == naming.GROUP or labels.get(naming.LABEL_MANAGED_BY) == naming.MANAGER:
            self._store.put(resource, obj)
        elif self.known(resource, namespace, name) is not None:
            self._store.remove(resource, namespace, name, metadata["uid"], version_of(obj))

    async def read_all(self, resource: Resource, namespace: str, cluster: str) -> None:
        """Reads all that is the cluster's, the pods of its Jobs included; tells the store of it
        and of what is not there any more."""
        selector = ",".join(f"{key}={value}" for key, value in naming.ours(cluster).items())
        listing = await self._kube.list_at(resource, namespace, selector)
        for one in listing.items:
            self.take(resource, one)
        listed = {one["metadata"]["name"] for one in listing.items}
        for one in self._store.of_cluster(resource, namespace, cluster):
            metadata = one["metadata"]
            if metadata["name"] not in listed:
                uid, name = metadata["uid"], metadata["name"]
                self._store.remove(resource, namespace, name, uid, listing.version)

    def take_all(self, resource: Resource, namespace: str, listing: Listing) -> None:
        """Tells the store of all of ours in a namespace, of a resource that is not watched."""
        self._store.replace(resource, namespace, listing.items, listing.version)

    def drop_all(self, resource: Resource, namespace: str) -> None:
        """Has the store forget what `take_all` told it of."""
        self._store.drop(resource, namespace)

    def _is_absent(self, name: Name, seconds: float) -> bool:
        return self._clock() - self._absent.get(name, float("-inf")) < seconds

    def _remember_absent(self, name: Name, asked: float) -> None:
        oldest = self._clock() - ABSENT_SECONDS
        self._absent = {one: at for one, at in self._absent.items() if at > oldest}
        self._absent[name] = asked
