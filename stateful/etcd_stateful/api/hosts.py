"""Hosts that no spec and no Secret may name as a store or as etcd: there a Job would call its own
pod, its node, the cloud's metadata service, or the API server.

Only what is written can be judged here. A name that resolves to such an address is not recognised.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_POD: Final = "the Job's own pod"
_NODE: Final = "the node or the cloud's metadata service"
_API_SERVER: Final = "the API server"

_NETWORKS: Final = {
    ipaddress.ip_network("127.0.0.0/8"): _POD,
    ipaddress.ip_network("::1/128"): _POD,
    ipaddress.ip_network("0.0.0.0/8"): _POD,
    ipaddress.ip_network("::/128"): _POD,
    ipaddress.ip_network("169.254.0.0/16"): _NODE,
    ipaddress.ip_network("fe80::/10"): _NODE,
    # The metadata services of AWS, Google and Oracle by IPv6.
    ipaddress.ip_network("fd00:ec2::/32"): _NODE,
    ipaddress.ip_network("fd20:ce::254/128"): _NODE,
    ipaddress.ip_network("fd00:c1::a9fe:a9fe/128"): _NODE,
    # Alibaba's metadata service, and the host of Azure's virtual machines.
    ipaddress.ip_network("100.100.100.200/32"): _NODE,
    ipaddress.ip_network("168.63.129.16/32"): _NODE,
}
_IPV4_AS_IPV6: Final = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "::/96")))
_NAMES: Final = (
    # The first three are in the file /etc/hosts of every pod.
    (re.compile(r"localhost|ip6-localhost|ip6-loopback|.*\.localhost"), _POD),
    (re.compile(r"kubernetes(\.default(\.svc(\..*)?)?)?"), _API_SERVER),
    (re.compile(r"metadata\.(google\.internal|goog)"), _NODE),
)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


def is_address(host: str) -> bool:
    """Whether a client takes it for an address, however it is written, and not for a name."""
    last = host.lower().rstrip(".").rpartition(".")[2]
    return host.startswith("[") or _NUMBER.fullmatch(last) is not None


def host_problem(host: str) -> str:
    """What is wrong with a host; empty if it may be called.

    Args:
        host: a name, an IPv4 address, or an IPv6 address in brackets.
    """
    if not is_address(host):
        name = host.lower().rstrip(".")
        where = next((words for names, words in _NAMES if names.fullmatch(name)), "")
    elif (address := _address(host)) is None:
        # Clients read 127.1, 0x7f000001 and 0177.0.0.1 as 127.0.0.1.
        return "must have its address as four decimal numbers, or as IPv6 in brackets"
    else:
        where = next((words for one, words in _NETWORKS.items() if address in one), "")
    return f"must not lead to {where}" if where else ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    unusual = any(found in one for one in _IPV4_AS_IPV6) and int(found) > 1
    return None if unusual else found
