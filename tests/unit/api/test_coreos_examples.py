"""Manifests from introductions to the coreos operator keep their meaning.

`coreos_examples/` contains them unchanged. `integration/crds/test_admission.py` tests that the API
server accepts them too.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.restore import parse_restore
from etcd_stateful.api.stores import Store

HERE = Path(__file__).parent / "coreos_examples"
STORED = Store("S3", "mybucket", "etcd.backup", secret="aws")


def manifest(name: str) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    return body


def test_the_cluster_is_one_of_three_without_a_field_that_does_nothing() -> None:
    cluster = parse_cluster(manifest("etcd-cluster"))

    assert (cluster.name, cluster.size, str(cluster.version)) == (
        "example-etcd-cluster",
        3,
        "3.7.3",
    )
    assert not cluster.ignored


@pytest.mark.parametrize("version", ["3.2.13", "3.1.8"])
def test_the_version_that_introductions_have_gets_a_clear_answer(version: str) -> None:
    body = copy.deepcopy(manifest("etcd-cluster"))
    body["spec"]["version"] = version

    with pytest.raises(RefusedCluster, match=f"etcd {version} is not supported.*: set") as caught:
        parse_cluster(body)

    assert caught.value.reason == "UnsupportedVersion"
    assert [problem.path for problem in caught.value.problems] == ["spec.version"]


def test_the_backup_is_of_the_endpoint_in_plaintext_that_it_names() -> None:
    backup = parse_backup(manifest("etcd-backup"))

    assert backup.endpoints == ("http://example-etcd-cluster-client:2379",)
    assert backup.store == STORED


def test_the_restore_makes_the_cluster_of_its_own_name() -> None:
    restore = parse_restore(manifest("etcd-restore"))

    assert restore.name == "example-etcd-cluster"
    assert restore.source == STORED
    assert restore.replaces is None
