"""A write of an object that was in vain, and is put off for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CERTIFICATE: Final = "a certificate in Secret"
"""In the place of a kind, beside the Secret's name: of what is written into it."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """The API server refused it, or others undo it each time."""

    manifest: Mapping[str, Any]
    why: str

    def is_of(self, manifest: Mapping[str, Any]) -> bool:
        """Whether it would have made the same of the object."""
        return _unversioned(self.manifest) == _unversioned(manifest)


def _unversioned(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Without the version of the object that it is applied to."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
    return {**manifest, "metadata": metadata}
