"""Objects that were stored before a rule came, such as those of the coreos operator.

The CRDs are served under a group of the test's own: first without a schema, as coreos had them,
then as they are in crds/.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from integration.crds.conftest import apply, wait_until_established

pytestmark = pytest.mark.integration

VERSION = "v1beta2"
FINALIZER = "etcd.example.com/held"
NAMES = ("has.dots", "of-a-client", f"long-{'x' * 60}")
"""Names that coreos accepted, or ignored, and this operator refuses."""

S3 = {"path": "mybucket/k"}
RESTORE = {"etcdCluster": {"name": "another"}, "backupStorageType": "S3", "s3": S3}
UNSIZED = {"size": 3, "pod": {"persistentVolumeClaimSpec": {"storageClassName": "fast"}}}
"""Its claims were never created, but it is stored."""

UNTYPED = {"etcdEndpoints": ["http://one:2379"], "s3": S3}
"""With an interval, coreos's backup operator gave such an object a finalizer before it ended."""

KINDS = ("EtcdCluster", "EtcdBackup", "EtcdRestore")

OBJECTS = [
    *(pytest.param("EtcdCluster", name, {"size": 3}, id=name[:12]) for name in NAMES),
    pytest.param("EtcdRestore", "a", RESTORE, id="restore of another"),
    pytest.param("EtcdRestore", "b", {"backupStorageType": "S3", "s3": S3}, id="restore of none"),
    pytest.param("EtcdBackup", "untyped", UNTYPED, id="backup without a kind of store"),
    pytest.param("EtcdCluster", "unsized", UNSIZED, id="claims without a size"),
]


class Stored:
    """The CRDs under another group, and the objects in it."""

    def __init__(self, api: client.ApiClient, group: str) -> None:
        self._extensions = client.ApiextensionsV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._group = group

    def serve(self, crds: dict[str, dict[str, Any]], *, rules: bool) -> None:
        for kind in KINDS:
            crd = copy.deepcopy(crds[kind])
            crd["spec"]["group"] = self._group
            crd["spec"]["names"].pop("shortNames", None)
            crd["metadata"] = {"name": f"{kind.lower()}s.{self._group}"}
            if not rules:
                anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": anything}
            apply(self._extensions, crd)
            wait_until_established(self._extensions, crd["metadata"]["name"])

    def create(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        metadata = {"name": name, "finalizers": [FINALIZER]}
        body = {"apiVersion": f"{self._group}/{VERSION}", "kind": kind, "metadata": metadata}
        self._until_served(
            self._custom.create_namespaced_custom_object,
            *self._place(kind),
            body | {"spec": spec},
        )

    def tell(self, kind: str, name: str) -> Any:
        return self._until_served(
            self._custom.patch_namespaced_custom_object_status,
            *self._place(kind),
            name,
            {"status": {"observedGeneration": 1}},
        )

    def change(self, kind: str, name: str, patch: dict[str, Any]) -> Any:
        return self._custom.patch_namespaced_custom_object(*self._place(kind), name, patch)

    def delete(self, kind: str, name: str) -> None:
        self._custom.delete_namespaced_custom_object(*self._place(kind), name)

    def is_there(self, kind: str, name: str) -> bool:
        found = self._custom.list_namespaced_custom_object(*self._place(kind))["items"]
        return name in [one["metadata"]["name"] for one in found]

    def forget(self) -> None:
        for kind in KINDS:
            self._extensions.delete_custom_resource_definition(f"{kind.lower()}s.{self._group}")

    def _place(self, kind: str) -> tuple[str, str, str, str]:
        return self._group, VERSION, "default", f"{kind.lower()}s"

    @staticmethod
    def _until_served(call: Any, *words: Any) -> Any:
        """The API server takes a moment to serve a new kind or subresource."""
        for _ in range(60):
            try:
                return call(*words)
            except ApiException as error:
                if error.status != 404:
                    raise
                time.sleep(0.5)
        raise AssertionError("the kind is not served")


@pytest.fixture(scope="module")
def stored(api: client.ApiClient, crds: dict[str, dict[str, Any]]) -> Iterator[Stored]:
    stored = Stored(api, f"stored-{uuid.uuid4().hex[:8]}.example.com")
    stored.serve(crds, rules=False)
    try:
        for param in OBJECTS:
            stored.create(*param.values)
        stored.serve(crds, rules=True)
        time.sleep(2)
        yield stored
    finally:
        stored.forget()


@pytest.mark.parametrize(("kind", "name", "spec"), OBJECTS)
def test_an_object_that_is_refused_by_now_could_neither_be_told_nor_deleted(
    stored: Stored, kind: str, name: str, spec: dict[str, Any]
) -> None:
    told = stored.tell(kind, name)
    stored.delete(kind, name)
    stored.change(kind, name, {"metadata": {"finalizers": None}})

    assert told["status"] == {"observedGeneration": 1}
    assert not stored.is_there(kind, name)
