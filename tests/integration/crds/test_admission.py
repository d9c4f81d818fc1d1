"""The API server's answers to valid and to malformed resources.

The tables are refused.yaml, admitted.yaml and updates.yaml beside this file. All requests use
strict field validation, as kubectl does, so unknown fields are refused too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
EXAMPLES = Path(__file__).parents[3] / "examples"
COREOS_EXAMPLES = Path(__file__).parents[2] / "unit" / "api" / "coreos_examples"
CONFLICT = 409
GROUP, VERSION = "etcd.database.coreos.com", "v1beta2"

S3 = {"path": "mybucket/etcd.backup", "awsSecret": "aws"}
GOOD: dict[str, dict[str, Any]] = {
    "EtcdCluster": {"size": 3},
    "EtcdBackup": {
        "etcdEndpoints": ["http://good-client:2379"],
        "storageType": "S3",
        "s3": S3,
    },
    "EtcdBackupSchedule": {
        "schedule": "0 3 * * *",
        "template": {"clusterRef": {"name": "good"}, "storageType": "S3", "s3": S3},
    },
    "EtcdRestore": {"etcdCluster": {"name": "good"}, "backupStorageType": "S3", "s3": S3},
}


class Tables(yaml.CSafeLoader):
    """YAML with tags for hostile sizes: each makes its list of arguments into a value."""


HOSTILE: dict[str, Callable[..., Any]] = {
    "!text": lambda text, times: text * times,
    "!list": lambda item, times: [item] * times,
    "!names": lambda times: [{"name": f"N{number}"} for number in range(times)],
    "!map": lambda times: {f"key{number}": "1" for number in range(times)},
}
for tag, make in HOSTILE.items():
    Tables.add_constructor(
        tag, lambda loader, node, make=make: make(*loader.construct_sequence(node, deep=True))
    )


@cache
def table(name: str) -> Any:
    return yaml.load((HERE / name).read_text(), Tables)  # noqa: S506


def cases(name: str) -> list[Any]:
    return [
        pytest.param(kind, row, id=f"{kind}: {row['case']}")
        for kind, rows in table(name).items()
        for row in rows
    ]


def merged(base: Any, patch: Any) -> Any:
    """RFC 7386, a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = copy.deepcopy(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def manifest(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": merged({"name": "good"}, row.get("metadata", {})),
        "spec": merged(GOOD[kind], row.get("spec", {})),
    }


class Server:
    """Asks the API server without storing anything, unless told to."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._custom, self._place = client.CustomObjectsApi(api), (GROUP, VERSION, namespace)

    def create(self, body: dict[str, Any], *, store: bool = False) -> Any:
        options = {} if store else {"dry_run": "All"}
        return self._custom.create_namespaced_custom_object(
            *self._place, f"{body['kind'].lower()}s", body, field_validation="Strict", **options
        )

    def change(self, name: str, spec: dict[str, Any], version: str = "") -> Any:
        """Of the object of that resourceVersion, where one is given."""
        body = {"spec": spec} | ({"metadata": {"resourceVersion": version}} if version else {})
        return self._custom.patch_namespaced_custom_object(
            *self._place, "etcdclusters", name, body, dry_run="All"
        )

    def change_while_it_says(self, name: str, status: dict[str, Any], spec: dict[str, Any]) -> Any:
        """Of a cluster of that status; an operator that is there takes that back at once."""
        for _ in range(50):
            told = self.tell(name, status, store=True)
            try:
                return self.change(name, spec, told["metadata"]["resourceVersion"])
            except ApiException as error:
                if error.status != CONFLICT:
                    raise
        raise AssertionError(f"the status of {name} never stayed until the change")

    def scale(self, name: str, replicas: int) -> Any:
        return self._custom.patch_namespaced_custom_object_scale(
            *self._place, "etcdclusters", name, {"spec": {"replicas": replicas}}, dry_run="All"
        )

    def tell(self, name: str, status: dict[str, Any], *, store: bool = False) -> Any:
        options = {} if store else {"dry_run": "All"}
        return self._custom.patch_namespaced_custom_object_status(
            *self._place,
            "etcdclusters",
            name,
            {"status": status},
            field_validation="Strict",
            **options,
        )

    def delete(self, name: str, kind: str = "EtcdCluster") -> None:
        self._custom.delete_namespaced_custom_object(*self._place, f"{kind.lower()}s", name)


@pytest.fixture(scope="module")
def server(api: client.ApiClient, namespace: str) -> Server:
    return Server(api, namespace)


def refusal_of(error: ApiException) -> str:
    """What kubectl prints."""
    assert error.status in (400, 422), error
    return json.loads(error.body)["message"]


@pytest.mark.parametrize(("kind", "row"), cases("refused.yaml"))
def test_a_malformed_spec_is_refused_with_its_field(
    server: Server, kind: str, row: dict[str, Any]
) -> None:
    with pytest.raises(ApiException) as caught:
        server.create(manifest(kind, row))
    message = refusal_of(caught.value)

    assert [word for word in row["says"] if word not in message] == [], message


@pytest.mark.parametrize(("kind", "row"), cases("admitted.yaml"))
def test_a_valid_spec_is_accepted_unchanged(server: Server, kind: str, row: dict[str, Any]) -> None:
    body = manifest(kind, row)

    taken = server.create(body)

    assert merged(taken["spec"], body["spec"]) == taken["spec"]


@pytest.mark.parametrize("row", table("operator_cases.yaml"), ids=lambda row: row["case"])
def test_specs_that_the_operator_refuses_are_admitted(server: Server, row: dict[str, Any]) -> None:
    server.create(manifest("EtcdCluster", row))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_accepted(server: Server, path: Path) -> None:
    for body in yaml.safe_load_all(path.read_text()):
        if body["apiVersion"].startswith(GROUP):
            server.create(body)


@pytest.mark.parametrize("name", ["etcd-cluster", "etcd-backup", "etcd-restore"])
def test_manifests_from_tutorials_of_the_coreos_operator_are_accepted(
    server: Server, name: str
) -> None:
    body = yaml.safe_load((COREOS_EXAMPLES / f"{name}.yaml").read_text())

    taken = server.create(body)

    assert merged(taken["spec"], body["spec"]) == taken["spec"]


@pytest.mark.parametrize("kind", GOOD)
def test_an_object_without_a_status_counted_as_ready(server: Server, kind: str) -> None:
    """For Helm's `--wait` and Flux, which compare the generations if there is one to compare."""
    made = server.create(manifest(kind, {}), store=True)
    server.delete("good", kind)

    assert made["status"] == {"observedGeneration": -1}


@pytest.fixture
def stored(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A stored cluster, paused so that an operator in the cluster leaves it alone."""
    row = {"spec": {"paused": True, **request.param}}
    yield server.create(manifest("EtcdCluster", row), store=True)["metadata"]["name"]
    server.delete("good")


@pytest.mark.parametrize(
    ("stored", "row"),
    [pytest.param(row["from"], row, id=row["case"]) for row in table("updates.yaml")],
    indirect=["stored"],
)
def test_an_update_is_accepted_or_refused(server: Server, stored: str, row: dict[str, Any]) -> None:
    def change() -> None:
        if "runs" in row:
            status = {"phase": "Running", "currentVersion": row["runs"]}
            server.change_while_it_says(stored, status, row["to"])
        elif "volumes" in row:
            server.change_while_it_says(stored, {"storage": row["volumes"]}, row["to"])
        else:
            server.change(stored, row["to"])

    if "says" not in row:
        change()
        return
    with pytest.raises(ApiException) as caught:
        change()
    message = refusal_of(caught.value)

    assert [word for word in row["says"] if word not in message] == [], message


@pytest.mark.parametrize("stored", [{}], indirect=True)
def test_scale_sets_the_size_within_its_bounds(server: Server, stored: str) -> None:
    assert server.scale(stored, 5)["spec"]["replicas"] == 5
    with pytest.raises(ApiException) as caught:
        server.scale(stored, 0)
    assert "delete the EtcdCluster" in refusal_of(caught.value)


def test_no_default_version_is_written_into_the_spec(server: Server) -> None:
    """So that neither a newer operator's default nor a line taken out of a manifest upgrades a
    running cluster."""
    spec = server.create(manifest("EtcdCluster", {}))["spec"]

    assert spec == {"size": 3, "repository": "quay.io/coreos/etcd"}


@pytest.mark.parametrize("stored", [{}], indirect=True)
def test_the_status_is_accepted_as_the_operator_writes_it(server: Server, stored: str) -> None:
    entry = {"name": "good-0", "id": "8e9e05c52164694d", "role": "voter", "version": "3.7.3"}
    figures = {"term": 7, "appliedIndex": 9007199254740993, "dbSize": 8589934592}
    condition = {"type": "Recovering", "status": "True", "reason": "MemberLost", "message": "x"}
    status = {"memberStatus": [entry | figures], "conditions": [condition]}

    taken = server.tell(stored, status)["status"]

    assert {key: taken[key] for key in status} == status


@pytest.mark.parametrize(
    "entry", [{"name": "good-0"}, {"id": "1", "role": "boss"}, {"id": "1", "term": "7"}], ids=str
)
@pytest.mark.parametrize("stored", [{}], indirect=True)
def test_a_member_in_the_status_is_validated(server: Server, stored: str, entry: dict) -> None:
    with pytest.raises(ApiException) as caught:
        server.tell(stored, {"memberStatus": [entry]})

    assert "memberStatus" in refusal_of(caught.value)


def test_the_tables_have_at_least_120_refused_specs() -> None:
    refused = [row["case"] for rows in table("refused.yaml").values() for row in rows]

    assert len(refused) >= 120
