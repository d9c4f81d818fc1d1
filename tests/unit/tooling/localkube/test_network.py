"""Addresses and versions of the local cluster."""

import ipaddress
from itertools import combinations

from localkube import network, versions
from localkube.paths import REPOSITORY


def test_pod_subnets_are_apart_and_within_the_range() -> None:
    subnets = [ipaddress.ip_network(network.pod_subnet(index)) for index in range(1, 10)]
    assert all(subnet.subnet_of(network.PODS) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))


def test_nothing_has_the_address_of_another() -> None:
    nodes = [network.node_address(index) for index in range(1, 10)]
    assert len({network.HOST, network.control_address(), *nodes}) == 11


def test_every_pod_range_has_a_route_or_a_hole() -> None:
    for routes in (network.routes(3), network.routes(3, skip=2)):
        assert f"blackhole {network.PODS}" in routes
        assert any(route.startswith(str(network.SERVICES)) for route in routes)
    assert not any(network.pod_subnet(2) in route for route in network.routes(3, skip=2))
    assert any(network.pod_subnet(2) in route for route in network.routes(3, skip=1))


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
