"""What the operator renders, as the API server reads it. It silently drops fields that it does not
know, or that are turned off.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from worlds import body

from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.api.stores import Store
from etcd_stateful.manifests.disruption_budget import disruption_budget
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.exclusive import excluded
from etcd_stateful.manifests.network_policy import OperatorPods, network_policy
from etcd_stateful.manifests.recovery_job import recovery_job
from etcd_stateful.manifests.restore_job import restore_job
from etcd_stateful.records import bootstrap
from unit.manifests.test_golden import CASES, GOLDEN, IMAGE, rendered

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
KUBECTL = shutil.which("kubectl", path=f"{ROOT / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}")
OPERATOR = OperatorPods("operators", {"app.kubernetes.io/name": "etcd-operator"})
JOBS = [path for folder in ("backups", "trials") for path in (GOLDEN / folder).glob("*.yaml")]
Manifest = dict[str, Any]


def check(manifests: list[Manifest], namespace: str) -> None:
    """Nothing is refused, nothing dropped, and nothing warned of."""
    assert KUBECTL is not None
    items = [one | {"metadata": one["metadata"] | {"namespace": namespace}} for one in manifests]
    done = subprocess.run(
        [KUBECTL, "create", "--dry-run=server", "--validate=strict", "-o=json", "--filename=-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    taken = {(one["kind"], one["metadata"]["name"]): one for one in objects(done.stdout)}
    for one in items:
        # The API server makes data of it.
        told = {key: value for key, value in one.items() if key != "stringData"}
        live = taken[one["kind"], one["metadata"]["name"]]
        assert drift(live, told) is None
        assert one["kind"] == "Secret" or excluded(live, told) is None


def objects(text: str) -> list[Manifest]:
    """One JSON after the other, or a list of them."""
    decoder, found, at = json.JSONDecoder(), list[Manifest](), 0
    while at < len(text):
        one, at = decoder.raw_decode(text, at)
        found += one.get("items", [one])
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def jobs(cluster: EtcdCluster) -> list[Manifest]:
    record = bootstrap.first_attempt(
        cluster.uid, {"c-0": cluster.peer_url(0)}, str(cluster.version)
    )
    store = Store("Volume", "backups", "daily/etcd.db")
    back = bootstrap.restoring(record, size=3)
    return [
        recovery_job(cluster, record, 1, operator_image=IMAGE),
        restore_job(cluster, back, store, claim_uid="v1", operator_image=IMAGE),
    ]


@pytest.mark.parametrize("case", CASES)
async def test_every_field_of_the_objects_of_a_cluster_is_known_to_the_api_server(
    case: str, namespace: str
) -> None:
    cluster = parse_cluster(CASES[case])
    others = [disruption_budget(cluster, least=2), network_policy(cluster, OPERATOR)]

    check([*rendered(cluster), *others, *jobs(cluster)], namespace)


async def test_quantities_that_the_api_server_rounds_are_no_drift(namespace: str) -> None:
    amounts = {"cpu": "0.0625"}
    cluster = parse_cluster(body(3, pod={"resources": {"requests": amounts, "limits": amounts}}))

    check(rendered(cluster), namespace)


async def test_every_field_of_a_network_policy_for_clients_is_known_to_the_api_server(
    namespace: str,
) -> None:
    peers = [
        {"namespaceSelector": {"matchLabels": {"team": "web"}}},
        {"ipBlock": {"cidr": "192.0.2.0/24"}},
    ]
    cluster = parse_cluster(body(3, networkPolicy={"clients": peers}))

    check([network_policy(cluster, OPERATOR)], namespace)


async def test_every_field_of_the_jobs_of_backups_is_known_to_the_api_server(
    namespace: str,
) -> None:
    made = [one for path in JOBS for one in yaml.safe_load_all(path.read_text())]
    for number, one in enumerate(made):
        one["metadata"]["name"] = f"b-{number}"

    assert {one["kind"] for one in made} == {"Job"}
    check(made, namespace)


async def test_an_unknown_field_is_reported(namespace: str) -> None:
    """The check itself."""
    made = disruption_budget(parse_cluster(body(3)), least=2)
    made["spec"]["noSuchField"] = True

    with pytest.raises(AssertionError, match="noSuchField"):
        check([made], namespace)
