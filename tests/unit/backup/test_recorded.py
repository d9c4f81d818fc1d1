"""What the manifest beside a backup records of its EtcdCluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import body as cluster_body

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.tls import MANAGED, NO_TLS, PLAINTEXT, Link, Links
from etcd_stateful.backup import recorded_cluster

OLD = {"size": 3, "version": "3.7.3", "pod": {"labels": {"team": "a"}}}


def test_a_life_is_not_recorded_with_its_spec() -> None:
    one_life = {"paused": True, "recovery": {}, "retainedClaims": {}, "bootstrap": {}}

    assert recorded_cluster.record("c", OLD | one_life) == {"name": "c", "spec": OLD}


def test_tls_is_recorded_as_specified_and_as_absent_if_omitted() -> None:
    def kept(links: Links, **spec: Any) -> Any:
        cluster = replace(parse_cluster(cluster_body(3, **spec)), links=links)
        return recorded_cluster.record("c", spec, cluster)["spec"].get("TLS")

    assert kept(Links(MANAGED, MANAGED)) is None
    assert kept(NO_TLS) == {"peer": "Plaintext", "client": "Plaintext"}
    assert kept(Links(MANAGED, PLAINTEXT)) == {"client": "Plaintext"}
    said = {"static": {"member": {"peerSecret": "p"}}}
    assert kept(Links(Link("Static", "p")), TLS=said) == said | {"client": "Plaintext"}
    assert kept(NO_TLS, TLS={"peer": "Managed"})["peer"] == "Managed", "the edit counts anew"


@pytest.mark.parametrize("spec", [{}, {"pod": None}, {"pod": {"imagePullSecrets": None}}])
def test_a_cluster_of_a_public_registry_has_no_credentials_for_it(spec: Any) -> None:
    assert recorded_cluster.pull_secrets(None) == []
    assert recorded_cluster.pull_secrets(recorded_cluster.record("c", spec)) == []


@pytest.mark.parametrize(
    ("endpoint", "names"),
    [
        ("http://example-etcd-cluster-client:2379", ["example-etcd-cluster"]),
        ("http://c-client.ns:2379", ["c"]),
        ("https://c-client.ns.svc.cluster.local", ["c"]),
        ("http://c-0.c.ns.svc:2379", ["c"]),
        ("http://c-0.c:2379", ["c"]),
        ("http://etcd.other:2379", []),
        ("http://c-client.other.svc:2379", []),
        ("http://10.0.0.1:2379", []),
    ],
)
def test_a_cluster_is_found_by_its_endpoints(endpoint: str, names: list[str]) -> None:
    assert recorded_cluster.possible_names([endpoint], "ns") == names


def test_a_cluster_with_the_name_of_its_namespace_was_not_found_by_its_pods() -> None:
    for host in ("etcd-0.etcd.etcd", "etcd-0.etcd.etcd.svc", "etcd-0.etcd.etcd.svc.cluster.local"):
        assert "etcd" in recorded_cluster.possible_names([f"https://{host}:2379"], "etcd")
