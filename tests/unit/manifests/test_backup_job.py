"""The manifest of a backup's Job, byte by byte, and what it must never contain."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_operator.backup.channel import NoChannel, open_channels
from etcd_operator.credentials import signing
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import trial
from etcd_stateful.backup.observed import Run, Target
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.manifests.backup_job import (
    GRPC_ENVIRONMENT,
    backup_job,
    deletion_job,
    order,
)
from etcd_stateful.manifests.trial_job import trial_job
from unit.manifests.test_golden import text_of

GOLDEN = Path(__file__).parent / "golden" / "backups"
METADATA = {"namespace": "ns", "name": "b", "uid": "uid-b", "generation": 1}

CASES: dict[str, dict[str, Any]] = {
    "coreos": {
        "etcdEndpoints": ["http://example-etcd-cluster-client:2379"],
        "storageType": "S3",
        "s3": {"path": "mybucket/etcd.backup", "awsSecret": "aws"},
    },
    "interval-tls": {
        "etcdEndpoints": ["https://a:2379"],
        "clientTLSSecret": "etcd-client-tls",
        "storageType": "GCS",
        "gcs": {"path": "bucket/daily/"},
        "backupPolicy": {
            "backupIntervalInSecond": 3600, "maxBackups": 24, "timeoutInSecond": 300,
        },
        "pod": {
            "serviceAccountName": "backups",
            "labels": {"team": "storage"},
            "annotations": {"a": "b"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
            "resources": {"limits": {"memory": "512Mi"}},
        },
    },
    "volume": {
        "clusterRef": {"name": "c"},
        "storageType": "Volume",
        "volume": {"claimName": "backups", "path": "daily/etcd.db"},
    },
}  # fmt: skip


def test_a_stuck_run_does_not_block_later_ones_for_good() -> None:
    """A nodeSelector that no node matches was corrected in the template, and no run ever got it."""
    assert job("interval-tls")["spec"]["activeDeadlineSeconds"] == 3600 + 4 * 3 * 300
    patient = CASES["coreos"] | {
        "backupPolicy": {"backupIntervalInSecond": 9, "timeoutInSecond": 2**31 - 1}
    }
    made = parse_backup({"metadata": METADATA, "spec": patient})
    spec = backup_job(made, Run("1", 0.0), None, operator_image="o")["spec"]
    assert spec["activeDeadlineSeconds"] * 10**9 < 2**63, "or it would be over at once"


@pytest.mark.parametrize("made", ["backup", "deletion"])
def test_a_single_backup_was_tried_without_end_if_its_pod_was_evicted_each_time(made: str) -> None:
    """Nor did one end that fitted on no node. A deletion that waits for it is tried again."""
    backup = parse_backup({"metadata": METADATA, "spec": CASES["coreos"]})
    jobs = {
        "backup": backup_job(backup, Run("g1", 0.0), None, operator_image="operator:1"),
        "deletion": deletion_job(backup, {}, operator_image="operator:1"),
    }

    assert jobs[made]["spec"].get("activeDeadlineSeconds") == 86400 + 4 * 3 * 60
    assert "ttlSecondsAfterFinished" not in jobs[made]["spec"]


def job(case: str) -> dict[str, Any]:
    backup = parse_backup({"metadata": METADATA, "spec": CASES[case]})
    target = Target(("http://c-0.c.ns.svc:2379",), 0xAB) if backup.cluster else None
    return backup_job(backup, Run("g1", 0.0), target, operator_image="operator:1")


@pytest.mark.parametrize("case", CASES)
def test_the_rendered_job_has_not_changed(case: str, update_golden: bool) -> None:
    path = GOLDEN / f"{case}.yaml"
    text = text_of([job(case)])
    if update_golden:
        path.write_text(text)

    assert text == path.read_text()


def test_a_label_of_pods_that_kubernetes_gives_to_those_of_jobs_had_each_backup_refused() -> None:
    asked = CASES["coreos"] | {"pod": {"labels": {"job-name": "mine", "team": "storage"}}}
    backup = parse_backup({"metadata": METADATA, "spec": asked})
    made = backup_job(backup, Run("g1", 0.0), None, operator_image="operator:1")

    labels = made["spec"]["template"]["metadata"]["labels"]
    assert "job-name" not in labels
    assert labels["team"] == "storage"


@pytest.mark.parametrize("labels", [{}, {naming.SCHEDULE: "nightly"}], ids=["single", "scheduled"])
def test_jobs_and_pods_of_a_schedule_do_not_pile_up(labels: dict[str, str]) -> None:
    """The Job of a single backup stays as long as its object, so that it can be looked at."""
    body = {"metadata": METADATA | {"labels": labels}, "spec": CASES["coreos"]}
    made = backup_job(parse_backup(body), Run("g1", 0.0), None, operator_image="operator:1")

    assert made["spec"].get("ttlSecondsAfterFinished") == (86400 if labels else None)


@pytest.mark.parametrize("timeout", [7200, 2**31 - 1])
def test_a_backup_was_made_again_each_day_while_its_trial_restore_could_not_start(
    timeout: int,
) -> None:
    """The Job was deleted an hour before its trial would have failed. At an interval, the backup
    was made again under another name, with another trial, and no run ever ended."""
    policy = {"backupIntervalInSecond": 60, "timeoutInSecond": timeout}
    spec = CASES["coreos"] | {"verify": "Restore", "backupPolicy": policy}
    backup, run = parse_backup({"metadata": METADATA, "spec": spec}), Run("1", 0.0)
    stored = Stored("s3://b/k", "0a", 1, "3.7.3", 1, "ff", "k")
    made = backup_job(backup, run, None, operator_image="o")["spec"]
    tried = trial_job(backup, run, stored, etcd_image="e", operator_image="o")["spec"]

    kept = made["ttlSecondsAfterFinished"]
    assert kept >= min(tried["activeDeadlineSeconds"] + 3600, 2**31 - 1)
    assert kept < 2**31, "the API server refuses more"


def test_every_golden_file_is_rendered_by_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_it_meets_the_restricted_pod_security_level(case: str) -> None:
    pod = job(case)["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in pod["containers"]:
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("case", CASES)
def test_its_pod_does_not_look_like_a_member(case: str) -> None:
    """No Service or disruption budget may count it, and no StatefulSet may adopt it."""
    labels = job(case)["spec"]["template"]["metadata"]["labels"]

    assert labels["app.kubernetes.io/name"] == "etcd-backup"
    assert not naming.selector("c").items() <= labels.items()
    assert not labels.keys() & {"app", "etcd_cluster"}


def test_the_job_of_a_cluster_is_let_in_by_its_network_policy() -> None:
    labels = job("volume")["spec"]["template"]["metadata"]["labels"]

    admitted = {naming.LABEL_INSTANCE: "c", naming.LABEL_MANAGED_BY: naming.MANAGER}
    assert admitted.items() <= labels.items()


@pytest.mark.parametrize(
    ("given", "field"), [("", "spec.clusterRef.name"), ("mine", "spec.clientTLSSecret")]
)
def test_a_certificate_that_the_spec_does_not_name_is_not_blamed_on_its_field(
    given: str, field: str, tmp_path: Path
) -> None:
    backup = parse_backup(
        {
            "metadata": {"namespace": "ns", "name": "b"},
            "spec": {
                "clusterRef": {"name": "c"},
                "clientTLSSecret": given,
                "storageType": "Volume",
                "volume": {"claimName": "v", "path": "p"},
            },
        }
    )
    told = order(backup, Target(("https://c-0.c.ns.svc:2379",), 1, "c-operator-tls"))
    assert orders.parse(orders.serialise(told)) == told

    with pytest.raises(NoChannel, match=f"^{field}: Secret {given or 'c-operator-tls'} has no key"):
        next(open_channels(told, told.endpoints[0], str(tmp_path)))


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The files in a valid Secret for a client of etcd."""
    authority = signing.make(trial.AUTHORITY, {}, time.time())
    for name, content in signing.make(trial.LEAVES[1], authority, time.time()).items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


