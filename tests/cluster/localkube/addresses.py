"""The cluster's addresses: IPv4, or IPv6 alone."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from localkube.choice import Choice

FAMILY = Choice("IP_FAMILY", "ipv4", re.compile("ipv4|ipv6"), "ipv4 or ipv6")
HAS_IPV6 = Path("/proc/net/if_inet6")

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Addresses:
    """`of_node` is the length of the prefix of one node's pods."""

    machines: Network
    pods: Network
    services: Network
    of_node: int
    everywhere: str
    reverse_zone: str
    iptables: str

    @property
    def ranges(self) -> tuple[Network, ...]:
        return self.machines, self.pods, self.services

    @property
    def host(self) -> str:
        return str(self.machines[1])

    @property
    def control(self) -> str:
        return str(self.machines[2])

    @property
    def api_service(self) -> str:
        return str(self.services[1])

    def node(self, index: int) -> str:
        return str(self.machines[10 + index])

    def pod_subnet(self, index: int) -> str:
        """At least 4094 addresses for each node, so that none is reused soon."""
        return str(list(self.pods.subnets(new_prefix=self.of_node))[index])


IPV4 = Addresses(
    machines=ip_network("10.89.0.0/24"),
    pods=ip_network("10.244.0.0/16"),
    services=ip_network("10.96.0.0/16"),
    of_node=20,
    everywhere="0.0.0.0/0",
    reverse_zone="in-addr.arpa",
    iptables="iptables",
)
IPV6 = Addresses(
    machines=ip_network("fd5e:7cd:89::/64"),
    pods=ip_network("fd5e:7cd:244::/56"),
    services=ip_network("fd5e:7cd:96::/112"),
    of_node=64,
    everywhere="::/0",
    reverse_zone="ip6.arpa",
    iptables="ip6tables",
)


def chosen() -> Addresses:
    return IPV6 if FAMILY.made() == "ipv6" else IPV4


def families() -> list[Addresses]:
    """Those that this machine can have."""
    return [IPV4, IPV6] if HAS_IPV6.exists() else [IPV4]


def all_ranges() -> list[Network]:
    return [each for family in families() for each in family.ranges]


def in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
