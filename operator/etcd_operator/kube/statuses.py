"""Writes the status of a custom resource, but never to another object of the same name.

The API server ignores the UID in a status (1.36), but it checks the resourceVersion, which no two
objects share. So the status of a deleted object cannot be written to a new one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_operator.kube.api import Conflict, Json, Kubernetes, Rejected, Resource
from etcd_operator.kube.store import Store

_TIMES: Final = frozenset({"lastTransitionTime", "lastUpdateTime"})


async def write_if_changed(
    kube: Kubernetes, store: Store, resource: Resource, body: Json, status: Json
) -> bool:
    """Writes the status if it differs from the stored one in more than its times. Returns whether
    it was written.

    The result goes into the store at once, before the watch delivers it. Raises KubeError.
    """
    if without_times(status) == without_times(body.get("status") or {}):
        return False
    written = await write_status(kube, resource, body, status)
    if written is not None:
        store.put_written(resource, body, written)
    return written is not None


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
    """The status without its times, and its conditions without their order."""
    conditions = {
        one.get("type"): {name: value for name, value in one.items() if name not in _TIMES}
        for one in status.get("conditions") or ()
    }
    return {**status, "conditions": conditions}


async def _apply(kube: Kubernetes, resource: Resource, body: Json, status: Json) -> Json:
    names = ("name", "namespace", "uid", "resourceVersion")
    metadata = {name: body["metadata"][name] for name in names}
    manifest = resource.named({"metadata": metadata, "status": status})
    return await kube.apply(resource, manifest, status=True)
