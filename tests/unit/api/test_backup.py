"""Parsing of EtcdBackups: the coreos operator's manifests; mistakes are reported by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_operator.backup.sink import Sink
from etcd_stateful.api.backup import RefusedBackup, parse_backup, split_endpoint
from etcd_stateful.api.stores import Store, from_json, to_json, to_spec
from etcd_stateful.backup import names
from etcd_stateful.backup.names import manifest_of

EXAMPLES = Path(__file__).parents[3] / "examples"
METADATA = {"namespace": "ns", "name": "b", "uid": "u", "generation": 1}
S3 = {"path": "mybucket/a/etcd.backup", "awsSecret": "aws"}


def body(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"etcdEndpoints": ["http://c:2379"], "storageType": "S3", "s3": S3}
    spec |= changes
    return {"metadata": METADATA, "spec": {k: v for k, v in spec.items() if v is not None}}


def refusal(**changes: Any) -> str:
    with pytest.raises(RefusedBackup) as caught:
        parse_backup(body(**changes))
    return str(caught.value)


def test_the_manifest_in_coreos_introductions_is_accepted_with_tls() -> None:
    [manifest] = yaml.safe_load_all((EXAMPLES / "etcd-backup.yaml").read_text())

    backup = parse_backup(manifest)

    assert backup.endpoints == ("https://example-etcd-cluster-client:2379",)
    assert backup.client_tls_secret == ""
    assert backup.store == Store("S3", "mybucket", "etcd.backup", secret="aws")
    assert (backup.policy.timeout, backup.periodic, backup.policy.keep) == (60, False, 0)


def test_a_cluster_name_replaces_endpoints() -> None:
    backup = parse_backup(body(etcdEndpoints=None, clusterRef={"name": "c"}))

    assert (backup.cluster, backup.endpoints) == ("c", ())


@pytest.mark.parametrize(
    "changes", [{"etcdEndpoints": None}, {"clusterRef": {"name": "c"}}], ids=["neither", "both"]
)
def test_either_endpoints_or_a_cluster_is_named(changes: dict[str, Any]) -> None:
    assert "spec.etcdEndpoints" in refusal(**changes)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mybucket/../other", "'..'"),
        ("mybucket/a/../../b", "'..'"),
        ("mybucket//a", "empty part"),
        ("mybucket/a/", "empty part"),
        ("mybucket/a\x01b", "control character"),
        ("mybucket", "names no key"),
        ("/etcd", "must be <bucket>/<key>"),
        ("../etcd", "must be <bucket>/<key>"),
        ("mybucket/" + "a" * 901, "900 bytes"),
    ],
)
def test_a_path_that_leaves_its_place_is_refused_with_its_field(path: str, words: str) -> None:
    told = refusal(s3={"path": path, "awsSecret": "aws"})

    assert "spec.s3.path" in told
    assert words in told


def test_a_folder_is_a_path_where_a_name_is_appended() -> None:
    place = {"path": "mybucket/daily/", "awsSecret": "aws"}

    backup = parse_backup(body(s3=place, backupPolicy={"backupIntervalInSecond": 60}))

    assert backup.store.key == "daily/"


def test_what_an_interval_had_stored_under_a_long_path_was_never_found_again() -> None:
    """With revision and time its key was longer than a key may be: a restore by name refused it,
    and so did the deletion, again and again."""
    longest = 859
    every = {"backupPolicy": {"backupIntervalInSecond": 60}}
    told = refusal(s3={"path": "mybucket/" + "a" * (longest + 1), "awsSecret": "aws"}, **every)
    assert f"spec.s3.path: has a key of more than {longest} bytes" in told

    place = {"path": "mybucket/" + "a" * longest, "awsSecret": "aws"}
    store = parse_backup(body(s3=place, **every)).store
    key = names.stamped(store.key, 10**19 - 1, "2026-01-31-23:59:59")
    assert store.key_at(store.location(key)) == key


@pytest.mark.parametrize("path", ["../etc/passwd", "/abs", "a/../b", "a//b", ""])
def test_a_file_stays_in_its_volume(path: str) -> None:
    told = refusal(storageType="Volume", s3=None, volume={"claimName": "c", "path": path})

    assert "spec.volume.path" in told


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a" * 229, "a part of 256 bytes with what is appended to it"),
        ("a" * 256 + "/b", "a part of 256 bytes"),
        ("ü" * 120 + "/b/" + "ü" * 115, "a part of 257 bytes"),
        ("etcd#1", "must not end in '#' and digits"),
    ],
)
def test_all_of_a_database_was_sent_to_a_volume_before_its_name_was_refused(
    path: str, words: str
) -> None:
    """It was sent four times, and the reason was truncated after the name."""
    place = {"claimName": "c", "path": path}
    told = refusal(storageType="Volume", s3=None, volume=place)

    assert "spec.volume.path: " in told
    assert words in told


@pytest.mark.parametrize("path", ["a" * 228, "etcd#1/b", "etcd#", "etcd#1b", "#ü"])
async def test_a_path_that_is_accepted_can_be_written_to_a_volume(
    path: str, tmp_path: Path
) -> None:
    place = {"claimName": "c", "path": path}
    store = parse_backup(body(storageType="Volume", s3=None, volume=place)).store
    sink = Sink(store, None, root=str(tmp_path), owner_uid="01234567-89ab")

    await sink.put(store.key, b"a")
    await sink.put(manifest_of(store.key), b"a")

    assert (tmp_path / path).read_bytes() == b"a"


@pytest.mark.parametrize("longest", [215, 216])
async def test_a_schedule_whose_path_a_volume_could_hold_was_refused(
    longest: int, tmp_path: Path
) -> None:
    """Before it is complete, a file there has another name, without the time."""
    path = "a" * longest + "_2026-01-01-03:00_01234567"
    given = body(storageType="Volume", s3=None, volume={"claimName": "c", "path": path})
    if longest > 215:
        with pytest.raises(RefusedBackup, match="a part of 256 bytes"):
            parse_backup(given)
        return
    store = parse_backup(given).store
    sink = Sink(store, None, root=str(tmp_path), owner_uid="01234567-89ab")

    await sink.put(store.key, b"a")
    await sink.put(manifest_of(store.key), b"a")

    assert (tmp_path / path).read_bytes() == b"a"


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("S3", {"path": f"mybucket/{manifest_of('etcd')}", "awsSecret": "aws"}),
        ("Volume", {"claimName": "c", "path": manifest_of("etcd")}),
    ],
)
def test_a_backup_took_the_place_of_another_ones_manifest(kind: str, place: Any) -> None:
    """The other one could not be restored any more: its manifest could not be read."""
    told = refusal(**{"storageType": kind, "s3": None, kind.lower(): place})

    assert f"spec.{kind.lower()}.path: must not end in .manifest.json" in told


def test_the_path_of_an_interval_may_end_like_a_manifest() -> None:
    place = {"path": f"mybucket/{manifest_of('etcd')}", "awsSecret": "aws"}
    assert parse_backup(body(s3=place, backupPolicy={"backupIntervalInSecond": 60}))


def test_the_path_of_an_interval_may_end_in_a_number() -> None:
    place, policy = {"claimName": "c", "path": "etcd#1"}, {"backupIntervalInSecond": 60}
    assert parse_backup(body(storageType="Volume", s3=None, volume=place, backupPolicy=policy))


def test_a_volume_needs_its_claim() -> None:
    told = refusal(storageType="Volume", s3=None, volume={"path": "a"})

    assert "spec.volume.claimName: is missing" in told


def test_a_store_without_its_part_of_the_spec_is_refused() -> None:
    assert "spec.gcs: is missing" in refusal(storageType="GCS", s3=None)
    assert "must be one of S3, ABS, GCS, OSS, Volume" in refusal(storageType="FTP")


def test_every_mistake_is_reported_at_once() -> None:
    told = refusal(etcdEndpoints=["file:///etc/passwd"], s3={"path": "a"}, backupPolicy=3)

    assert all(part in told for part in ("etcdEndpoints", "s3.path", "backupPolicy"))


def test_backups_in_alibabas_default_region_were_sent_in_plaintext() -> None:
    """coreos's default has the same host, without TLS."""
    place = {"path": "a/b", "ossSecret": "o"}

    backup = parse_backup(body(storageType="OSS", s3=None, oss=place))

    assert backup.store.endpoint == "https://oss-cn-hangzhou.aliyuncs.com"


