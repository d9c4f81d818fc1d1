"""`spec.networkPolicy`: who may connect to the members, besides those who need to.

Peers have the form of a Kubernetes NetworkPolicy. They are checked here as well, because the API
server refuses a whole NetworkPolicy for one peer that has no selector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
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
    """The peers that may connect, for each purpose. None if the spec does not list any. An empty
    list admits only those who need to connect: members, the operator and probes."""

    clients: tuple[Peer, ...] | None = None
    metrics: tuple[Peer, ...] | None = None


DEFAULT_ACCESS: Final = Access()


def read_access(reader: Reader) -> Access:
    """Reads `spec.networkPolicy`; what is wrong with it is added to the reader's problems."""
    return Access(_peers(reader, "clients"), _peers(reader, "metrics"))


def _peers(reader: Reader, key: str) -> tuple[Peer, ...] | None:
    if not reader.has(key):
        return None
    return tuple(_peer(item) for item in reader.items(key))


def _peer(item: Reader) -> Peer:
    """The peer as the API server stores it, so that a comparison finds no drift."""
    for key in item.raw.keys() - _KEYS:
        words = "is not a selector: use podSelector, namespaceSelector or ipBlock"
        item.problem(str(key)[:60], words)
    peer: dict[str, Any] = {key: _selector(item.object(key)) for key in _SELECTORS if item.has(key)}
    if item.has("ipBlock"):
        if peer:
            words = "cannot be combined with a selector: make it a separate peer"
            item.problem("ipBlock", words)
        peer["ipBlock"] = _block(item.object("ipBlock"))
    if not peer:
        item.problem("", "selects nothing: set podSelector, namespaceSelector or ipBlock")
    return peer


def _selector(reader: Reader) -> dict[str, Any]:
    """The selector without empty fields. An empty selector selects everything."""
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
        reader.problem(field, f"{key[:60]!r} is not a valid label key")
    for value in values:
        if not _VALUE.fullmatch(value):
            reader.problem(field, f"{value[:60]!r} is not a valid label value")


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
        meant = ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        meant = None
    if meant is None or not _is_written_plainly(meant, text):
        reader.problem(key, f"must be a network like 10.0.0.0/8, found {text[:60]!r}")
    elif meant.network_address != ip_address(text.partition("/")[0]):
        words = f"must be the first address of a network, found {text[:60]!r}: write {meant}"
        reader.problem(key, words)
    return meant


def _is_written_plainly(found: Network, text: str) -> bool:
    """Whether Kubernetes takes it, which refuses a `/08`, and IPv4 in the form of IPv6 (1.36)."""
    mapped = isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None
    return text.endswith(f"/{found.prefixlen}") and not mapped


def _is_within(part: Network, whole: Network) -> bool:
    """Whether `part` is smaller than `whole` and lies in it. Kubernetes refuses the whole
    NetworkPolicy for an `except` that is not."""
    if part.version != whole.version or part.prefixlen <= whole.prefixlen:
        return False
    return part.network_address in whole
