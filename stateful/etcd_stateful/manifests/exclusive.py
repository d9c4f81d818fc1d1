"""Fields that somebody has set on an owned object, and that exclude fields of its manifest.

Server-side apply keeps fields that it does not name: a `rollingUpdate`, a `maxUnavailable`, a probe
of another kind. With one of these the API server would refuse every apply. Up to Kubernetes 1.33 it
takes everything in a pod template, and refuses every pod made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful.api.quantity import is_less
from etcd_stateful.manifests.common import Manifest

_ONE_OF: Final = (
    frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
    frozenset({"value", "valueFrom"}),
    frozenset({"configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"}),
    frozenset({"type", "localhostProfile"}),  # the type Localhost is given with its profile
    frozenset(
        {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "hostPath"}
        | {"persistentVolumeClaim", "projected", "secret"}
    ),
)
"""Fields of which a part of a pod template has one."""


def excluded(live: Mapping[str, Any], manifest: Manifest) -> str | None:
    """The path of the first field in a live pod template that is not the manifest's, and with which
    no pod could have the manifest's; None if there is none."""
    template = manifest["spec"].get("template")
    return _excluded(live["spec"].get("template"), template, "spec.template")


def _excluded(live: Any, wanted: Any, path: str) -> str | None:
    if live == wanted:
        return None
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        if other := _beside(live, wanted):
            return f"{path}.{other}"
        found = (_excluded(live.get(key), one, f"{path}.{key}") for key, one in wanted.items())
        return next((where for where in found if where), None)
    if isinstance(live, list) and isinstance(wanted, list):
        there, ours = _by_name(live), _by_name(wanted)
        found = (_excluded(there.get(name), one, f"{path}[{name}]") for name, one in ours.items())
        return next((where for where in found if where), None)
    return None


def _by_name(items: list[Any]) -> Mapping[str, Any]:
    return {one["name"]: one for one in items if isinstance(one, Mapping) and "name" in one}


def _beside(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    more = live.keys() - wanted.keys()
    others = (min(more & group, default=None) for group in _ONE_OF if wanted.keys() & group)
    return next(filter(None, others), None) or _beyond_limit(live, wanted)


def _beyond_limit(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """A limit below a request, one of them ours, as `kubectl set resources` may leave it."""
    there, ours = _amounts(live), _amounts(wanted)
    asked, most = ({**one, **other} for one, other in zip(there, ours, strict=True))
    names = (asked.keys() & most.keys()) - (ours[0].keys() & ours[1].keys())
    beyond = (f"limits.{name}" for name in names if is_less(str(most[name]), str(asked[name])))
    return min(beyond, default=None)


def _amounts(resources: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return resources.get("requests") or {}, resources.get("limits") or {}


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
