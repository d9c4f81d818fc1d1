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
    write: a budget without either field would let every pod be evicted.

    Others' elements of lists stay, such as the ports of a Service, if they have names of their own.
    """
    return {"spec": _in_place_of(live["spec"], manifest["spec"])}


def _in_place_of(live: Any, wanted: Any) -> Any:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        ours = {key: _in_place_of(live.get(key), value) for key, value in wanted.items()}
        return dict.fromkeys(live.keys() - wanted.keys()) | ours
    if isinstance(live, list) and isinstance(wanted, list) and _are_named(wanted):
        names = {one["name"] for one in wanted}
        return [*(one for one in live if one.get("name", "") not in {"", *names}), *wanted]
    return wanted


def _are_named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(one, Mapping) and "name" in one for one in items)
