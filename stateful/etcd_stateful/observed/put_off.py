"""A write of an object that has failed, and is retried after a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CERTIFICATE: Final = "a certificate in Secret"
"""Used in place of a kind, with the Secret's name, for a certificate that is written into it."""

DELETION: Final = "the deletion of claim"
"""The same, with the claim's name."""

POD_DELETION: Final = "the deletion of pod"
"""The same, with the pod's name."""

SIZE: Final = "the storage request of claim"
"""The same, with the claim's name."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """A write that the API server refused, or that others undo each time."""

    manifest: Mapping[str, Any]
    why: str
    undone: bool = False
    """The API server has accepted it several times, and somebody has changed it each time."""

    def is_of(self, manifest: Mapping[str, Any]) -> bool:
        """Whether it was a write of the same manifest. To create an object is another write than to
        change it: one that cannot be changed is mended by its deletion."""
        return _unversioned(self.manifest) == _unversioned(manifest)


def of_uid(uid: str) -> dict[str, Any]:
    """What stands for the deletion of a claim or pod."""
    return {"metadata": {"uid": uid}}


def of_size(uid: str, storage: str) -> dict[str, Any]:
    """What stands for the storage request of a claim."""
    return {"metadata": {"uid": uid}, "storage": storage}


def of_secret(version: str) -> dict[str, Any]:
    """What stands for the content of a certificate's Secret, whose key is new each time.

    Args:
        version: the resourceVersion that is to be changed; empty to create it.
    """
    return {"metadata": {"resourceVersion": version} if version else {}}


def _unversioned(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest, with no more of its resourceVersion than whether it has one."""
    metadata = dict(manifest["metadata"])
    exists = metadata.pop("resourceVersion", None) is not None
    return {**manifest, "metadata": metadata, "exists": exists}