CERTIFIED = replace(
    Order("ns/b", "u", ("https://c:2379",), "spec.etcdEndpoints", Store("S3", "b", "k")),
    client_secret="mine",
)


@pytest.mark.parametrize("name", ["etcd-client-ca.crt", "etcd-client.crt", "etcd-client.key"])
def test_an_invalid_key_in_the_secret_was_reported_as_an_etcd_that_does_not_answer(
    name: str, client: Path
) -> None:
    next(open_channels(CERTIFIED, "https://c:2379", str(client))).close()
    (client / name).write_text("S3CRET")

    with pytest.raises(NoChannel, match="Secret mine: key") as caught:
        next(open_channels(CERTIFIED, "https://c:2379", str(client)))

    failure = caught.value.failure
    assert failure.reason == "InvalidSecret"
    assert name in failure.message
    assert "S3CRET" not in failure.message


def test_a_key_of_another_certificate_was_reported_as_an_etcd_that_does_not_answer(
    client: Path,
) -> None:
    other = signing.make(trial.AUTHORITY, {}, time.time())
    made = signing.make(trial.LEAVES[1], other, time.time())
    (client / "etcd-client.key").write_bytes(made["etcd-client.key"])

    with pytest.raises(NoChannel, match="hold no certificate and its key in PEM"):
        next(open_channels(CERTIFIED, "https://c:2379", str(client)))


