"""What the API server lets nobody change, and what it accepts in no object."""

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


def excluded(spec: dict[str, Any]) -> str:
    """Why it refuses fields that exclude each other; empty if it does not (1.36). Up to 1.33 it
    takes everything in a pod template."""
    strategy, ports = spec.get("updateStrategy") or {}, spec.get("ports") or []
    if strategy.get("type") == "OnDelete" and "rollingUpdate" in strategy:
        return "spec.updateStrategy.rollingUpdate: only allowed for updateStrategy 'RollingUpdate'"
    if "minAvailable" in spec and "maxUnavailable" in spec:
        return "spec: minAvailable and maxUnavailable cannot be both set"
    names = [one.get("name") for one in ports]
    if len(names) > 1 and (None in names or len(names) != len(set(names))):
        return "spec.ports[1].name: Required value, or Duplicate value"
    if spec.get("type") == "ExternalName" and "clusterIP" in spec:
        return "spec.clusterIPs: Forbidden: may not be set for ExternalName services"
    if spec.get("type") == "ClusterIP" and "loadBalancerSourceRanges" in spec:
        return "spec.LoadBalancerSourceRanges: Forbidden: only when `type` is 'LoadBalancer'"
    return ""


def applied_ports(known: dict[str, Any] | None, manifest: dict[str, Any]) -> list[Any]:
    """The ports after an apply, which keeps those of others."""
    ports: list[Any] = manifest["spec"]["ports"]
    numbers = {one["port"] for one in ports}
    there = known["spec"].get("ports") or [] if known else []
    return [*(one for one in there if one["port"] not in numbers), *ports]


def applied_containers(known: dict[str, Any] | None, manifest: dict[str, Any]) -> list[Any]:
    """The containers after an apply, in whose probes it keeps the fields of others."""
    before = known["spec"]["template"]["spec"]["containers"] if known else []
    there = {one["name"]: one for one in before}
    made = []
    for one in manifest["spec"]["template"]["spec"]["containers"]:
        probes = {key: value for key, value in one.items() if key.endswith("Probe")}
        kept = there.get(one["name"], {})
        made.append(one | {key: kept.get(key, {}) | value for key, value in probes.items()})
    return made
