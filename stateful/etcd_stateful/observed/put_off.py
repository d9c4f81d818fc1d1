"""A write of an object that has failed, and is retried after a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CERTIFICATE: Final = "a certificate in Secret"
"""Used in place of a kind, with the Secret's name, for a certificate that is written into it."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """A write that the API server refused, or that others undo each time."""

    manifest: Mapping[str, Any]
    why: str

    def is_of(self, manifest: Mapping[str, Any]) -> bool:
        """Whether it was a write of the same manifest."""
        return _unversioned(self.manifest) == _unversioned(manifest)


def _unversioned(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without its resourceVersion."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
    return {**manifest, "metadata": metadata}
