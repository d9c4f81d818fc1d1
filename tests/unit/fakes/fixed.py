"""What the API server lets nobody change."""

from __future__ import annotations

from typing import Any, Final

_CHANGEABLE: Final = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "template",
        "updateStrategy",
    }
)


def fixed(stateful_set: dict[str, Any]) -> dict[str, Any]:
    """The part of a StatefulSet's spec of which it refuses every change, with all that comes along
    (1.30 to 1.36)."""
    spec = stateful_set["spec"]
    return {key: value for key, value in spec.items() if key not in _CHANGEABLE}