@pytest.mark.parametrize("host", ["unix", "dns", "ipv4", "etcd.ns.svc", "[fd00::1]"])
def test_any_name_is_treated_as_a_host(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`http://unix:2379` was a socket in the pod's folder, and `http://dns:2379` the host
    `2379`."""
    opened: list[str] = []
    monkeypatch.setattr("grpc.insecure_channel", lambda target, **_: opened.append(target))
    spec = CASES["coreos"] | {"etcdEndpoints": [f"http://{host}:2379"]}
    told = order(parse_backup({"metadata": METADATA, "spec": spec}), None)

    next(open_channels(told, told.endpoints[0]))

    assert opened == [f"dns:///{host}:2379"]


def test_only_the_certificates_of_the_stores_authorities_are_in_the_pod() -> None:
    """cert-manager puts a private key beside them."""
    place = {"path": "b/a", "awsSecret": "aws", "caSecret": "ca", "endpoint": "https://minio:9000"}
    spec = CASES["coreos"] | {"s3": place}
    backup = parse_backup({"metadata": METADATA, "spec": spec})
    run, of = Run("g1", 0.0), {"operator_image": "operator:1"}
    for made in (backup_job(backup, run, None, **of), deletion_job(backup, {}, **of)):
        pod = made["spec"]["template"]["spec"]
        [volume] = [one["secret"] for one in pod["volumes"] if one["name"] == "ca"]
        assert (volume["secretName"], volume["optional"]) == ("ca", True)
        assert volume["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
        [mount] = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "ca"]
        assert mount == {"name": "ca", "mountPath": orders.CA_FOLDER, "readOnly": True}
        told = orders.parse(pod["containers"][0]["env"][0]["value"])
        assert told.store.ca_secret == "ca"


def test_a_secret_is_named_and_its_content_is_not_printed() -> None:
    text = yaml.safe_dump(job("coreos"))

    assert text.count("secretName: aws") == 1
    assert "secretKeyRef" not in text


def test_grpc_knows_the_settings_it_gets() -> None:
    """gRPC prints an error about an unknown setting, and continues as slowly as without it."""
    told = {one["name"]: one["value"] for one in GRPC_ENVIRONMENT}
    code = "import grpc; grpc.insecure_channel('127.0.0.1:1').close()"

    def errors(environment: dict[str, str]) -> bytes:
        command, merged = [sys.executable, "-c", code], os.environ | environment
        return subprocess.run(command, env=merged, capture_output=True, check=False).stderr

    assert errors(told) == b""
    assert b"Unknown experiment" in errors({"GRPC_EXPERIMENTS": "-of_another_version"})
