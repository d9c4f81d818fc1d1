"""Drift: what the API server and others add does not count, what somebody changes does.

Both directions matter: missed drift leaves a cluster changed, and false drift is a write that
repeats for good.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import body, with_defaults

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.statefulset import stateful_set
from unit.manifests.test_golden import CASES, rendered

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all values in a manifest that contain no others."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))
    else:
        yield path


def at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def changed(live: dict[str, Any], path: Path, new: Any) -> dict[str, Any]:
    altered = copy.deepcopy(live)
    at(altered, path[:-1])[path[-1]] = new
    return altered


def without(live: dict[str, Any], path: Path) -> dict[str, Any]:
    altered = copy.deepcopy(live)
    del at(altered, path[:-1])[path[-1]]
    return altered


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    return None


ALL = [(case, one) for case, resource in CASES.items() for one in rendered(parse_cluster(resource))]
NAMED = [
    pytest.param(one, id=f"{case}-{one['kind']}-{one['metadata']['name']}") for case, one in ALL
]
IGNORED = ("stringData", "data")


@pytest.mark.parametrize("manifest", NAMED)
def test_a_manifest_does_not_differ_from_itself(manifest: dict[str, Any]) -> None:
    assert drift(manifest, manifest) is None
    assert drift(copy.deepcopy(manifest), manifest) is None


@pytest.mark.parametrize("manifest", NAMED)
def test_any_altered_field_counts_as_drift(manifest: dict[str, Any]) -> None:
    live = with_defaults(manifest)
    missed = []
    for path in leaves(manifest):
        value = at(manifest, path)
        if value in ("", [], {}, None):
            continue
        where = drift(changed(live, path, another(value)), manifest)
        if where is None:
            missed.append(path)

    assert missed == []


@pytest.mark.parametrize("manifest", NAMED)
def test_every_single_leaf_that_someone_takes_away_is_found(manifest: dict[str, Any]) -> None:
    live = with_defaults(manifest)
    missed = []
    for path in leaves(manifest):
        if at(manifest, path) in ("", [], {}, None):
            continue
        if drift(without(live, path), manifest) is None:
            missed.append(path)

    assert missed == []


@pytest.mark.parametrize("manifest", NAMED)
def test_every_object_and_list_that_someone_takes_away_is_found(manifest: dict[str, Any]) -> None:
    live = with_defaults(manifest)
    inner = {path[:length] for path in leaves(manifest) for length in range(1, len(path))}

    assert [
        path for path in sorted(inner, key=repr) if drift(without(live, path), manifest) is None
    ] == []


def test_a_difference_is_reported_as_a_path() -> None:
    manifest = stateful_set(parse_cluster(body(3)), replicas=3, operator_image="x")
    live = with_defaults(manifest)
    live["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["periodSeconds"] = 9

    assert drift(live, manifest) == (
        "spec.template.spec.containers[etcd].readinessProbe.periodSeconds"
    )


def test_an_element_that_is_gone_is_named() -> None:
    manifest = stateful_set(parse_cluster(body(3)), replicas=3, operator_image="x")
    live = with_defaults(manifest)
    live["spec"]["template"]["spec"]["initContainers"] = []

    assert drift(live, manifest) == "spec.template.spec.initContainers[start]"


@pytest.mark.parametrize(
    ("live", "manifest"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}),
        ({}, {"a": ""}),
        ({}, {"a": None}),
        ({}, {"a": []}),
        ({}, {"a": {}}),
        ({}, {"a": {"b": ""}}),
        ({"a": None}, {"a": {}}),
        ({"l": [{"name": "a", "x": 1}, {"name": "b"}]}, {"l": [{"name": "b"}, {"name": "a"}]}),
        ({"l": [{"name": "new"}, {"name": "a"}]}, {"l": [{"name": "a"}]}),
        (
            {"l": [{"uid": "1", "name": "n"}, {"uid": "2", "name": "n", "k": 2}]},
            {"l": [{"uid": "1", "name": "n"}]},
        ),
        (
            {
                "l": [
                    {"mountPath": "/b", "name": "v", "readOnly": True},
                    {"mountPath": "/a", "name": "v"},
                ]
            },
            {"l": [{"mountPath": "/a", "name": "v"}]},
        ),
        (
            {"l": [{"topologyKey": "k", "when": "B"}, {"topologyKey": "k", "when": "A"}]},
            {"l": [{"topologyKey": "k", "when": "A"}]},
        ),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "0.5"}}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": 1}}),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1073741824"}}),
        ({"l": [{"spec": {"x": 1, "y": 2}, "status": {}}]}, {"l": [{"spec": {"x": 1}}]}),
        (
            {"l": [{"key": "a", "effect": "X"}, {"key": "a", "effect": "Y"}]},
            {"l": [{"key": "a", "effect": "X"}, {"key": "a", "effect": "Y"}]},
        ),
    ],
)
def test_added_fields_and_other_spellings_are_not_drift(live: dict, manifest: dict) -> None:
    assert drift(live, manifest) is None


@pytest.mark.parametrize(
    ("live", "manifest", "where"),
    [
        ({}, {"a": 1}, "a"),
        ({}, {"a": 0}, "a"),
        ({}, {"a": False}, "a"),
        ({"a": True}, {"a": False}, "a"),
        ({"a": "x"}, {"a": ""}, "a"),
        ({"a": "x"}, {"a": {"b": 1}}, "a.b"),
        ({"a": {"b": 1}}, {"a": "x"}, "a"),
        ({"a": {}}, {"a": ["x"]}, "a"),
        ({"l": ["a", "b"]}, {"l": ["b", "a"]}, "l[0]"),
        ({"l": ["a"]}, {"l": ["a", "b"]}, "l"),
        ({"l": ["a", "b", "c"]}, {"l": ["a", "b"]}, "l"),
        ({"l": [{"name": "a"}]}, {"l": [{"name": "b"}]}, "l[b]"),
        ({"l": [{"name": "a", "x": 1}]}, {"l": [{"name": "a", "x": 2}]}, "l[a].x"),
        ({"l": ["a"]}, {"l": [{"name": "a"}]}, "l[a]"),
        ({"l": [{"uid": "2", "name": "n"}]}, {"l": [{"uid": "1", "name": "n"}]}, "l[1]"),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, "requests.cpu"),
        ({"version": "1.0"}, {"version": "1"}, "version"),
        ({"selector": {"a": "b", "c": "d"}}, {"selector": {"a": "b"}}, "selector"),
        ({"nodeSelector": {"a": "b", "c": "d"}}, {"nodeSelector": {"a": "b"}}, "nodeSelector"),
        ({"matchLabels": {"a": "b", "c": "d"}}, {"matchLabels": {"a": "b"}}, "matchLabels"),
        (
            {"l": [{"key": "a", "effect": "X"}, {"key": "a", "effect": "X"}]},
            {"l": [{"key": "a", "effect": "X"}, {"key": "a", "effect": "Y"}]},
            "l[1].effect",
        ),
    ],
)
def test_a_change_is_found(live: dict, manifest: dict, where: str) -> None:
    assert drift(live, manifest) == where


def test_a_selector_with_one_more_label_would_select_no_pod() -> None:
    """The headless Service would lose the name of every member."""
    _, headless, _, client = rendered(parse_cluster(body(3)))
    for service in (headless, client):
        live = with_defaults(service)
        live["spec"]["selector"]["extra"] = "label"

        assert drift(live, service) == "spec.selector"


@pytest.mark.parametrize("field", ["labels", "annotations", "nodeSelector", "matchLabels"])
@pytest.mark.parametrize("live", [{}, {"a": "b"}])
def test_a_label_with_an_empty_value_could_be_missing(field: str, live: dict[str, str]) -> None:
    """As `node-role.kubernetes.io/etcd: ""`: the API server keeps an empty text in such a map."""
    wanted = {field: live | {"role/etcd": ""}}

    assert drift({field: live}, wanted) == f"{field}.role/etcd"
    assert drift({}, {field: {"role/etcd": ""}}) == f"{field}.role/etcd"
    assert drift(wanted, wanted) is None


@pytest.mark.parametrize(("given", "stored"), [(1, "1"), ("1024Ki", "1Mi"), ("1000m", "1")])
def test_a_divisor_was_written_for_good(given: object, stored: str) -> None:
    """The API server stores it as another text, as any quantity: each pass then began with the same
    write, and nothing else was done."""
    source = {"resourceFieldRef": {"resource": "limits.memory", "divisor": given}}
    environment = [{"name": "GOMEMLIMIT", "valueFrom": source}]
    cluster = parse_cluster(body(3, pod={"etcdEnv": environment}))
    manifest = stateful_set(cluster, replicas=3, operator_image="x")
    live = copy.deepcopy(manifest)
    [etcd] = live["spec"]["template"]["spec"]["containers"]
    etcd["env"][-1]["valueFrom"]["resourceFieldRef"]["divisor"] = stored

    assert drift(live, manifest) is None
    etcd["env"][-1]["valueFrom"]["resourceFieldRef"]["divisor"] = "1Gi"
    assert drift(live, manifest) is not None


def test_a_toleration_with_an_empty_key_was_written_for_good() -> None:
    """It is for all taints, and the API server drops the key."""
    given = [{"key": "", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]
    for some in (given[:1], given):
        cluster = parse_cluster(body(3, pod={"tolerations": some}))
        manifest = stateful_set(cluster, replicas=3, operator_image="x")
        live = copy.deepcopy(manifest)
        del live["spec"]["template"]["spec"]["tolerations"][0]["key"]

        assert drift(live, manifest) is None
        live["spec"]["template"]["spec"]["tolerations"][0]["operator"] = "Equal"
        assert drift(live, manifest) == "spec.template.spec.tolerations[0].operator"


@pytest.mark.parametrize(
    ("given", "stored"), [("0.3333333333333333", "334m"), ("0.0625", "63m"), ("1u", "1m")]
)
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_a_third_of_a_cpu_was_written_for_good(kind: str, given: str, stored: str) -> None:
    """The API server rounds it up to thousandths."""
    assert drift({kind: {"cpu": stored}}, {kind: {"cpu": given}}) is None
    assert drift({kind: {"cpu": "65m"}}, {kind: {"cpu": given}}) == f"{kind}.cpu"


def test_the_size_of_an_empty_dir_is_not_rounded_as_much() -> None:
    assert drift({"sizeLimit": "357913941297541940n"}, {"sizeLimit": "0.3333333333Gi"}) is None
    assert drift({"sizeLimit": "357913942"}, {"sizeLimit": "0.3333333333Gi"}) == "sizeLimit"


@pytest.mark.parametrize("field", ["matchLabelKeys", "mismatchLabelKeys"])
def test_what_kubernetes_1_30_drops_of_an_affinity_was_written_for_good(field: str) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    wanted = term | {field: ["pod-template-hash"]}
    weighed = {"weight": 1, "podAffinityTerm": wanted}

    assert drift({"required": [term]}, {"required": [wanted]}) is None
    assert (
        drift({"preferred": [weighed | {"podAffinityTerm": term}]}, {"preferred": [weighed]})
        is None
    )
    assert drift({"required": [term | {field: ["another"]}]}, {"required": [wanted]}) is not None


def test_an_empty_version_of_a_field_reference_was_written_for_good() -> None:
    """The CRD takes it, and the API server stores v1 in its place."""
    reference = {"fieldRef": {"apiVersion": "", "fieldPath": "spec.nodeName"}}
    stored = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}

    assert drift({"valueFrom": stored}, {"valueFrom": reference}) is None
    assert drift({"apiVersion": "v2"}, {"apiVersion": "v1"}) == "apiVersion"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "key", "uid", "port", "selector", "limits", "a", "b"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["name", "spec", "list"]), JSON))
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert drift(value, copy.deepcopy(value)) is None


@given(st.dictionaries(st.sampled_from(["name", "spec"]), JSON), JSON)
def test_comparing_with_anything_at_all_gives_an_answer(wanted: dict[str, Any], live: Any) -> None:
    found = drift(live if isinstance(live, dict) else {"spec": live}, wanted)

    assert found is None or isinstance(found, str)
