"""The schemas: described throughout, bounded, and identical where they must be."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CHART_COPY = ROOT / "charts" / "etcd-operator" / "files" / "crds"
KUBECTL = shutil.which("kubectl", path=f"{ROOT / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}")
CRDS = dict[str, dict[str, Any]]


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def test_every_field_is_described(crds: CRDS) -> None:
    bare = [
        f"{kind}{path}.{name}"
        for kind, crd in crds.items()
        for path, node in nodes(schema_of(crd))
        for name, inner in node.get("properties", {}).items()
        if not inner.get("description") and (path, name) != ("", "metadata")  # Kubernetes' own
    ]

    assert bare == []


def test_descriptions_are_sentences(crds: CRDS) -> None:
    texts = [node["description"] for crd in crds.values() for _, node in nodes(schema_of(crd))
             if "description" in node]  # fmt: skip

    assert [text for text in texts if not text.endswith((".", "`.")) or "  " in text] == []


def test_no_unknown_field_is_preserved(crds: CRDS) -> None:
    loose = [
        path
        for crd in crds.values()
        for path, node in nodes(schema_of(crd))
        if node.get("x-kubernetes-preserve-unknown-fields")
        or (
            node.get("type") == "object"
            and not node.keys() & {"properties", "additionalProperties"}
        )
    ]

    assert loose == []


def test_every_text_list_and_map_of_a_spec_is_bounded(crds: CRDS) -> None:
    bounds = {"array": "maxItems", "string": "maxLength"}
    unbounded = [
        path
        for crd in crds.values()
        for path, node in nodes(schema_of(crd)["properties"]["spec"])
        if (kind := node.get("type"))
        if ("additionalProperties" in node and "maxProperties" not in node)
        or (kind in bounds and bounds[kind] not in node and "enum" not in node)
    ]

    assert [path for path in unbounded if ".dataSource" not in path] == []  # always refused


def test_every_validation_rule_has_a_readable_message(crds: CRDS) -> None:
    silent = [
        rule["rule"]
        for crd in crds.values()
        for _, node in nodes(schema_of(crd))
        for rule in node.get("x-kubernetes-validations", ())
        if not rule.keys() & {"message", "messageExpression"}
    ]

    assert silent == []


def test_a_wrong_name_or_id_was_answered_with_a_regular_expression(crds: CRDS) -> None:
    """`spec.recovery.clusterID in body should match '^[0-9a-f]{16}$'` says neither what is wrong
    nor what to do. A rule has words. The API server of 1.30 finds one on an int-or-string costly.
    """
    bare = [
        path
        for crd in crds.values()
        for path, node in nodes(schema_of(crd)["properties"]["spec"])
        if "pattern" in node and not node.get("x-kubernetes-int-or-string")
    ]

    assert bare == []


def test_the_template_of_a_schedule_has_the_schema_of_a_backup(crds: CRDS) -> None:
    """But for what the schedule says itself, and for words."""

    def bare(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: bare(value)
                for key, value in node.items()
                if key != "description" or isinstance(value, dict)
            }
        return [bare(one) for one in node] if isinstance(node, list) else node

    backup = bare(schema_of(crds["EtcdBackup"])["properties"]["spec"])
    schedule = schema_of(crds["EtcdBackupSchedule"])["properties"]["spec"]["properties"]
    for name in ("backupIntervalInSecond", "maxBackups"):
        del backup["properties"]["backupPolicy"]["properties"][name]

    assert bare(schedule["template"]) == backup


def test_backup_and_restore_have_the_same_stores(crds: CRDS) -> None:
    def store(kind: str, name: str) -> dict[str, Any]:
        fields = schema_of(crds[kind])["properties"]["spec"]["properties"][name]["properties"]
        return {
            field: {key: value for key, value in node.items() if key != "description"}
            for field, node in fields.items()
        }

    for name in ("s3", "abs", "gcs", "oss"):
        assert store("EtcdBackup", name) == store("EtcdRestore", name)


def test_backup_and_restore_have_the_same_pod_placement(crds: CRDS) -> None:
    def fields(kind: str) -> dict[str, Any]:
        found = schema_of(crds[kind])["properties"]["spec"]["properties"]["pod"]["properties"]
        return {
            name: {key: value for key, value in node.items() if key != "description"}
            for name, node in found.items()
        }

    backup, restore = fields("EtcdBackup"), fields("EtcdRestore")
    assert {name: backup[name] for name in restore} == restore
    assert backup.keys() - restore.keys() == {"labels", "annotations"}


def test_the_crds_have_their_subresources_columns_and_short_names(crds: CRDS) -> None:
    def columns(kind: str) -> list[str]:
        (version,) = crds[kind]["spec"]["versions"]
        assert "status" in version["subresources"]
        return [column["name"] for column in version["additionalPrinterColumns"]]

    cluster = crds["EtcdCluster"]["spec"]
    assert cluster["names"]["shortNames"] == ["etcd"]
    assert cluster["versions"][0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    assert columns("EtcdCluster") == [
        "Phase", "Size", "Ready", "Version", "Age", "Plan", "ClusterID",
    ]  # fmt: skip
    assert {"Succeeded", "State", "Message"} <= {*columns("EtcdBackup")}
    assert {"Succeeded", "State", "Message"} <= {*columns("EtcdRestore")}
    schedule = {*columns("EtcdBackupSchedule")}
    assert {"Schedule", "State", "Last", "Success", "Missed", "LastRun", "Message"} <= schedule


@pytest.mark.parametrize("kind", ["EtcdBackup", "EtcdBackupSchedule", "EtcdRestore"])
def test_the_table_said_in_a_word_that_nothing_is_done_and_nowhere_why(
    crds: CRDS, kind: str
) -> None:
    """Of a schedule whose spec is not accepted: `InvalidSpec`, and an empty message."""
    (version,) = crds[kind]["spec"]["versions"]
    columns = {one["name"]: one["jsonPath"] for one in version["additionalPrinterColumns"]}

    assert columns["State"].removesuffix("reason") + "message" in columns.values()


def test_the_chart_has_a_copy_of_the_crds() -> None:
    source = {path.name: path.read_bytes() for path in (ROOT / "crds").glob("*.yaml")}
    copy = {path.name: path.read_bytes() for path in CHART_COPY.glob("*.yaml")}

    assert copy == source, "run `make charts`"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("etcdcluster.spec.size", "1 to 7"),
        ("etcdcluster.spec.etcd.quotaBackend", "2Gi"),
        ("etcdcluster.spec.pod.affinity.podAntiAffinity", "spread the members"),
        ("etcdcluster.spec.pod.etcdEnv.valueFrom.secretKeyRef.key", "The key in it"),
        ("etcdcluster.spec.TLS.static.member.peerSecret", "peer-ca.crt"),
        ("etcdcluster.status.plan", "next step"),
        ("etcdbackup.spec.backupPolicy.maxBackups", "the newest"),
        ("etcdbackupschedule.spec.jitterSeconds", "stays the same"),
        ("etcdrestore.spec.s3.path", "<bucket>/<key>"),
    ],
)
def test_kubectl_explain_describes_the_fields(
    served: None, kubeconfig: str, path: str, words: str
) -> None:
    if KUBECTL is None:
        pytest.fail("kubectl is not there: run `make cluster`")
    command = [KUBECTL, "--kubeconfig", kubeconfig, "explain", path]
    command.append("--api-version=etcd.database.coreos.com/v1beta2")
    for _ in range(20):  # the API server publishes a new schema with some delay
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if done.returncode == 0 and words in done.stdout:
            return
        time.sleep(0.5)
    pytest.fail(done.stdout + done.stderr)
