"""Evaluates NetworkPolicies by their specification.

It is small on purpose: ingress only, pods by labels in namespaces by labels, addresses, and single
ports. A policy that uses anything else is refused rather than evaluated wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Peer:
    """A pod by namespace and labels; with an empty namespace something outside, by address."""

    namespace: str
    labels: Mapping[str, str]
    address: str = "10.244.0.9"


def allows(
    policies: Iterable[Policy],
    namespaces: Mapping[str, Mapping[str, str]],
    source: Peer,
    target: Peer,
    port: int,
) -> bool:
    """Whether a connection gets through; `namespaces` are labels by name."""
    selecting = [one for one in policies if _selects(one, target)]
    if not selecting:
        return True
    return any(
        _rule_allows(rule, policy, namespaces, source, port)
        for policy in selecting
        for rule in policy["spec"].get("ingress", ())
    )


def _selects(policy: Policy, target: Peer) -> bool:
    spec = policy["spec"]
    _only(spec, {"podSelector", "policyTypes", "ingress"})
    assert spec["policyTypes"] == ["Ingress"]
    inside = policy["metadata"]["namespace"] == target.namespace
    return inside and _matches(spec["podSelector"], target.labels)


def _rule_allows(
    rule: Mapping[str, Any],
    policy: Policy,
    namespaces: Mapping[str, Mapping[str, str]],
    source: Peer,
    port: int,
) -> bool:
    _only(rule, {"from", "ports"})
    if ports := rule.get("ports"):
        assert all(one.keys() == {"protocol", "port"} for one in ports)
        if ("TCP", port) not in [(one["protocol"], one["port"]) for one in ports]:
            return False
    peers = rule.get("from") or ()
    own = policy["metadata"]["namespace"]
    return not peers or any(_is_peer(one, own, namespaces, source) for one in peers)


def _is_peer(
    peer: Mapping[str, Any],
    own: str,
    namespaces: Mapping[str, Mapping[str, str]],
    source: Peer,
) -> bool:
    _only(peer, {"podSelector", "namespaceSelector", "ipBlock"})
    if block := peer.get("ipBlock"):
        address = ip_address(source.address)
        left_out = [ip_network(one) for one in block.get("except", ())]
        return address in ip_network(block["cidr"]) and not any(address in one for one in left_out)
    if not source.namespace:
        return False
    if "namespaceSelector" in peer:
        there = _matches(peer["namespaceSelector"], namespaces[source.namespace])
    else:
        there = source.namespace == own
    return there and _matches(peer.get("podSelector", {}), source.labels)


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    _only(selector, {"matchLabels"})
    return selector.get("matchLabels", {}).items() <= labels.items()


def _only(found: Mapping[str, Any], known: set[str]) -> None:
    assert found.keys() <= known, f"not understood here: {found.keys() - known}"
