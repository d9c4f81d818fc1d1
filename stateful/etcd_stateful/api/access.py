"""`spec.networkPolicy`: who, beside those who must, may open connections to the members.

Peers are in the form of Kubernetes' NetworkPolicy. They are read here all the same: one without any
selector would not narrow anything, and the API server would refuse the whole policy for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from etcd_stateful.api.reading import Reader

Peer = Mapping[str, Any]
Network = IPv4Network | IPv6Network

_SELECTORS: Final = ("podSelector", "namespaceSelector")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_KEYS: Final = frozenset({*_SELECTORS, "ipBlock"})


@dataclass(frozen=True, slots=True)
class Access:
    """None: the spec does not say; none listed: nobody but those who must."""

    clients: tuple[Peer, ...] | None = None
    metrics: tuple[Peer, ...] | None = None


BY_DEFAULT: Final = Access()


def read_access(reader: Reader) -> Access:
    """`spec.networkPolicy`; what is wrong with it is among the reader's problems."""
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
    for key, value in found["matchLabels"].items():
        _check_label(reader, "matchLabels", key, [value])
    requirements = list(reader.items("matchExpressions"))
    for one in requirements:
        _check_label(one, "", one.text("key"), one.listed("values", "texts"))
    found["matchExpressions"] = [
        {key: value for key, value in one.raw.items() if value not in (None, [])}
        for one in requirements
    ]
    return {key: value for key, value in found.items() if value}


def _check_label(reader: Reader, field: str, key: str, values: Sequence[str]) -> None:
    if not _KEY.fullmatch(key):
        reader.problem(field, f"{key[:60]!r} is not the key of a label")
    for value in values:
        if not _VALUE.fullmatch(value):
            reader.problem(field, f"{value[:60]!r} is not a value that a label may have")


def _block(reader: Reader) -> dict[str, Any]:
    cidr = reader.text("cidr")
    whole = _network(reader, "cidr", cidr)
    inner = reader.listed("except", "networks")
    for one in inner:
        part = _network(reader, "except", one)
        if whole and part and not _is_within(part, whole):
            words = f"must be smaller networks within {cidr[:60]}, found {one[:60]}"
            reader.problem("except", words)
    return {"cidr": cidr, "except": list(inner)} if inner else {"cidr": cidr}


def _network(reader: Reader, key: str, text: str) -> Network | None:
    try:
        found = ip_network(text) if "/" in text else None
    except ValueError:
        found = None
    if found is None:
        reader.problem(key, f"must be a network like 10.0.0.0/8, found {text[:60]!r}")
    return found


def _is_within(part: Network, whole: Network) -> bool:
    """As Kubernetes asks it of exceptions: it refuses the whole policy for others."""
    if part.version != whole.version or part.prefixlen <= whole.prefixlen:
        return False
    return part.network_address in whole
