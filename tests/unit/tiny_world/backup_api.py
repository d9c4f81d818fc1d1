"""The API server of the small world of backups, and its watches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from backup_pods import Killed
from copied import copied
from fakes import FakeClock, FakeKube, Name

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    PODS,
    Json,
    Rejected,
    Resource,
    Unavailable,
)
from etcd_operator.kube.store import Owner, others, owners_of

WATCHED: Final = (ETCD_BACKUPS, ETCD_CLUSTERS, ETCD_RESTORES, ETCD_SCHEDULES, PODS)
PASSED: Final = (ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES)
"""What the operator makes passes over here."""

WRITES: Final = ("create", "apply", "merge_patch", "delete")


class Api(FakeKube):
    """An API server that fails calls, loses answers and kills the operator that calls it."""

    def __init__(self, clock: FakeClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.chance = chance
        self.failing = 0.0
        """How often a call fails."""
        self.left = 0
        """How many calls the operator has left to live; 0: it lives."""
        self.unseen: set[Name] = set()
        """What has changed while the watch was broken."""
        self.changed: Callable[[Name, Json | None, Json | None], None] = lambda *_: None
        self.letting_go: Callable[[Json], None] = lambda *_: None
        """Told of an EtcdBackup that a schedule deletes, just before it does."""
        for verb in (*WRITES, "get", "list"):
            setattr(self, verb, self._mortal(getattr(self, verb), writes=verb in WRITES))

    def _mortal(self, real: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            if self.left and not (left := self.left - 1):
                raise Killed
            self.left = left if self.left else 0
            if self.chance.random() >= self.failing:
                return await real(*arguments, **named)
            if writes and self.chance.random() < 0.5:
                await real(*arguments, **named)
            elif self.chance.random() < 0.2:
                raise Rejected("exceeded quota", status=403)
            raise Unavailable("no answer in time")

        return call

    def _store(self, name: Name, obj: Json) -> Json:
        known, metadata = self.objects.get(name), obj["metadata"]
        if name[0] in PASSED:
            is_new = known is None or known.get("spec") != obj.get("spec")
            is_new |= _ends(obj) and not _ends(known or {})
            metadata["generation"] = (known or obj)["metadata"].get("generation", 0) + is_new
        self.changed(name, known, obj)
        written = super()._store(name, obj)
        if _ends(obj) and name[0] in PASSED and not metadata.get("finalizers"):
            self.remove(*name)
        return written

    async def delete(self, resource: Resource, namespace: str, name: str, **how: Any) -> bool:
        known = self.find(resource, name)
        if (
            known
            and resource == ETCD_BACKUPS
            and how["resource_version"] == known["metadata"]["resourceVersion"]
        ):
            self.letting_go(known)
        return await super().delete(resource, namespace, name, **how)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        gone = self.objects[resource, namespace, name]
        self.changed((resource, namespace, name), gone, None)
        watching, self.watching = self.watching, False
        super().remove(resource, namespace, name)
        self.watching = watching
        if resource in WATCHED:
            self.deliver((resource, namespace, name), gone)

    def publish(self, name: Name) -> None:
        if name[0] in WATCHED:
            self.deliver(name)

    def deliver(self, name: Name, gone: Json | None = None) -> None:
        """As `Informer.on_event`."""
        if self.store is None or not self.watching:
            self.unseen.add(name)
            return
        known, obj = self.store.get(*name), copied(self.objects.get(name))
        if obj is not None:
            news = self.store.put(name[0], obj)
        else:
            uid = (gone or known or {"metadata": {"uid": ""}})["metadata"]["uid"]
            news = self.store.remove(*name, uid, next(self._versions))
        for each in (known, obj) if news else ():
            for owner in owners_of(name[0], each) if each else ():
                self.wake(owner)
        for owner in others(name[0], obj or known or {}) if obj or known else ():
            self.wake(owner)

    def wake(self, owner: Owner) -> None:
        raise NotImplementedError

    def watch_again(self) -> None:
        self.watching = True
        unseen, self.unseen = self.unseen, set()
        for name in sorted(unseen, key=str):
            self.deliver(name)


def _ends(obj: Json) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in obj.get("metadata", {})