@pytest.mark.parametrize("host", ["s3.eu-west-1.amazonaws.com", "minio:9000"])
def test_backups_to_an_endpoint_without_a_scheme_were_sent_in_plaintext(host: str) -> None:
    """coreos's client used TLS then, and its documentation named AWS like that."""
    backup = parse_backup(body(s3=S3 | {"endpoint": host}))

    assert backup.store.endpoint == f"https://{host}"


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [
        ("http://a:2379", ("http", "a:2379")),
        ("https://a", ("https", "a:2379")),
        ("a:1234", ("", "a:1234")),
        ("https://[fd00::1]:2379/", ("https", "[fd00::1]:2379")),
    ],
)
def test_an_endpoint_of_etcd(endpoint: str, parts: tuple[str, str]) -> None:
    assert split_endpoint(endpoint) == parts


@pytest.mark.parametrize("endpoint", ["a:99999", "http://u:p@a:2379", "a b", "unix:///x"])
def test_an_invalid_endpoint_is_refused(endpoint: str) -> None:
    assert "spec.etcdEndpoints" in refusal(etcdEndpoints=[endpoint])


def test_an_invalid_port_made_the_store_client_panic() -> None:
    s3 = {"path": "a/b", "endpoint": "http://minio:99999"}

    assert "spec.s3.endpoint" in refusal(s3=s3)


