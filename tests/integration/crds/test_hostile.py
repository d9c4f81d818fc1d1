"""The corpus of hostile resources with the real API server: what it admits, and what comes of that.

Nothing is stored. What both the schema and the operator accept is rendered, and the rendered
objects are sent to the API server as well: it accepts them unchanged, or refuses them with a
message.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from kubernetes import client

from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.network_policy import OperatorPods, network_policy
from etcd_stateful.manifests.statefulset import stateful_set
from unit.api.hostile import UID, Json, corpus, kinds
from unit.api.test_hostile_backups import jobs

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

APPLY = "application/apply-patch+yaml"
OPERATOR = OperatorPods("operators", {"app": "etcd-operator"})
GROUP, VERSION, PLURAL = "etcd.database.coreos.com", "v1beta2", "etcdclusters"
WORDS = (400, 413, 422)
"""How the API server says no."""


def answer(
    api: client.ApiClient, method: str, path: str, body: Json, media: str, **query: str
) -> Json | None:
    """To a dry run, as it is sent: the client's models would cost more than the rest of it. None
    is no."""
    options = {"dryRun": "All", "fieldValidation": "Strict", **query}
    told = api.param_serialize(
        method,
        path,
        query_params=list(options.items()),
        header_params={"Content-Type": media},
        body=body,
        auth_settings=["BearerToken"],
    )
    response = api.call_api(*told)
    content: Json = json.loads(response.read())
    if response.status in WORDS:
        return None
    assert response.status in (200, 201), content
    return content


def made(api: client.ApiClient, where: str, namespace: str, plural: str, body: Json) -> bool:
    path = f"/apis/{where}/namespaces/{namespace}/{plural}"
    return answer(api, "POST", path, body, "application/json") is not None


def admitted(api: client.ApiClient, namespace: str, body: Json, plural: str = PLURAL) -> bool:
    body = {**body, "metadata": {"name": body["metadata"]["name"]}}
    return made(api, f"{GROUP}/{VERSION}", namespace, plural, body)


def taken(api: client.ApiClient, manifest: Json) -> Json | None:
    """As the operator applies it: server-side, with unknown fields refused."""
    plural = {"StatefulSet": "statefulsets", "NetworkPolicy": "networkpolicies"}[manifest["kind"]]
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    path = f"/apis/{manifest['apiVersion']}/namespaces/{namespace}/{plural}/{name}"
    return answer(api, "PATCH", path, manifest, APPLY, fieldManager="hostile", force="true")


def parsed(body: Json, namespace: str) -> EtcdCluster | None:
    metadata: dict[str, Any] = {**body["metadata"], "namespace": namespace, "uid": UID}
    try:
        return parse_cluster({**body, "metadata": metadata})
    except RefusedCluster:
        return None


def test_admitted_specs_render_to_nothing_but_their_own_fields(
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


def test_jobs_for_admitted_objects_of_other_kinds_are_accepted_or_refused_in_words(
    api: client.ApiClient, namespace: str
) -> None:
    """The rows alone: the texts are for the parsers, and would take minutes here."""
    for name, kind in kinds().items():
        assert admitted(api, namespace, kind.good, kind.plural)
        usual = [is_job(api, namespace, job) for job in jobs(name, kind.good) or ()]
        assert usual, name
        assert all(usual), name
        for body in kind.rows.values():
            if admitted(api, namespace, body, kind.plural):
                for job in jobs(name, body) or ():
                    is_job(api, namespace, job)


def is_job(api: client.ApiClient, namespace: str, job: Json) -> bool:
    body = {**job, "metadata": {**job["metadata"], "namespace": namespace}}
    return made(api, "batch/v1", namespace, "jobs", body)
