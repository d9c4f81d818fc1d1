"""Writes the status of a custom resource, but never to another object of the same name.

The API server ignores the UID in a status (1.36), but it checks the resourceVersion, which no two
objects share. So the status of a deleted object cannot be written to a new one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_operator.kube.api import (
    Conflict,
    Json,
    Key,
    Kubernetes,
    Rejected,
    Resource,
    refused_in_words,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store, key_of
from etcd_stateful import stored_conditions

_TIMES: Final = frozenset({"lastTransitionTime", "lastUpdateTime"})


class StatusWriter:
    """Writes the statuses of one kind of object. If the API server refuses one, an Event says so:
    nothing else can tell the user.

    Kubernetes 1.30 refuses the status of an object whose spec was stored before a rule of the CRD
    that refuses it, as after an upgrade.
    """

    def __init__(self, kube: Kubernetes, store: Store, events: Events, resource: Resource) -> None:
        self._kube = kube
        self._store = store
        self._events = events
        self._resource = resource
        self._pruned: dict[Key, tuple[Json, Json]] = {}
        """The last status of which the API server kept less, and what it kept."""

    def is_stored(self, body: Json, status: Json) -> bool:
        """Whether to write the status would be useless: but for its times it is the stored one, or
        an older CRD has pruned fields of this same status."""
        wanted, stored = without_times(status), without_times(body.get("status") or {})
        return wanted == stored or self._pruned.get(key_of(body)) == (wanted, stored)

    async def write(self, body: Json, status: Json) -> bool:
        """Writes the status unless it `is_stored`. Returns whether it was written.

        The result goes into the store at once, before the watch delivers it. Raises KubeError.
        """
        if self.is_stored(body, status):
            return False
        written = await self._send(body, status)
        if written is None:
            return False
        wanted, kept = without_times(status), without_times(written.get("status") or {})
        if kept != wanted:
            known, there = self._pruned, set(self._store.keys(self._resource))
            self._pruned = {key: known[key] for key in known.keys() & there}
            self._pruned[key_of(body)] = (wanted, kept)
        self._store.put_written(self._resource, body, written)
        return True

    async def _send(self, body: Json, status: Json) -> Json | None:
        """As `write_status`."""
        try:
            return await write_status(self._kube, self._resource, body, status)
        except Rejected as error:
            if words := refused_in_words(error):
                about = self._resource.named(body)
                message = f"The status is out of date: {words}"
                await self._events.emit(about, "Warning", "StatusRefused", message)
            raise


async def write_status(
    kube: Kubernetes, resource: Resource, body: Json, status: Json
) -> Json | None:
    """Writes the status and returns the object; None if it is gone, or others keep changing it.

    In both cases another event will come. Raises KubeError for all other errors.
    """
    metadata = body["metadata"]
    try:
        try:
            return await _apply(kube, resource, body, status)
        except Conflict:
            # Our copy may be older than the API server's. The status must get through even if
            # others write to the object all the time.
            fresh = await kube.get(resource, metadata["namespace"], metadata["name"])
            if fresh is None or fresh["metadata"]["uid"] != metadata["uid"]:
                return None
            return await _apply(kube, resource, fresh, status)
    except Conflict:
        return None
    except Rejected as error:
        if not error.not_found:
            raise
        return None


def without_times(status: Mapping[str, Any]) -> Json:
    """The status without its times, and the operator's conditions without their order."""
    conditions = {
        one.get("type"): {name: value for name, value in one.items() if name not in _TIMES}
        for one in stored_conditions.ours(status)
    }
    return {**status, "conditions": conditions}


async def _apply(kube: Kubernetes, resource: Resource, body: Json, status: Json) -> Json:
    names = ("name", "namespace", "uid", "resourceVersion")
    metadata = {name: body["metadata"][name] for name in names}
    manifest = resource.named({"metadata": metadata, "status": status})
    written = await kube.apply(resource, manifest, status=True)
    if not (left := _left_over(written.get("status") or {}, status)):
        return written
    metadata["resourceVersion"] = written["metadata"]["resourceVersion"]
    patch = {"metadata": metadata, "status": left}
    return await kube.merge_patch(
        resource, metadata["namespace"], metadata["name"], patch, status=True
    )


def _left_over(there: Json, status: Json) -> Json:
    """A merge patch that removes what the status does not have. What others have written stays in
    an apply that does not name it: of the coreos operator, or of a tool that has restored the
    object together with its status. Conditions of a type that the operator does not write stay:
    another controller keeps them there."""
    patch: Json = {}
    for key, value in there.items():
        ours = status.get(key)
        if ours is None:
            patch[key] = None
        elif isinstance(value, dict) and (inner := _left_over(value, ours)):
            patch[key] = inner
        elif isinstance(value, list):
            own = stored_conditions.ours(there)
            stays = [one for one in value if key == "conditions" and one not in own]
            if len(value) > len(ours) + len(stays):
                patch[key] = [*ours, *stays]
    return patch
