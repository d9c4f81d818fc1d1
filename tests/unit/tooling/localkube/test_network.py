"""Addresses and versions of the local cluster."""

import ipaddress
from itertools import combinations

import pytest

from localkube import addresses, network, versions
from localkube.addresses import IPV4, IPV6, Addresses
from localkube.paths import REPOSITORY
from localkube.shell import ClusterError

FLANNEL = "10.244.1.0/24 via 10.244.1.0 dev flannel.1 onlink"
VPN = "10.96.0.0/16 dev tun0 scope link"
OURS = [
    "blackhole 10.244.0.0/16",
    "10.244.16.0/20 via 10.89.0.11 dev etcd-op0",
    "10.96.0.0/16 via 10.89.0.11 dev etcd-op0",
    "10.89.0.0/24 dev etcd-op0 proto kernel scope link src 10.89.0.1",
]
OURS_OF_IPV6 = [
    "blackhole fd5e:7cd:244::/56 dev lo metric 1024 pref medium",
    "fd5e:7cd:244:1::/64 via fd5e:7cd:89::b dev etcd-op0 metric 1024 pref medium",
]


class Host:
    """Understands the commands of `ip` that show and remove links and routes."""

    def __init__(self, *routes: str) -> None:
        self.links = {"eth0", "etcd-op0"}
        self.routes = list(routes)

    def run(self, *words: str) -> str:
        match words:
            case ("ip", "route", "show", "root", prefix):
                return "".join(f"{one} \n" for one in self._within(prefix))
            case ("ip", "route", "flush", "root", prefix):
                within = self._within(prefix)
                self.routes = [one for one in self.routes if one not in within]
            case ("ip", "-json", "link", "show", "master", _):
                return "[]"
            case ("ip", "link", "delete", name):
                self.links.remove(name)
                self.routes = [one for one in self.routes if f" dev {name}" not in one]
            case _:
                raise NotImplementedError(words)
        return ""

    def succeeds(self, *words: str) -> bool:
        match words:
            case ("ip", "link", "show", name):
                return name in self.links
            case ("ip", "route", "delete", *route):
                left = [
                    one for one in self.routes if not f"{one} ".startswith(f"{' '.join(route)} ")
                ]
                self.routes, was = left, self.routes
                return left != was
        raise NotImplementedError(words)

    def _within(self, prefix: str) -> list[str]:
        networks = {one: one.removeprefix("blackhole ").split()[0] for one in self.routes}
        outer = ipaddress.ip_network(prefix)
        return [
            one
            for one, of in networks.items()
            if outer.version == (found := ipaddress.ip_network(of)).version
            and outer.supernet_of(found)
        ]


def host(monkeypatch: pytest.MonkeyPatch, *routes: str) -> Host:
    made = Host(*routes)
    monkeypatch.setattr(network, "families", lambda: [IPV4, IPV6])
    monkeypatch.setattr(addresses, "families", lambda: [IPV4, IPV6])
    monkeypatch.setattr(network, "run", made.run)
    monkeypatch.setattr(network, "succeeds", made.succeeds)
    return made


