"""Fields that somebody has set on an owned object, and that exclude fields of its manifest.

Server-side apply keeps fields that it does not name: a `rollingUpdate`, a `maxUnavailable`, a probe
of another kind. With one of these the API server would refuse every apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etcd_stateful.manifests.common import Manifest


def replacement(live: Mapping[str, Any], manifest: Manifest) -> Manifest:
    """A merge patch that leaves nothing in the spec beside the fields of the manifest, in one
    write: a budget without either field would let every pod be evicted. Ports that others have
    added to a Service stay."""
    spec = _in_place_of(live["spec"], manifest["spec"])
    if manifest["kind"] == "Service":
        ours = {one["name"] for one in spec["ports"]}
        others = [one for one in live["spec"].get("ports") or () if one.get("name")]
        spec["ports"] = [*(one for one in others if one["name"] not in ours), *spec["ports"]]
    return {"spec": spec}


def _in_place_of(live: Any, wanted: Any) -> Any:
    if not (isinstance(live, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    ours = {key: _in_place_of(live.get(key), value) for key, value in wanted.items()}
    return dict.fromkeys(live.keys() - wanted.keys()) | ours
