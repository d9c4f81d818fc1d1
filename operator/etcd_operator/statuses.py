"""Writes the status of a custom resource: to this very object, or to none.

The API server ignores the UID in a status (1.36), but it does check the resourceVersion, which no
two objects share: the status of one that is deleted cannot land on the next one of its name.
"""

from __future__ import annotations

from etcd_operator.kube import Conflict, Json, Kubernetes, Rejected, Resource


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
        if error.status != 404:
            raise
        return None


async def _apply(kube: Kubernetes, resource: Resource, body: Json, status: Json) -> Json:
    names = ("name", "namespace", "uid", "resourceVersion")
    manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {name: body["metadata"][name] for name in names},
        "status": status,
    }
    return await kube.apply(resource, manifest, status=True)