def test_cluster_down_removed_the_routes_of_another_kubernetes_or_a_vpn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where there had never been a cluster of ours: CI begins with it."""
    machine = host(monkeypatch, FLANNEL, VPN, *OURS, *OURS_OF_IPV6)

    network.bridge_down()
    assert machine.routes == [FLANNEL, VPN]
    assert machine.links == {"eth0"}

    network.bridge_down()
    assert machine.routes == [FLANNEL, VPN]
    assert network.own_routes() == []


@pytest.mark.parametrize("other", [FLANNEL, VPN, "10.89.0.0/24 dev podman1 proto kernel"])
def test_a_cluster_was_made_over_the_routes_of_others(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    host(monkeypatch, *OURS, other)

    with pytest.raises(ClusterError) as refused:
        network.check_free()

    assert str(refused.value).splitlines()[1:] == [f"  {other}"]


def test_a_cluster_that_is_up_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    host(monkeypatch, *OURS)

    network.check_free()
    assert network.own_routes() == [*OURS[3:], *OURS[:3]]


@pytest.mark.parametrize("ours", [IPV4, IPV6])
def test_pod_subnets_are_apart_and_within_the_range(ours: Addresses) -> None:
    subnets = [ipaddress.ip_network(ours.pod_subnet(index)) for index in range(1, 10)]
    assert all(subnet in list(ours.pods.subnets(new_prefix=ours.of_node)) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))


@pytest.mark.parametrize("ours", [IPV4, IPV6])
def test_nothing_has_the_address_of_another(ours: Addresses) -> None:
    nodes = [ours.node(index) for index in range(1, 10)]
    assert len({ours.host, ours.control, *nodes}) == 11
    assert not any(one.overlaps(other) for one, other in combinations(ours.ranges, 2))


@pytest.mark.parametrize("ours", [IPV4, IPV6])
def test_every_pod_range_has_a_route_or_a_hole(
    monkeypatch: pytest.MonkeyPatch, ours: Addresses
) -> None:
    monkeypatch.setattr(network, "chosen", lambda: ours)
    for routes in (network.routes(3), network.routes(3, skip=2)):
        assert f"blackhole {ours.pods}" in routes
        assert any(route.startswith(str(ours.services)) for route in routes)
    assert not any(ours.pod_subnet(2) in route for route in network.routes(3, skip=2))
    assert any(ours.pod_subnet(2) in route for route in network.routes(3, skip=1))


def test_a_connection_by_ipv6_failed_while_the_kernel_asked_for_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So each gateway of a route is known for good."""
    monkeypatch.setattr(network, "chosen", lambda: IPV6)
    gateways = {route.split(" via ")[1] for route in network.routes(3, skip=2) if "via" in route}

    known = [line.split() for line in network.neighbours(3, skip=2)]

    assert {address for address, *_ in known} == gateways
    assert all(
        line[1:] == ["lladdr", network.hardware(line[0]), "nud", "permanent"] for line in known
    )
    assert network.hardware(IPV6.node(3)) == "02:00:00:00:00:0d"


def test_the_bridge_forgot_the_nodes_when_another_was_plugged_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bridge without an address of its own takes that of a port."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(network, "chosen", lambda: IPV6)
    monkeypatch.setattr(network, "succeeds", lambda *_words: False)
    monkeypatch.setattr(network, "run", lambda *words: commands.append(words))

    network.bridge_up()

    own = ("address", network.hardware(IPV6.host))
    assert commands[0] == ("ip", "link", "add", network.BRIDGE, *own, "type", "bridge")


def test_each_supported_minor_of_etcd_is_there_above_its_floor() -> None:
    floors = {(3, 5): 32, (3, 6): 12, (3, 7): 1}
    there = [tuple(map(int, each.split("."))) for each in versions.etcd_versions()]
    assert {each[:2] for each in there} == set(floors)
    assert all(patch >= floors[major, minor] for major, minor, patch in there)
    assert there == sorted(there)


def test_kind_gives_the_same_minor_of_kubernetes() -> None:
    minor = versions.kubernetes_version().rpartition(".")[0]
    assert versions.pinned("KIND_NODE").startswith(f"kindest/node:{minor}.")


def test_the_oldest_versions_are_those_that_charts_and_pages_name() -> None:
    """They were said to be supported, but were never run."""
    kubernetes, helm = (versions.pinned(f"{one}_OLDEST")[1:] for one in ("KUBERNETES", "HELM"))
    minor = kubernetes.rpartition(".")[0]
    charts = [path.read_text() for path in (REPOSITORY / "charts").glob("*/Chart.yaml")]
    assert charts
    assert all(f'kubeVersion: ">={minor}.0-0"' in text for text in charts)
    for name in ("README.md", "docs/compatibility.md"):
        text = (REPOSITORY / name).read_text()
        assert f"{minor} or newer" in text
        assert kubernetes in text
        assert helm in text


def test_the_version_of_kubernetes_is_that_of_its_libraries() -> None:
    kubernetes = versions.kubernetes_version().removeprefix("v1.")
    assert versions.module_version("kubernetes", "k8s.io/api").removeprefix("v0.") == kubernetes
