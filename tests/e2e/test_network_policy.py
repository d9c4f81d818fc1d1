"""A cluster's NetworkPolicy on a network that enforces it: who can connect to which port.

All other tests run on the same network, so what operator, members and Jobs need is open there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.api import NAMESPACES, POLICIES
from harness.clusters import Cluster
from harness.place import Place
from harness.probes import Probe
from harness.waiting import eventually

from etcd_stateful import naming
from unit.manifests.reachability import Peer, allows

PEER, START, CLIENT, METRICS = 2380, 2378, 2379, 2381
PORTS = (PEER, START, CLIENT, METRICS)
WEB = {"app": "web"}
IS_OPERATOR = {
    f"app.kubernetes.io/{key}": value
    for key, value in {
        "name": "etcd-operator",
        "instance": "etcd-operator",
        "component": "operator",
    }.items()
}

Reached = dict[str, set[int]]
"""The ports of all members that a source gets to."""


class Sources:
    """Pods here and elsewhere, and what the words of the policies say of each."""

    def __init__(self, place: Place, elsewhere: Place) -> None:
        self._place = place
        self.peers = {
            "application": Peer(place.namespace, WEB),
            "member of another cluster": Peer(place.namespace, naming.labels("other")),
            "operator's labels beside the cluster": Peer(place.namespace, IS_OPERATOR),
            "application elsewhere": Peer(elsewhere.namespace, WEB),
            "member's labels elsewhere": Peer(elsewhere.namespace, naming.labels("etcd")),
            "operator's labels elsewhere": Peer(elsewhere.namespace, IS_OPERATOR),
            "pod beside the operator": Peer(place.operator.namespace, WEB),
        }
        image = place.operator.image
        self._probes = {
            name: Probe(place.kube, peer.namespace, f"probe-{turn}", image, dict(peer.labels))
            for turn, (name, peer) in enumerate(self.peers.items())
        }
        for probe in self._probes.values():
            probe.is_up()

    def reached(self, cluster: Cluster) -> Reached:
        addresses = [pod["status"]["podIP"] for pod in cluster.pods().values()]
        targets = [(address, port) for address in addresses for port in PORTS]
        with ThreadPoolExecutor(len(self._probes)) as threads:
            found = threads.map(lambda probe: probe.reaches(targets), self._probes.values())
            return {
                name: self._everywhere(dict(zip(targets, got, strict=True)))
                for name, got in zip(self._probes, found, strict=True)
            }

    def allowed(self, cluster: Cluster) -> Reached:
        """By the interpreter of policies that the unit tests rely on."""
        kube, here = self._place.kube, self._place.namespace
        policies = kube.list(POLICIES, here)
        namespaces = {
            one["metadata"]["name"]: one["metadata"].get("labels") or {}
            for one in kube.list(NAMESPACES)
        }
        member = Peer(here, cluster.pods()["etcd-0"]["metadata"]["labels"])
        return {
            name: {port for port in PORTS if allows(policies, namespaces, peer, member, port)}
            for name, peer in self.peers.items()
        }

    def leave(self) -> None:
        for probe in self._probes.values():
            probe.leave()

    @staticmethod
    def _everywhere(got: dict[tuple[str, int], bool]) -> set[int]:
        """Each member's policy is the same, so each port is open at all of them or at none."""
        ports = {port for (_, port), reached in got.items() if reached}
        some = {one for one, reached in got.items() if not reached and one[1] in ports}
        return ports | {-port for _, port in some}


@pytest.fixture
def sources(place: Place, local_node: None) -> Iterator[Sources]:
    elsewhere = Place.make(place.kube, place.reach, place.operator, place.ledger, "elsewhere")
    found = Sources(place, elsewhere)
    yield found
    found.leave()
    elsewhere.leave()


@pytest.mark.timeout(400)
def test_only_the_peers_named_in_the_spec_can_connect(place: Place, sources: Sources):
    cluster = place.declare(size=3).comes_up(90)
    beside = {name for name, peer in sources.peers.items() if peer.namespace == place.namespace}
    assert len(beside) == 3
    by_default = {
        name: {CLIENT, METRICS} if name in beside else {METRICS} for name in sources.peers
    }
    in_effect(sources, cluster, by_default)

    web = {"podSelector": {"matchLabels": WEB}}
    anywhere = {"namespaceSelector": {}} | web
    cluster.change(networkPolicy={"clients": [anywhere], "metrics": []})
    named = {
        name: {CLIENT} if peer.labels == WEB else set() for name, peer in sources.peers.items()
    }
    in_effect(sources, cluster, named)

    cluster.change(networkPolicy={"clients": [], "metrics": [web]})
    in_effect(
        sources,
        cluster,
        {name: {METRICS} if name == "application" else set() for name in sources.peers},
    )
    cluster.client.put("still", "served")


def in_effect(sources: Sources, cluster: Cluster, wanted: Reached) -> None:
    eventually(
        "whoever is named gets in, and nobody else",
        lambda: sources.reached(cluster),
        lambda found: found == wanted,
        seconds=60,
    )
    assert sources.allowed(cluster) == wanted, "the interpreter of the unit tests is wrong"


@pytest.mark.timeout(200)
def test_no_packet_is_lost_when_the_engine_hears_of_a_pod(place: Place, local_node: None):
    """It tried to write rules that the kernel refuses, and the kernel then dropped all packets that
    were being judged: members found each other a second later, and creation took that much longer.
    """
    image = place.operator.image
    client, server = (
        Probe(place.kube, place.namespace, name, image, WEB) for name in ("client", "server")
    )
    client.is_up()
    server.is_up()
    web = {"podSelector": {"matchLabels": WEB}}
    policy = {"metadata": {"name": "web"}, "spec": web | {"ingress": [{"from": [web]}]}}
    place.kube.create(POLICIES, policy, place.namespace)
    with ThreadPoolExecutor(1) as thread:
        connects = thread.submit(client.lost, server.address(), CLIENT, connections=3000)
        changes = 0
        while not connects.done():
            server.change(changes)
            changes += 1
    assert changes > 10
    assert connects.result() == 0
