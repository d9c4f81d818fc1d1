"""Addresses that no Job may call for a spec or a Secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_stateful.api.backup import RefusedBackup, parse_backup
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.restore import RefusedRestore, parse_restore
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.credentials import BadSecret, access

CRDS = Path(__file__).parents[3] / "crds"
POD = [
    "127.0.0.1", "127.255.0.9", "0.0.0.0",  # noqa: S104 - to be refused
    "localhost", "LocalHost", "localhost.", "a.localhost", "ip6-localhost", "ip6-loopback",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
]  # fmt: skip
NODE = [
    "169.254.169.254", "[fe80::1]", "[FEBF::1]", "[fd00:ec2::254]", "metadata.google.internal",
    "100.100.100.200", "168.63.129.16", "metadata.goog", "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]",
]  # fmt: skip
API_SERVER = [
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "KUBERNETES.default.svc.",
    "kubernetes.default.svc.cluster.local",
]  # fmt: skip
UNUSUAL = [
    "127.1", "0", "2130706433", "017700000001", "0x7f000001", "0X7F.0.0.1", "0177.0.0.1",
    "127.0.0.0x1", "0xA9FEA9FE", "169.254.43518", "127.0.0.1.", "[::ffff:7f00:1]",
    "[::ffff:a9fe:a9fe]", "[::7f00:1]", "[:::]",
]  # fmt: skip
REFUSED = [
    *((one, "must not lead to the Job's own pod") for one in POD),
    *((one, "must not lead to the node or the cloud's metadata service") for one in NODE),
    *((one, "must not lead to the API server") for one in API_SERVER),
    *((one, "must have its address as four decimal numbers") for one in UNUSUAL),
]
TAKEN = [
    "minio", "minio.storage.svc", "a-0.a.ns.svc", "10.0.0.1", "192.168.0.9", "8.8.8.8", "[fd00::1]",
    "[2001:db8::1]", "100.100.100.201", "127.example.com", "kubernetes.example.com",
    "my-kubernetes.default.svc", "etcd.kubernetes", "localhost.example.com",
    "oss-cn-hangzhou.aliyuncs.com",
]  # fmt: skip
METADATA = {"name": "b", "namespace": "ns", "uid": "u", "generation": 1}
S3 = {"path": "bucket/a", "awsSecret": "aws"}


def problems(**spec: Any) -> list[str]:
    """What the parser says of an EtcdBackup."""
    good = {"etcdEndpoints": ["http://a:2379"], "storageType": "S3", "s3": S3}
    try:
        parse_backup({"metadata": METADATA, "spec": good | spec})
    except RefusedBackup as refused:
        return [str(one) for one in refused.problems]
    return []


@pytest.mark.parametrize("form", ["{}", "http://{}", "https://{}:443", "http://{}:80/latest/"])
def test_a_store_led_the_job_to_the_api_server_or_a_metadata_service(form: str) -> None:
    for host, words in REFUSED:
        [said] = problems(s3=S3 | {"endpoint": form.format(host), "forcePathStyle": True})
        assert said.startswith(f"spec.s3.endpoint: {words}"), said
        assert "name the store's own address" in said


@pytest.mark.parametrize("form", ["{}", "http://{}:2379", "https://{}:443/"])
def test_endpoints_of_etcd_led_the_job_to_the_api_server_or_a_metadata_service(form: str) -> None:
    for host, words in REFUSED:
        [said] = problems(etcdEndpoints=["http://a:2379", form.format(host)])
        assert said.startswith(f"spec.etcdEndpoints: {words}"), said
        assert "name the address of a member or of its Service" in said


def test_every_other_host_is_accepted() -> None:
    for host in TAKEN:
        endpoint = f"http://{host}:9000"
        assert not problems(s3=S3 | {"endpoint": endpoint}, etcdEndpoints=[endpoint]), host


def test_a_name_is_not_resolved_before_it_is_called() -> None:
    """Documented, as it cannot be otherwise: it may resolve to another address a moment later."""
    assert not problems(s3=S3 | {"endpoint": "http://127.0.0.1.nip.io"})


def patterns(schema: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The rules of a CRD against such hosts, each with its message."""
    if isinstance(schema, dict):
        for one in schema.get("x-kubernetes-validations", ()):
            rule = re.fullmatch(r'!self\.matches\("(\(\?i\).*)"\)', one["rule"])
            if rule:
                yield one["message"], re.compile(rule[1].replace("\\\\", "\\"))
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            yield from patterns(inner)


