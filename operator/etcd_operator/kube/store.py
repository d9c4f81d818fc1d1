"""A cache of objects, filled by watches, LISTs and the responses to our own writes.

Reading it costs nothing, so a pass reads everything it needs. It has three sources: watch events;
the periodic LIST, because a watch that breaks loses deletions (kopf lists again after 410 Gone
without comparing); and the responses to our own writes, so that a pass sees what the pass before it
did. These may arrive in any order, hence the one rule: **an object never goes back in time**,
unless a LIST shows that the API server itself has.

resourceVersions are compared as integers. Kubernetes documents that this is valid within one
resource since 1.35 (KEP-5504); every older etcd-backed API server behaves the same.

That an object is absent here is a hint, never a proof: an object whose labels were changed is
absent too. Before something is deleted, or counts as lost, it is read from the API server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    Json,
    Key,
    Rejected,
    Resource,
)
from etcd_stateful import naming
from etcd_stateful.metadata import annotations_of, labels_of


def key_of(obj: Json) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


class Owner(NamedTuple):
    """The custom resource that an object belongs to."""

    resource: Resource
    key: Key


def owners_of(resource: Resource, obj: Json) -> tuple[Owner, ...]:
    """The custom resources that need a pass when this object changes: itself, its schedule, its
    backup, its cluster."""
    namespace = obj["metadata"].get("namespace", "")
    if resource.group == naming.GROUP:
        itself = Owner(resource, key_of(obj))
        schedule = labels_of(obj).get(naming.SCHEDULE)
        if resource == ETCD_BACKUPS and schedule:
            return itself, Owner(ETCD_SCHEDULES, (namespace, schedule))
        if resource == ETCD_RESTORES:
            # It may request that the cluster of the same name is restored in place.
            return itself, Owner(ETCD_CLUSTERS, key_of(obj))
        return (itself,)
    notes = annotations_of(obj)
    if name := notes.get(naming.RESTORE):
        return (Owner(ETCD_RESTORES, (namespace, name)),)
    cluster = labels_of(obj).get(naming.LABEL_INSTANCE)
    of_cluster = (Owner(ETCD_CLUSTERS, (namespace, cluster)),) if cluster else ()
    if name := notes.get(naming.BACKUP):
        return Owner(ETCD_BACKUPS, (namespace, name)), *of_cluster
    return of_cluster


def others(resource: Resource, obj: Json) -> tuple[Owner, ...]:
    """The other custom resources that need a pass when this one changes. They need it even if the
    store already has the change from our own write, because that did not queue them."""
    return owners_of(resource, obj)[1:] if resource.group == naming.GROUP else ()


_VOLATILE: Final = frozenset({"resourceVersion", "managedFields"})


@dataclass(slots=True)
class _Shelf:
    """The objects of one resource."""

    resource: Resource
    objects: dict[Key, Json] = field(default_factory=dict)
    by_owner: defaultdict[Owner, dict[Key, Json]] = field(default_factory=lambda: defaultdict(dict))
    gone: dict[Key, int] = field(default_factory=dict)
    """The version of the last deletion of each name. An older event must not bring it back."""

    listed_at: dict[str | None, int] = field(default_factory=dict)
    """The version of the last LIST of each namespace (None: all). An object that was not in it did
    not exist then."""

    def put(self, obj: Json, listed_at: int | None = None) -> bool:
        """Stores the object if it is newer. A LIST proves that it existed at `listed_at`. Returns
        whether it was stored."""
        key = key_of(obj)
        known = self.objects.get(key)
        if known is not None:
            had, has = version_of(known), version_of(obj)
            # A LIST shows each object as it was last written. If we have a later write from before
            # the LIST, the API server has lost it: its own etcd was restored from a snapshot.
            is_lost = listed_at is not None and has < had <= listed_at
            news = has > had or is_lost
        else:
            gone = self._gone_at(key)
            news = version_of(obj) > gone if listed_at is None else listed_at >= gone
        if not news:
            return False
        self.unset(key)
        self.objects[key] = obj
        for owner in owners_of(self.resource, obj):
            self.by_owner[owner][key] = obj
        return True

    def remove(self, key: Key, uid: str, version: int | None) -> bool:
        known = self.objects.get(key)
        if known is None:
            self._record_deletion(key, version)
            return False
        at = version_of(known) if version is None else version
        # The known object is newer than the deletion. Either it was created again, or it was never
        # gone: its labels were changed and then restored by our own write, whose response was
        # faster than this event.
        if version_of(known) > at or (version is None and known["metadata"].get("uid") != uid):
            return False
        self.unset(key)
        self._record_deletion(key, at)
        return True

    def absent(self, namespace: str | None, listed: Iterable[Key], version: int) -> list[Json]:
        """Drops and returns the objects that a LIST should have shown, but did not."""
        shown = set(listed)
        dropped = [
            obj
            for key, obj in self.objects.items()
            if namespace in (None, key[0]) and key not in shown and version_of(obj) <= version
        ]
        for obj in dropped:
            self.unset(key_of(obj))
        self.listed_at[namespace] = max(version, self.listed_at.get(namespace, -1))
        self.gone = {
            key: at
            for key, at in self.gone.items()
            if at > version or namespace not in (None, key[0])
        }
        return dropped

    def _gone_at(self, key: Key) -> int:
        listed = max(self.listed_at.get(None, -1), self.listed_at.get(key[0], -1))
        return max(self.gone.get(key, -1), listed)

    def _record_deletion(self, key: Key, version: int | None) -> None:
        if version is not None:
            self.gone[key] = max(version, self.gone.get(key, -1))

    def unset(self, key: Key) -> None:
        known = self.objects.pop(key, None)
        for owner in owners_of(self.resource, known) if known is not None else ():
            siblings = self.by_owner[owner]
            siblings.pop(key, None)
            if not siblings:
                del self.by_owner[owner]


class Store:
    """The cache. Objects are returned without `managedFields`, and must not be changed, because
    they are shared."""

    def __init__(self, wake: Callable[[Owner], None] = lambda _: None) -> None:
        """`wake` is called with who needs a pass because of what was read or written here: the
        event of that change will be no news."""
        self._wake = wake
        self._shelves: dict[Resource, _Shelf] = {}
        self._refused: dict[tuple[Resource, str | None], str] = {}
        """Why the API server refuses each LIST, of those that were never served, or not for
        long."""

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._shelf(resource).objects.get((namespace, name))

    def of_cluster(self, resource: Resource, namespace: str, cluster: str) -> list[Json]:
        """The objects with the cluster's instance label, sorted by name."""
        return self.of(Owner(ETCD_CLUSTERS, (namespace, cluster)), resource)

    def of(self, owner: Owner, resource: Resource) -> list[Json]:
        """The objects that belong to a custom resource, sorted by name."""
        found = self._shelf(resource).by_owner.get(owner, {})
        return [found[key] for key in sorted(found)]

    def keys(self, resource: Resource) -> list[Key]:
        return sorted(self._shelf(resource).objects)

    def put(self, resource: Resource, obj: Json) -> bool:
        """Stores the object of a watch event or of a write; False if it is not newer."""
        return self._shelf(resource).put(_slim(obj))

    def put_read(self, resource: Resource, obj: Json) -> None:
        """Stores an object that a pass has read, maybe before its event came."""
        if self.put(resource, obj):
            self.wake_owners(resource, obj)

    def put_written(self, resource: Resource, before: Json, written: Json) -> None:
        """Stores the answer to the write of a status. If others have edited the object in between,
        it needs another pass."""
        self.put(resource, written)
        if _as_edited(before) != _as_edited(written):
            self._wake(Owner(resource, key_of(written)))

    def put_beside(self, resource: Resource, written: Json) -> None:
        """Stores the answer to a write that no pass of its owners waits for. If it is faster than
        the event, they need a pass: what others have changed is in it too."""
        if self.put(resource, written):
            for owner in owners_of(resource, written):
                self._wake(owner)

    def wake_owners(self, resource: Resource, obj: Json) -> None:
        """Wakes the owners of an object that a pass has read. Only a cluster's own passes read its
        children."""
        for owner in owners_of(resource, obj):
            if resource.group == naming.GROUP or owner.resource != ETCD_CLUSTERS:
                self._wake(owner)

    def remove(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        version: int | None = None,
    ) -> bool:
        """Removes an object that was deleted; `version` is that of the deletion, if known.

        Do not call it for the response to our own DELETE: a pod, or an object with a finalizer,
        still exists then.
        """
        return self._shelf(resource).remove((namespace, name), uid, version)

    def replace(
        self, resource: Resource, namespace: str | None, listed: list[Json], version: int
    ) -> set[Owner]:
        """Takes over a LIST served at `version`. Returns the owners of all objects that differ."""
        self._refused.pop((resource, namespace), None)
        shelf = self._shelf(resource)
        before = {key_of(obj): shelf.objects.get(key_of(obj)) for obj in listed}
        different = [obj for obj in map(_slim, listed) if shelf.put(obj, version)]
        different += [old for obj in different if (old := before[key_of(obj)]) is not None]
        different += shelf.absent(namespace, before, version)
        return {owner for obj in different for owner in owners_of(resource, obj)}

    def refuse(self, resource: Resource, namespace: str | None, why: str) -> None:
        """Notes that a LIST is refused: nothing is known of what it would show."""
        self._refused[resource, namespace] = why

    def check_listed(self, resource: Resource, namespace: str) -> None:
        """Raises Rejected if the LIST of this namespace is refused."""
        if why := self._refused.get((resource, namespace)):
            raise Rejected(why, status=403)

    def drop(self, resource: Resource, namespace: str | None) -> set[Owner]:
        """Forgets the objects of a namespace (None: all) that may not be read any more. If they are
        read again later, they count as new. Returns their owners."""
        shelf = self._shelf(resource)
        dropped = [obj for key, obj in shelf.objects.items() if namespace in (None, key[0])]
        for obj in dropped:
            shelf.unset(key_of(obj))
        return {owner for obj in dropped for owner in owners_of(resource, obj)}

    def _shelf(self, resource: Resource) -> _Shelf:
        if resource not in self._shelves:
            self._shelves[resource] = _Shelf(resource)
        return self._shelves[resource]


def _as_edited(obj: Json) -> tuple[Json, object]:
    """What of an object others edit: its metadata without what a write of the status changes, and
    its spec."""
    return {k: v for k, v in obj["metadata"].items() if k not in _VOLATILE}, obj.get("spec")


def _slim(obj: Json) -> Json:
    """The object without `managedFields`, which are often half of it and which nothing here
    reads."""
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return obj | {"metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
