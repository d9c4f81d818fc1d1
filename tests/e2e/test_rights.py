"""The operator's rights: Roles are enough, and in the end every right was used.

The latter is checked for the whole suite by the API server's audit log. So it runs last, and only
after all parts of the suite have run with the same build.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from harness import backups
from harness.api import CLAIMS, CLUSTER_ROLES, SERVICES, ApiError, Json, Kube
from harness.audit import Audit
from harness.clusters import Cluster
from harness.membership import settles
from harness.operator import Operator
from harness.place import Place
from harness.release import Release, helm
from harness.rights import Right, granted, refused, refused_at_work, used
from harness.users import AUTH, password, settled
from harness.waiting import eventually

pytestmark = pytest.mark.alone

OURS = "etcd.database.coreos.com"

RARE: dict[Right, str] = {
    (OURS, "etcdbackups", "get"): "its status was written by somebody else in between",
    (OURS, "etcdbackupschedules", "get"): "its status was written by somebody else in between",
    (OURS, "etcdrestores", "get"): "its status was written by somebody else in between",
    ("coordination.k8s.io", "leases", "create"): "installed where no release was before",
}
"""Rights for moments that the suite does not bring about; unit and integration tests do."""


@pytest.mark.timeout(600)
def test_roles_in_the_served_namespaces_are_sufficient(
    place: Place, release: Release, audit: Audit
):
    """No right in any other namespace, and none to any Secret outside of these."""
    release.upgrade(watchNamespaces=f"{{{place.namespace}}}")
    made = list(yaml.safe_load_all(manifest_of(place.operator)))
    assert not [one for one in made if one and one["kind"].startswith("ClusterRole")]
    quiet = Audit(audit.path)

    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    place.may_lose |= {"data-etcd-1", "data-etcd-2"}
    place.kube.delete(CLAIMS, place.namespace, "data-etcd-1")
    settles(cluster, 3)
    cluster.scale(2)
    settles(cluster, 2)

    assert cluster.client.get("before") == "kept"
    backs_up_with_users(place, cluster)
    assert refused(quiet.entries(place.operator.user)) == []
    for what in ("secrets", "pods", "etcdclusters.etcd.database.coreos.com", "namespaces"):
        for where in ("--all-namespaces", "--namespace=kube-system"):
            assert not may(place.kube, place.operator.user, "list", what, where)
    assert may(place.kube, place.operator.user, "list", "secrets", f"--namespace={place.namespace}")


def backs_up_with_users(place: Place, cluster: Cluster) -> None:
    """Authentication is turned on, a backup is made and proven, and it is turned off."""
    for name in ("root", "web"):
        password(place, name, f"of-{name}")
    cluster.change(auth=AUTH)
    settled(cluster, "authentication is on", enabled=True, seconds=60)
    backups.claim(place, "backups")
    backups.declare(
        place,
        "guarded",
        clusterRef={"name": cluster.name},
        storageType="Volume",
        volume={"claimName": "backups", "path": "etcd.db"},
        verify="Restore",
    ).succeeds(seconds=120)
    cluster.change(auth=None)
    settled(cluster, "authentication is off", enabled=False, seconds=60)


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_without_the_right_to_read_network_policies_everything_else_works(
    place: Place, without_network_policies: None
):
    place.operator_may_restart = True
    place.may_lose |= {"data-etcd-1", "data-etcd-2"}
    place.operator.kill()

    cluster = place.declare(size=3)
    eventually("three members serve", lambda: served_by(cluster), lambda now: now == 3, seconds=90)
    assert "NetworkPolicy/etcd" not in cluster.children()
    eventually(
        "the status names the right that is missing",
        lambda: cluster.condition("Progressing"),
        lambda found: found["reason"] == "StepFailed" and "networkpolicies" in found["message"],
        seconds=30,
    )
    cluster.kube.delete(SERVICES, place.namespace, "etcd-client")
    eventually("other objects are put back", lambda: "Service/etcd-client" in cluster.children())
    cluster.scale(1)
    eventually("members go", lambda: served_by(cluster), lambda now: now == 1, seconds=60)


def served_by(cluster: Cluster) -> int:
    return len(cluster.status().get("members", {}).get("ready", ()))


@pytest.fixture
def without_network_policies(kube: Kube, operator: Operator) -> Iterator[None]:
    """Its ClusterRole as an administrator has cut it down."""
    name = next(
        one["metadata"]["name"]
        for one in yaml.safe_load_all(manifest_of(operator))
        if one and one["kind"] == "ClusterRole" and is_ruled(one, "networkpolicies")
    )
    role = kube.get(CLUSTER_ROLES, None, name)
    assert role
    fewer = [one for one in role["rules"] if "networkpolicies" not in one["resources"]]
    kube.patch(CLUSTER_ROLES, None, name, {"rules": fewer})
    yield
    kube.patch(CLUSTER_ROLES, None, name, {"rules": role["rules"]})
    operator.kill()


def is_ruled(role: Json, resource: str) -> bool:
    return any(resource in rule["resources"] for rule in role["rules"])


@pytest.mark.last
def test_every_granted_right_was_used_by_the_suite(operator: Operator, whole_audit: Audit):
    manifests = [one for one in yaml.safe_load_all(manifest_of(operator)) if one]
    entries = list(whole_audit.entries(operator.user))

    unused = granted(manifests) - used(entries) - RARE.keys()

    assert unused == set()
    assert refused_at_work(entries) == []


def manifest_of(operator: Operator) -> str:
    return helm("get", "manifest", operator.release, f"--namespace={operator.namespace}")


def may(kube: Kube, user: str, verb: str, what: str, where: str) -> bool:
    try:
        return kube.kubectl("auth", "can-i", verb, what, where, f"--as={user}").strip() == "yes"
    except ApiError:
        return False