def test_the_api_server_refuses_them_too_but_for_unusual_forms() -> None:
    """The other forms are left to the parser, which no pattern can replace."""
    left = {"[fd00:ec2::254]", "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]"}
    left |= {"0X7F.0.0.1", "0177.0.0.1", "127.0.0.0x1", "[::7f00:1]"}
    files = sorted(CRDS.glob("*.yaml"))
    found = [one for file in files for one in patterns(yaml.safe_load(file.read_text()))]
    assert len(found) == 10
    for message, pattern in found:
        for form in ("{}", "http://{}", "https://{}:443/"):
            refused = {host for host, _ in REFUSED if pattern.search(form.format(host))}
            assert refused == {host for host, _ in REFUSED} - left, message
            assert not [host for host in TAKEN if pattern.search(form.format(host))], message
        assert not pattern.search("")


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("kubernetes/a", "default.svc"),
        ("kubernetes.default/a", "svc.cluster.local"),
        ("metadata/a", "google.internal"),
    ],
)
def test_a_bucket_made_the_api_servers_name_of_a_harmless_host(path: str, host: str) -> None:
    [said] = problems(s3={"path": path, "endpoint": f"https://{host}"})

    assert said.startswith("spec.s3.endpoint: must not lead to ")


@pytest.mark.parametrize("bucket", ["169.254.169.254?", "127.0.0.1:2379", "user@evil", "a#", ""])
def test_a_bucket_was_the_host_that_the_job_called(bucket: str) -> None:
    [said] = problems(s3={"path": f"{bucket}/a"})

    assert said.startswith("spec.s3.path: must be <bucket>/<key>")


def test_an_address_has_no_bucket_before_it() -> None:
    assert not problems(s3={"path": "bucket/a", "endpoint": "http://10.0.0.1:9000"})


@pytest.mark.parametrize("kind", ["s3", "oss"])
def test_a_restore_and_a_new_cluster_call_no_such_address_either(kind: str) -> None:
    secret = {"s3": "awsSecret", "oss": "ossSecret"}[kind]
    store = {kind: {"path": "bucket/a", secret: "s", "endpoint": "https://kubernetes.default.svc"}}
    begin = {"restore": {"storageType": kind.upper(), **store}}
    restore = {"backupStorageType": kind.upper(), **store, "etcdCluster": {"name": "b"}}
    words = f"{kind}.endpoint: must not lead to the API server"

    with pytest.raises(RefusedRestore, match=words):
        parse_restore({"metadata": METADATA, "spec": restore})
    with pytest.raises(RefusedCluster, match=words):
        parse_cluster({"metadata": METADATA, "spec": {"size": 1, "bootstrap": begin}})


KEYS = {"storage-account": "account", "storage-key": "a2V5"}
AWS = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"


def told(kind: str, **files: str) -> str:
    with pytest.raises(BadSecret) as refused:
        access(Store(kind, "bucket", "a", "secret"), files)
    return str(refused.value)


def test_an_address_in_a_secret_led_the_job_to_the_api_server_or_a_metadata_service() -> None:
    for host, words in REFUSED:
        url = f"http://{host}:80"
        cloud = told("ABS", **KEYS, cloud=f"{url}/account")
        google = told("GCS", **{"credentials.json": account(url)})
        assert cloud.startswith(f"key cloud {words}"), cloud
        assert google.startswith(f"key credentials.json: gcs_base_url {words}"), google


def account(url: object) -> str:
    return json.dumps({"type": "service_account", "gcs_base_url": url})


@pytest.mark.parametrize("url", ["http://a@127.0.0.1", "http:\\\\127.0.0.1", "file:///etc", ["a"]])
def test_an_address_in_a_secret_that_is_none_is_refused(url: object) -> None:
    assert "must be http://host:port" in told("GCS", **{"credentials.json": account(url)})


def test_addresses_of_stores_in_a_secret_are_accepted() -> None:
    azure = access(Store("ABS", "b", "a", "s"), {**KEYS, "cloud": "https://azure.example/account"})
    google = {"credentials.json": account("https://storage.example")}

    assert azure.config["endpoint"] == "https://azure.example/account"
    assert access(Store("GCS", "b", "a", "s"), google).config
    assert access(Store("GCS", "b", "a", "s"), {"credentials.json": account(None)}).config


@pytest.mark.parametrize("region", ["x/@127.0.0.1", "127.0.0.1?", "a.evil.example#", "a b"])
def test_a_region_in_a_secret_was_the_host_that_the_job_called(region: str) -> None:
    files = {"credentials": AWS, "config": f"[default]\nregion = {region}\n"}

    assert "region must be letters, digits and dashes" in told("S3", **files)


@pytest.mark.parametrize("name", ["127.0.0.1/", "a.evil.example#", "UP", "a"])
def test_an_azure_account_in_a_secret_was_the_host_that_the_job_called(name: str) -> None:
    assert "key storage-account must be" in told("ABS", **KEYS | {"storage-account": name})
