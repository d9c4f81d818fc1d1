"""Where something listens, by IPv4 or IPv6."""

from __future__ import annotations

import socket

from localkube.addresses import in_url

Address = tuple[str, int]
"""Host and port."""


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def unconnected(where: Address) -> socket.socket:
    """A socket that is able to connect there."""
    return socket.socket(family(where[0]))


def target(where: Address) -> str:
    """As gRPC and URLs want it."""
    return f"{in_url(where[0])}:{where[1]}"
