"""Where the last backup of an EtcdBackup is stored, and which of its fields a spec may set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import body as cluster_body

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.restore import RefusedRestore, parse_restore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.api.stores import Store, from_json, not_meant, to_json
from etcd_stateful.backup.reference import NotRestorable, last_stored

S3 = {"path": "mybucket/a/b", "awsSecret": "aws", "endpoint": "http://minio:9000"}
AT = Store("S3", "mybucket", "a/b", secret="aws", endpoint="http://minio:9000")
DONE = {"succeeded": True, "location": "s3://mybucket/a/b", "lastSuccessDate": "2026-01-02"}
EVERY = {"backupIntervalInSecond": 60}


def backup(status: Any = DONE, *, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    of = {"clusterRef": {"name": "c"}, "storageType": "S3", "s3": S3} | spec
    about = {"namespace": "ns", "name": "b", "uid": "u", "generation": 1} | (metadata or {})
    return {"metadata": about, "spec": of, "status": status}


def awaited(body: Any) -> NotRestorable:
    found = last_stored("b", body)
    assert isinstance(found, NotRestorable), found
    assert found.why.startswith("EtcdBackup b ")
    return found


class TestLocation:
    def test_what_is_stored_is_read_with_the_backups_own_store_and_secret(self) -> None:
        assert last_stored("b", backup()) == AT

    def test_it_is_the_stored_file_and_no_later_one(self) -> None:
        """The same manifest, applied elsewhere with the same path, had replaced the data for a
        restore by name with another cluster's."""
        found = last_stored("b", backup(DONE | {"sha256": "ab12"}))

        assert isinstance(found, Store)
        assert found == replace(AT, sha256="ab12")
        assert from_json(to_json(found)) == found
        assert not_meant(found, "ab12") == not_meant(AT, "cd34") == ""
        why = not_meant(found, "cd34")
        assert "s3://mybucket/a/b has SHA-256 cd34" in why
        assert "has stored ab12 there" in why

    def test_a_backup_of_an_interval_is_where_its_status_says(self) -> None:
        """The path in its spec does not name a file."""
        at = "a/b_v42_2026-01-02-03:04:05"
        body = backup(DONE | {"location": f"s3://mybucket/{at}"}, backupPolicy=EVERY)

        found = last_stored("b", body)

        assert isinstance(found, Store)
        assert found.key == at

    def test_after_a_later_failure_the_last_backup_of_an_interval_is_used(self) -> None:
        failed = DONE | {"succeeded": False, "reason": "the store is full"}

        assert last_stored("b", backup(failed, backupPolicy=EVERY)) == AT

    def test_after_a_later_failure_a_single_backup_may_be_gone(self) -> None:
        """It has only one name, so what was stored first may have been replaced."""
        failed = DONE | {"succeeded": False, "reason": "the keys differ"}

        assert "the keys differ" in awaited(backup(failed)).why

    def test_a_path_that_was_edited_since_does_not_count(self) -> None:
        assert last_stored("b", backup(s3=S3 | {"path": "mybucket/other"})) == AT

    def test_a_volume_is_a_store_like_any_other(self) -> None:
        volume = {"storageType": "Volume", "s3": None, "volume": {"claimName": "v", "path": "x"}}
        body = backup(DONE | {"location": "volume://v/x"}, **volume)

        assert last_stored("b", body) == Store("Volume", "v", "x")


class TestWhatIsAwaited:
    def test_a_missing_backup(self) -> None:
        assert awaited(None).stuck

    @pytest.mark.parametrize("status", [None, {}, {"run": "g1"}])
    def test_a_running_backup_needs_no_human(self, status: Any) -> None:
        assert not awaited(backup(status)).stuck

    def test_an_interval_without_a_backup_yet(self) -> None:
        assert not awaited(backup({}, backupPolicy=EVERY)).stuck

    def test_a_failed_backup_says_why(self) -> None:
        found = awaited(backup({"succeeded": False, "reason": "spec.s3.awsSecret: missing"}))

        assert found.stuck
        assert "spec.s3.awsSecret: missing" in found.why

    def test_a_backup_that_is_being_deleted_may_take_the_file_with_it(self) -> None:
        assert "deleted" in awaited(backup(metadata={"deletionTimestamp": "2026-01-02"})).why

    def test_a_backup_with_an_invalid_spec(self) -> None:
        assert "storageType" in awaited(backup(storageType="Disk")).why

    def test_a_backup_whose_status_names_no_place(self) -> None:
        """As an old status of the coreos operator."""
        assert "status.location" in awaited(backup({"succeeded": True})).why

    @pytest.mark.parametrize(
        "location",
        [
            "s3://another/a/b",
            "gcs://mybucket/a/b",
            "s3://mybucket/",
            "s3://mybucket/../another/b",
            "s3://mybucket",
            "a/b",
        ],
    )
    def test_a_location_outside_the_specs_store_is_not_used(self, location: str) -> None:
        """Whoever may write a status must not be able to choose where the Secret is used."""
        found = awaited(backup(DONE | {"location": location}))

        assert found.stuck
        assert location in found.why


REF = {"backupRef": {"name": "nightly-29417460"}}
PLACE = {"storageType": "S3", "s3": {"path": "mybucket/a"}}


def restore(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"etcdCluster": {"name": "c"}} | spec}


class TestWhatASpecSays:
    def test_a_backup_by_name(self) -> None:
        wanted = BackupRef("nightly-29417460")

        assert parse_cluster(cluster_body(1, bootstrap={"restore": REF})).restore == wanted
        assert parse_restore(restore(**REF)).source == wanted

    @pytest.mark.parametrize(
        ("said", "field"),
        [
            ({}, "storageType"),
            (REF | PLACE, "storageType"),
            (REF | {"s3": PLACE["s3"]}, "s3"),
            ({"backupRef": {}}, "backupRef.name"),
            ({"backupRef": {"name": "a", "namespace": "other"}}, "backupRef.namespace"),
            ({"backupRef": {"name": "../../secrets/a"}}, "backupRef.name"),
            ({"backupRef": {"name": "a" * 254}}, "backupRef.name"),
            ({"backupRef": "a"}, "backupRef"),
        ],
    )
    def test_anything_else_is_refused_with_its_field(self, said: Any, field: str) -> None:
        with pytest.raises(RefusedCluster) as cluster:
            parse_cluster(cluster_body(1, bootstrap={"restore": said}))
        kind = {"backupStorageType": said["storageType"]} if "storageType" in said else {}
        other = {key: value for key, value in said.items() if key != "storageType"} | kind
        with pytest.raises(RefusedRestore) as refused:
            parse_restore(restore(**other))

        assert f"spec.bootstrap.restore.{field}: " in str(cluster.value)
        there = field.replace("storageType", "backupStorageType")
        assert f"spec.{there}: " in str(refused.value)