def test_a_label_of_the_operator_is_not_copied() -> None:
    assert "spec.pod.labels[app]" in refusal(pod={"labels": {"app": "etcd"}})


def test_an_annotation_hid_the_pods_of_a_backup_from_the_operator() -> None:
    """By it they counted as those of an EtcdRestore, and not as the cluster's: a file was deleted
    while a Job still wrote it, and a member was defragmented during its backup."""
    for name in ("restore", "backup"):
        key = f"etcd.database.coreos.com/{name}"
        assert f"spec.pod.annotations[{key}]" in refusal(pod={"annotations": {key: "a"}})
    assert parse_backup(body(pod={"annotations": {"etcd.version": "a"}})).pod.annotations


def test_a_store_is_the_same_in_the_job() -> None:
    store = Store("S3", "b", "k", "s", "http://e:1", path_style=True, checksum="SHA256")

    assert from_json(to_json(store)) == store
    assert from_json(to_json(replace(store, checksum=""))) == replace(store, checksum="")
    private = replace(store, ca_secret="ca")
    assert from_json(to_json(private)) == private


ABS = {"storageType": "ABS", "s3": None}


def test_the_azure_account_comes_from_a_secret_or_from_the_spec() -> None:
    by_secret = parse_backup(body(**ABS, abs={"path": "a/b", "absSecret": "azure"})).store
    by_itself = parse_backup(body(**ABS, abs={"path": "a/b", "storageAccount": "acc1"})).store

    assert (by_secret.secret, by_secret.storage_account) == ("azure", "")
    assert (by_itself.secret, by_itself.storage_account) == ("", "acc1")
    assert from_json(to_json(by_itself)) == by_itself
    assert to_spec(by_itself)["abs"] == {"path": "a/b", "storageAccount": "acc1"}


@pytest.mark.parametrize(
    "said", [{}, {"absSecret": ""}, {"absSecret": "azure", "storageAccount": "acc1"}]
)
def test_azures_account_is_named_once(said: dict[str, Any]) -> None:
    assert "spec.abs.absSecret: or storageAccount" in refusal(**ABS, abs={"path": "a/b"} | said)


@pytest.mark.parametrize("account", ["evil.example/", "UP", "a", "a" * 25, "a.b", "acc1\n"])
def test_the_azure_account_cannot_lead_to_another_host(account: str) -> None:
    told = refusal(**ABS, abs={"path": "a/b", "storageAccount": account})

    assert "spec.abs.storageAccount: must be 3 to 24" in told


@pytest.mark.parametrize("checksum", ["SHA256", "CRC64NVME"])
def test_a_requested_checksum_is_sent(checksum: str) -> None:
    backup = parse_backup(body(s3=S3 | {"checksum": checksum}))

    assert backup.store.checksum == checksum
    assert to_spec(backup.store)["s3"] == S3 | {"checksum": checksum}
    assert parse_backup(body()).store.checksum == "", "what a store speaks is not known"


def test_the_certificate_authorities_of_a_store_are_named_beside_its_endpoint() -> None:
    private = S3 | {"caSecret": "ca", "endpoint": "https://minio:9000"}
    backup = parse_backup(body(s3=private))

    assert backup.store.ca_secret == "ca"
    assert to_spec(backup.store)["s3"] == private
    assert "spec.s3.caSecret" in refusal(s3=private | {"caSecret": "kube-system/ca"})


@pytest.mark.parametrize("endpoint", ["http://minio:9000", "minio:9000"])
def test_authorities_for_a_store_in_plaintext_are_refused(endpoint: str) -> None:
    """Anybody on the network could read the credentials, and the spec looked as if nobody could."""
    told = refusal(s3=S3 | {"caSecret": "ca", "endpoint": endpoint})

    assert "spec.s3.endpoint: must begin with https:// where caSecret is set" in told


@pytest.mark.parametrize("checksum", ["sha256", "CRC32", "MD5", " "])
def test_an_unknown_checksum_is_refused_with_its_field(checksum: str) -> None:
    told = refusal(s3=S3 | {"checksum": checksum})

    assert "spec.s3.checksum: must be one of SHA256, CRC64NVME" in told
