"""Applies a manifest also where others have set fields beside it that exclude fields of it.

Server-side apply removes only what it has written before. So what others have set goes by a patch
first, and the patch must not count as a second owner of what it has written.
"""

from __future__ import annotations

from typing import Any

from etcd_operator.kube.api import FIELD_MANAGER, Json, Kubernetes, Rejected, Resource
from etcd_stateful.manifests.exclusive import excluded, replacement
from etcd_stateful.naming import LABEL_PART_OF


async def apply(kube: Kubernetes, resource: Resource, live: Json | None, manifest: Json) -> Json:
    """Applies the manifest, in place of the live object's spec if need be.

    Args:
        live: the object as last seen, if there is one. The manifest has its resourceVersion.
    """
    if live is None or not excluded(live, manifest):
        try:
            return await kube.apply(resource, manifest)
        except Rejected as error:
            if live is None or not error.invalid:
                raise
    version = await _replace(kube, resource, live, manifest)
    manifest = manifest | {"metadata": manifest["metadata"] | {"resourceVersion": version}}
    # What the patch has not named, such as an annotation that is to go, is still the apply's.
    return await kube.apply(resource, manifest)


async def _replace(kube: Kubernetes, resource: Resource, live: Json, manifest: Json) -> str:
    """Returns the resourceVersion after it."""
    metadata = manifest["metadata"]
    where = (metadata["namespace"], metadata["name"])
    at = {key: metadata[key] for key in ("uid", "resourceVersion")}
    # A label of ours is missing until the apply: should that fail, the next pass makes up for it.
    patch = replacement(live, manifest) | {"metadata": at | {"labels": {LABEL_PART_OF: None}}}
    done: dict[str, Any] = (await kube.merge_patch(resource, *where, patch))["metadata"]
    owners = done.get("managedFields") or []
    # Else a field would stay when a later manifest leaves it out: the patch would still own it.
    applied = [one for one in owners if not _is_of_a_patch(one)]
    if applied != owners:
        # At any version: the controller has just seen the first write, and notes it in the status.
        patch = {"metadata": {"uid": done["uid"], "managedFields": applied}}
        done = (await kube.merge_patch(resource, *where, patch))["metadata"]
    return str(done["resourceVersion"])


def _is_of_a_patch(owner: Json) -> bool:
    return (owner["manager"], owner["operation"]) == (FIELD_MANAGER, "Update")
