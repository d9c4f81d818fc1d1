"""The hostile corpus, put to the real API server: what it admits, and what comes of that.

Nothing is stored. What both the schema and the operator take is rendered, and the rendered objects
are put to the API server as well: it takes them, or refuses them in words; none comes back with
more in it than was rendered.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hostile import UID, Json, corpus, kinds
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from test_hostile_backups import jobs

from etcd_stateful.api.cluster import EtcdCluster, Refused, parse_cluster
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.network_policy import OperatorPods, network_policy
from etcd_stateful.manifests.statefulset import stateful_set

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

APPLY = "application/apply-patch+yaml"
OPERATOR = OperatorPods("operators", {"app": "etcd-operator"})
GROUP, VERSION, PLURAL = "etcd.database.coreos.com", "v1beta2", "etcdclusters"
WORDS = (400, 413, 422)
"""How the API server says no."""


def admitted(api: client.ApiClient, namespace: str, body: Json, plural: str = PLURAL) -> bool:
    body = {**body, "metadata": {"name": body["metadata"]["name"]}}
    custom = client.CustomObjectsApi(api)
    try:
        custom.create_namespaced_custom_object(
            GROUP, VERSION, namespace, plural, body, dry_run="All", field_validation="Strict"
        )
    except ApiException as error:
        if error.status not in WORDS:
            raise
        return False
    return True


def taken(api: client.ApiClient, manifest: Json) -> Json | None:
    """As the operator applies it: server-side, with unknown fields refused."""
    apply = {
        "StatefulSet": client.AppsV1Api(api).patch_namespaced_stateful_set,
        "NetworkPolicy": client.NetworkingV1Api(api).patch_namespaced_network_policy,
    }[manifest["kind"]]
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    try:
        live = apply(
            name,
            namespace,
            manifest,
            dry_run="All",
            field_manager="hostile",
            force=True,
            field_validation="Strict",
            _content_type=APPLY,
        )
    except ApiException as error:
        if error.status not in WORDS:
            raise
        return None
    stored: Json = api.sanitize_for_serialization(live)
    return stored


def parsed(body: Json, namespace: str) -> EtcdCluster | None:
    metadata: dict[str, Any] = {**body["metadata"], "namespace": namespace, "uid": UID}
    try:
        return parse_cluster({**body, "metadata": metadata})
    except Refused:
        return None


def test_what_is_admitted_renders_to_nothing_but_itself(
    api: client.ApiClient, namespace: str
) -> None:
    counts: Counter[str] = Counter()
    for case, body in corpus().items():
        if not admitted(api, namespace, body):
            counts["refused by the schema"] += 1
            continue
        cluster = parsed(body, namespace)
        if cluster is None:
            counts["refused by the operator"] += 1
            continue
        for manifest in rendered(cluster):
            live = taken(api, manifest)
            counts["refused as rendered" if live is None else "taken"] += 1
            assert live is None or drift(live, manifest) is None, f"{case}: {drift(live, manifest)}"

    print(dict(counts))
    assert counts["refused by the schema"] > 400
    assert counts["refused by the operator"] > 50
    assert counts["taken"] > 50


def rendered(cluster: EtcdCluster) -> list[Json]:
    return [
        stateful_set(cluster, replicas=cluster.size, operator_image="operator:1"),
        network_policy(cluster, OPERATOR),
    ]


def test_jobs_of_what_is_admitted_of_other_kinds_are_taken_as_they_are(
    api: client.ApiClient, namespace: str
) -> None:
    """The rows alone: the texts are for the parsers, and would take minutes here."""
    for name, kind in kinds().items():
        assert admitted(api, namespace, kind.good, kind.plural)
        assert all(made(api, namespace, job) for job in jobs(name, kind.good) or ())
        for body in kind.rows.values():
            if admitted(api, namespace, body, kind.plural):
                for job in jobs(name, body) or ():
                    made(api, namespace, job)


def made(api: client.ApiClient, namespace: str, job: Json) -> bool:
    body = {**job, "metadata": {**job["metadata"], "namespace": namespace}}
    try:
        client.BatchV1Api(api).create_namespaced_job(
            namespace, body, dry_run="All", field_validation="Strict"
        )
    except ApiException as error:
        if error.status not in WORDS:
            raise
        return False
    return True
