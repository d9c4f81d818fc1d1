"""Fields that somebody has set on an owned object, and that exclude fields of its manifest.

Server-side apply keeps fields that it does not name, so with one of these the API server would
refuse every apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etcd_stateful.manifests.common import Manifest


def correction(live: Mapping[str, Any], manifest: Manifest) -> Manifest | None:
    """A merge patch with the fields of the manifest in place of those; None if there are none."""
    has, to_be = live["spec"], manifest["spec"]
    match manifest["kind"]:
        case "StatefulSet" if (has.get("updateStrategy") or {}).get("rollingUpdate") is not None:
            return {"spec": {"updateStrategy": {**to_be["updateStrategy"], "rollingUpdate": None}}}
        case "PodDisruptionBudget" if has.get("maxUnavailable") is not None:
            # At no moment without either: that would let every pod be evicted.
            return {"spec": {"minAvailable": to_be["minAvailable"], "maxUnavailable": None}}
        case "Service":
            return _ports(has.get("ports") or [], to_be["ports"])
        case _:
            return None


def _ports(there: list[Manifest], wanted: list[Manifest]) -> Manifest | None:
    """Apply tells ports apart by their numbers, but each must have a name that no other has."""
    numbers = {one["name"]: one["port"] for one in wanted}
    others = [one for one in there if one.get("name") and one["name"] not in numbers]
    ours = [one for one in there if one not in others]
    if all(numbers.get(one.get("name")) == one["port"] for one in ours):
        return None
    return {"spec": {"ports": [*others, *wanted]}}
