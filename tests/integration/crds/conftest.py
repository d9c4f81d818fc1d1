"""The API server, of the local cluster unless another is asked for, with the CRDs of crds/."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from localkube import providers

ROOT = Path(__file__).parents[3]
APPLY = "application/apply-patch+yaml"
MANAGER = "crd-cases"
"""A field manager of its own: with Helm's, the apply would remove Helm's labels from the CRDs."""


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    return str(providers.kubeconfig())


@pytest.fixture(scope="session")
def api(kubeconfig: str) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(kubeconfig) as api:
        yield api


@pytest.fixture(scope="session")
def crds() -> dict[str, dict[str, Any]]:
    """The CRDs by kind, as they are in crds/."""
    paths = sorted((ROOT / "crds").glob("*.yaml"))
    found = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in paths]
    return {crd["spec"]["names"]["kind"]: crd for crd in found}


@pytest.fixture(scope="session")
def served(api: client.ApiClient, crds: dict[str, dict[str, Any]]) -> None:
    """Makes the API server serve exactly what is in crds/."""
    extensions = client.ApiextensionsV1Api(api)
    for crd in crds.values():
        apply(extensions, crd)
    for crd in crds.values():
        wait_until_established(extensions, crd["metadata"]["name"])


def apply(extensions: client.ApiextensionsV1Api, crd: dict[str, Any]) -> None:
    name = crd["metadata"]["name"]
    options = {"field_manager": MANAGER, "force": True, "_content_type": APPLY}
    live = extensions.list_custom_resource_definition(field_selector=f"metadata.name={name}").items
    wanted = extensions.patch_custom_resource_definition(name, crd, dry_run="All", **options)
    if not live or live[0].spec != wanted.spec:
        extensions.patch_custom_resource_definition(name, crd, **options)
        time.sleep(1)  # The API server takes a moment to serve a changed schema.


def wait_until_established(extensions: client.ApiextensionsV1Api, name: str) -> None:
    for _ in range(100):
        status = extensions.read_custom_resource_definition(name).status
        conditions = {one.type: one for one in status.conditions or () if status}
        if "Established" in conditions and conditions["Established"].status == "True":
            broken = conditions.get("NonStructuralSchema")
            assert broken is None or broken.status != "True", broken
            return
        time.sleep(0.1)
    pytest.fail(f"{name} is not established")


@pytest.fixture(scope="session")
def namespace(api: client.ApiClient, served: None) -> Iterator[str]:
    core = client.CoreV1Api(api)
    name = f"crds-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)
