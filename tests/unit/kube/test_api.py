"""Paths of the API, as the API server spells them."""

import pytest
from fakes import NODES

from etcd_operator.kube.api import CLAIMS, ETCD_CLUSTERS, STATEFUL_SETS


@pytest.mark.parametrize(
    ("resource", "place", "path"),
    [
        (CLAIMS, (None,), "/api/v1/persistentvolumeclaims"),
        (CLAIMS, ("ns",), "/api/v1/namespaces/ns/persistentvolumeclaims"),
        (CLAIMS, ("ns", "a"), "/api/v1/namespaces/ns/persistentvolumeclaims/a"),
        (STATEFUL_SETS, ("ns", "a"), "/apis/apps/v1/namespaces/ns/statefulsets/a"),
        (NODES, ("", "n1"), "/api/v1/nodes/n1"),
        (
            ETCD_CLUSTERS,
            ("ns",),
            "/apis/etcd.database.coreos.com/v1beta2/namespaces/ns/etcdclusters",
        ),
    ],
)
def test_the_paths_of_objects_and_lists(resource, place, path):
    assert resource.path(*place) == path


def test_a_name_from_a_users_spec_cannot_change_the_path():
    assert CLAIMS.path("ns", "../../secrets?x=1").endswith("/..%2F..%2Fsecrets%3Fx%3D1")
