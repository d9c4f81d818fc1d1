"""Writes the status of a custom resource: to this very object, or to none.

The API server ignores the UID in a status (1.36), but it does check the resourceVersion, which no
two objects share: the status of one that is deleted cannot land on the next one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_operator.kube.api import Conflict, Json, Kubernetes, Rejected, Resource
from etcd_operator.kube.store import Store

_TIMES: Final = frozenset({"lastTransitionTime", "lastUpdateTime"})


async def write_news(
    kube: Kubernetes, store: Store, resource: Resource, body: Json, status: Json
) -> bool:
    """Where it says something else than before, times aside. Returns whether it was written.

    The store has it at once, before the watch tells. Raises KubeError.
    """
    if timeless(status) == timeless(body.get("status") or {}):
        return False
    written = await write_status(kube, resource, body, status)
    if written is not None:
        store.put(resource, written)
    return written is not None


async def write_status(
    kube: Kubernetes, resource: Resource, body: Json, status: Json
) -> Json | None:
    """The object with the status in it; None when it is gone, or somebody keeps altering it.

    Either way the next event comes. Raises KubeError for everything else.
    """
    metadata = body["metadata"]
    try:
        try:
            return await _apply(kube, resource, body, status)
        except Conflict:
            # Ours may be older than the API server's. It must not wait until nobody writes.
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


def timeless(status: Mapping[str, Any]) -> Json:
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
