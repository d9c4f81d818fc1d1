"""What of a live pod template leaves no pod that could also have the fields of the manifest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from worlds import body

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.exclusive import excluded
from etcd_stateful.manifests.statefulset import stateful_set

POD = {
    "etcdEnv": [
        {"name": "A", "value": "1"},
        {"name": "EMPTY"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ],
    "emptyDir": {},
    "resources": {"requests": {"memory": "1Gi"}, "limits": {"cpu": "2"}},
}
MANIFEST = stateful_set(parse_cluster(body(3, pod=POD)), replicas=3, operator_image="x")


def stored(manifest: Any = MANIFEST) -> Any:
    """A copy of which no two parts are the same object."""
    return json.loads(json.dumps(manifest))


def etcd(of: Any) -> Any:
    [found] = of["spec"]["template"]["spec"]["containers"]
    return found


def named(items: list[Any], name: str) -> Any:
    [found] = (one for one in items if one["name"] == name)
    return found


def probe(of: Any) -> None:
    etcd(of)["livenessProbe"]["exec"] = {"command": ["true"]}


def variable(of: Any) -> None:
    named(etcd(of)["env"], "A")["valueFrom"] = {"fieldRef": {"fieldPath": "metadata.name"}}


def source(of: Any) -> None:
    named(etcd(of)["env"], "B")["valueFrom"]["fieldRef"] = {"fieldPath": "metadata.name"}


def profile(of: Any) -> None:
    of["spec"]["template"]["spec"]["securityContext"]["seccompProfile"]["localhostProfile"] = "a"


def volume(of: Any) -> None:
    named(of["spec"]["template"]["spec"]["volumes"], "data")["hostPath"] = {"path": "/srv"}


def limit(of: Any) -> None:
    etcd(of)["resources"]["limits"]["memory"] = "512Mi"


def request(of: Any) -> None:
    etcd(of)["resources"]["requests"]["cpu"] = 4


@pytest.mark.parametrize(
    ("alter", "where"),
    [
        (probe, "containers[etcd].livenessProbe.exec"),
        (variable, "containers[etcd].env[A].valueFrom"),
        (source, "containers[etcd].env[B].valueFrom.fieldRef"),
        (profile, "securityContext.seccompProfile.localhostProfile"),
        (volume, "volumes[data].hostPath"),
        (limit, "containers[etcd].resources.limits.memory"),
        (request, "containers[etcd].resources.limits.cpu"),
    ],
)
def test_a_field_beside_which_no_pod_could_be_made_was_no_drift(alter: Any, where: str) -> None:
    altered = stored()
    alter(altered)

    assert excluded(altered, MANIFEST) == f"spec.template.spec.{where}"


def test_what_pods_can_have_beside_ours_stays() -> None:
    altered = stored()
    pod = altered["spec"]["template"]["spec"]
    etcd(altered)["resources"]["limits"]["memory"] = "1024Mi"
    etcd(altered)["env"].append({"name": "C", "value": "1"})
    named(etcd(altered)["env"], "EMPTY")["valueFrom"] = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    etcd(altered)["readinessProbe"]["successThreshold"] = 1
    pod["volumes"].append({"name": "more", "hostPath": {"path": "/srv"}})
    pod["containers"].append({"name": "more", "image": "y", "command": ["true"]})

    assert excluded(altered, MANIFEST) is None


def test_what_the_spec_itself_asks_for_is_not_taken_for_anothers() -> None:
    """The API server writes quantities in another way."""
    amounts = {"requests": {"example.com/a": "2000"}, "limits": {"example.com/a": "1k"}}
    cluster = parse_cluster(body(3, pod={"resources": amounts}))
    manifest = stateful_set(cluster, replicas=3, operator_image="x")
    live = stored(manifest)
    etcd(live)["resources"]["requests"]["example.com/a"] = "2k"

    assert excluded(live, manifest) is None
