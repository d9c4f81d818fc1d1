"""What the schemas of the custom resources must never allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.options import BOUNDS

CRDS = Path(__file__).parents[3] / "crds"
BY_NAMESPACE = {
    "EtcdCluster.spec.networkPolicy.clients[].namespaceSelector",
    "EtcdCluster.spec.networkPolicy.metrics[].namespaceSelector",
    "EtcdCluster.spec.pod.persistentVolumeClaimSpec.dataSource.namespace",
    "EtcdCluster.spec.pod.persistentVolumeClaimSpec.dataSourceRef.namespace",
}
"""Fields that may name another namespace. A network policy peer only says who may connect to the
cluster. A data source in another namespace can be declared only so that its refusal says why."""

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "api"}}}
REQUIRED, PREFERRED = (
    f"{one}DuringSchedulingIgnoredDuringExecution" for one in ("required", "preferred")
)


def fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields(inner, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


def test_no_field_names_another_namespace() -> None:
    """The terms of an affinity did, by name and by label, although the documentation said that none
    does."""
    found = {
        path
        for file in CRDS.glob("*.yaml")
        for crd in [yaml.safe_load(file.read_text())]
        for version in crd["spec"]["versions"]
        for path in fields(version["schema"]["openAPIV3Schema"], crd["spec"]["names"]["kind"])
        if "namespace" in path.rpartition(".")[2].lower()
    }

    assert found == BY_NAMESPACE


def affine(kind: str, terms: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "good", "namespace": "ns", "uid": "uid", "generation": 1}
    return {"metadata": metadata, "spec": {"size": 3, "pod": {"affinity": {kind: terms}}}}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("elsewhere", [{"namespaces": ["kube-system"]}, {"namespaceSelector": {}}])
def test_an_affinity_to_pods_of_another_namespace_is_refused_by_its_field(
    kind: str, elsewhere: dict[str, Any]
) -> None:
    """Also if it was stored before the schema existed, or bypassed it."""
    term = TERM | elsewhere
    for terms, place in (
        ({REQUIRED: [TERM, term]}, f"{REQUIRED}[1]"),
        ({PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}, f"{PREFERRED}[0].podAffinityTerm"),
    ):
        with pytest.raises(RefusedCluster) as refused:
            parse_cluster(affine(kind, terms))
        [problem] = refused.value.problems
        assert problem.path == f"spec.pod.affinity.{kind}.{place}.{next(iter(elsewhere))}"


def test_an_affinity_within_the_namespace_is_handed_on_as_it_is() -> None:
    terms = {REQUIRED: [TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}

    cluster = parse_cluster(affine("podAntiAffinity", terms))

    assert cluster.pod.affinity == {"podAntiAffinity": terms}


@pytest.mark.parametrize("field", BOUNDS)
def test_a_variable_of_etcd_had_wider_bounds_than_its_field(field: str) -> None:
    crd = yaml.safe_load((CRDS / "etcdclusters.yaml").read_text())
    [version] = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found = spec["properties"]["etcd"]["properties"][field]

    assert (found["minimum"], found["maximum"]) == BOUNDS[field]


def rules(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield from schema.get("x-kubernetes-validations", ())
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            yield from rules(inner)


def test_a_backup_was_asked_for_of_a_cluster_that_had_never_formed() -> None:
    """As when a storage class is misspelt, or a LimitRange refuses the size of the claims: nothing
    can be backed up, and nothing keeps the cluster from being created again."""
    crd = yaml.safe_load((CRDS / "etcdclusters.yaml").read_text())
    told = [str(one.get("message", "")) for one in rules(crd)]
    fixed = [message for message in told if "into a new EtcdCluster" in message]

    assert len(fixed) == 5
    assert all("If it has not formed, delete it and its claims" in message for message in fixed)
