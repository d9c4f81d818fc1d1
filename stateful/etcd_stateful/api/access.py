"""`spec.networkPolicy`: who, beside those who must, may open connections to the members.

Peers are in the form of Kubernetes' NetworkPolicy. They are read here all the same: one without any
selector would not narrow anything, and the API server would refuse the whole policy for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final

from etcd_stateful.api.reading import Reader

Peer = Mapping[str, Any]

_SELECTORS: Final = ("podSelector", "namespaceSelector")
_KEYS: Final = frozenset({*_SELECTORS, "ipBlock"})


@dataclass(frozen=True, slots=True)
class Access:
    """None: the spec does not say; none listed: nobody but those who must."""

    clients: tuple[Peer, ...] | None = None
    metrics: tuple[Peer, ...] | None = None


BY_DEFAULT: Final = Access()


def read_access(reader: Reader) -> Access:
    return Access(_peers(reader, "clients"), _peers(reader, "metrics"))


def _peers(reader: Reader, key: str) -> tuple[Peer, ...] | None:
    if not reader.has(key):
        return None
    return tuple(_peer(item) for item in reader.items(key))


def _peer(item: Reader) -> Peer:
    """As the API server stores it, so that it is found unchanged."""
    for key in item.raw.keys() - _KEYS:
        item.problem(str(key)[:60], "is no selector: use podSelector, namespaceSelector or ipBlock")
    peer: dict[str, Any] = {key: _selector(item.object(key)) for key in _SELECTORS if item.has(key)}
    if item.has("ipBlock"):
        if peer:
            item.problem("ipBlock", "cannot be together with a selector: make it a peer of its own")
        peer["ipBlock"] = _block(item.object("ipBlock"))
    if not peer:
        item.problem("", "names nobody: say podSelector, namespaceSelector or ipBlock")
    return peer


def _selector(reader: Reader) -> dict[str, Any]:
    """An empty one selects all."""
    found: dict[str, Any] = {"matchLabels": reader.texts("matchLabels")}
    found["matchExpressions"] = [
        {key: value for key, value in one.raw.items() if value not in (None, [])}
        for one in reader.items("matchExpressions")
    ]
    return {key: value for key, value in found.items() if value}


def _block(reader: Reader) -> dict[str, Any]:
    cidr = reader.text("cidr")
    _check_network(reader, "cidr", cidr)
    inner = reader.listed("except", "networks")
    for one in inner:
        _check_network(reader, "except", one)
    return {"cidr": cidr, "except": list(inner)} if inner else {"cidr": cidr}


def _check_network(reader: Reader, key: str, text: str) -> None:
    try:
        found = ip_network(text) if "/" in text else None
    except ValueError:
        found = None
    if found is None:
        reader.problem(key, f"must be a network like 10.0.0.0/8, found {text[:60]!r}")
