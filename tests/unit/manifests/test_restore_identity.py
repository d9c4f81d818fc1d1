"""The identity of Jobs at a store without a Secret: the same for each Job, to write and to read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from inplace_world import running
from restore_world import RestoreWorld, backup, named
from worlds import body, drive

from etcd_stateful.api.backup import EtcdBackup, parse_backup
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.restore import RefusedRestore, parse_restore
from etcd_stateful.api.stores import Store, from_json, to_json, to_spec
from etcd_stateful.backup.observed import Job, Run
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Described, JobReport, Stored
from etcd_stateful.backup.restores import CreateCluster, ObservedRestore, decide
from etcd_stateful.manifests.backup_job import backup_job, deletion_job, description_job
from etcd_stateful.manifests.restore_job import job_hash
from etcd_stateful.manifests.trial_job import trial_job
from etcd_stateful.membership.steps import Settled
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap

S3 = {"path": "mybucket/etcd"}
POD = {"serviceAccountName": "reader"}
RESTORE = {"storageType": "S3", "s3": S3, "pod": POD}
ASKED = {"backupStorageType": "S3", "s3": S3, "pod": POD}
STORE = Store("S3", "mybucket", "etcd", service_account="reader")


def account(job: Any) -> str | None:
    """The ServiceAccount of the Job's pod, which gets no token for the API server."""
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    found: str | None = pod.get("serviceAccountName")
    return found


def stored(**pod: Any) -> dict[str, Any]:
    """An EtcdBackup that was stored without a Secret."""
    made = backup()
    made["spec"] |= {"s3": S3, "pod": pod}
    return made


def restoring(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"etcdCluster": {"name": "c"}} | spec}


class TestABackup:
    def backup(self, **pod: Any) -> EtcdBackup:
        spec = {"etcdEndpoints": ["http://c:2379"], "storageType": "S3", "s3": S3, "pod": pod}
        return parse_backup({"metadata": {"name": "b", "uid": "u"}, "spec": spec})

    @pytest.mark.parametrize("pod", [{}, {"serviceAccountName": "writer"}])
    def test_stores_deletes_and_is_tried_as_the_same(self, pod: Any) -> None:
        given, run, image = self.backup(**pod), Run("g1", 0.0), "operator:1"
        stored = Stored("s3://mybucket/etcd", "ab", 1, "3.7.3", 100, "00", "etcd")

        jobs = (
            backup_job(given, run, None, operator_image=image),
            deletion_job(given, {}, operator_image=image),
            trial_job(given, run, stored, etcd_image="etcd:1", operator_image=image),
        )

        assert [account(one) for one in jobs] == [pod.get("serviceAccountName")] * 3


class TestAzure:
    """Azure's webhook gives an identity only to pods with a certain label."""

    ABS: ClassVar[Any] = {"storageType": "ABS", "abs": {"path": "c/etcd", "storageAccount": "acc"}}

    def label(self, job: Any) -> str | None:
        found: dict[str, str] = job["spec"]["template"]["metadata"]["labels"]
        return found.get("azure.workload.identity/use")

    def test_each_job_without_a_secret_has_the_label(self) -> None:
        spec = {"etcdEndpoints": ["http://c:2379"], **self.ABS}
        given = parse_backup({"metadata": {"name": "b", "uid": "u"}, "spec": spec})
        world = RestoreWorld(body(1, bootstrap={"restore": self.ABS | {"pod": POD}}))
        assert drive(world, idle=2) == Settled()

        jobs = (backup_job(given, Run("g1", 0.0), None, operator_image="o:1"), *world.jobs)
        assert [self.label(one) for one in jobs] == ["true", "true"]
        assert account(world.jobs[0]) == "reader"

    def test_no_other_job_has_it(self) -> None:
        world = RestoreWorld(body(1, bootstrap={"restore": RESTORE}))
        assert drive(world, idle=2) == Settled()

        assert [self.label(one) for one in world.jobs] == [None]


class TestACluster:
    def born(self, restore: Any, **backups: Any) -> RestoreWorld:
        world = RestoreWorld(body(1, bootstrap={"restore": restore}))
        world.backups = backups
        assert drive(world, idle=2) == Settled()
        return world

    def test_is_restored_with_the_service_account_in_its_spec(self) -> None:
        """A cluster could be backed up without a Secret, but not restored."""
        assert [account(one) for one in self.born(RESTORE).jobs] == ["reader"]
        assert [account(one) for one in self.born(RESTORE | {"pod": {}}).jobs] == [None]

    def test_restored_from_a_backup_by_name_it_has_the_identity_of_that_backup(self) -> None:
        named_so = self.born(named()["restore"], b=stored(serviceAccountName="writer"))
        assert [account(one) for one in named_so.jobs] == ["writer"]
        unsaid = self.born(named()["restore"], b=stored())
        assert [account(one) for one in unsaid.jobs] == [None]

    def test_another_identity_recreates_the_job(self) -> None:
        cluster = parse_cluster(body(1))

        assert job_hash(cluster, STORE) != job_hash(
            cluster, replace(STORE, service_account="other")
        )

    def test_restored_in_place_it_is_read_as_the_restore_says(self) -> None:
        world = running(1)
        world.ask(**ASKED)
        assert drive(world, idle=8, limit=600) == Settled()

        assert [account(one) for one in world.jobs] == ["reader"]

    def test_restored_in_place_from_a_backup_by_name(self) -> None:
        world = running(1)
        world.backups = {"b": stored(serviceAccountName="writer")}
        world.ask(backupRef={"name": "b"})
        assert drive(world, idle=8, limit=600) == Settled()

        assert [account(one) for one in world.jobs] == ["writer"]

    def test_an_edit_of_it_restarts_the_restore_in_place(self) -> None:
        world = running(1)
        world.job_runs = False
        world.ask(**ASKED | {"pod": {"serviceAccountName": "misspelt"}})
        drive(world, idle=2)
        assert world.restore is not None
        world.restore["spec"]["pod"] = POD
        world.restore["metadata"]["generation"] += 1
        world.job_runs = True
        assert drive(world, idle=8, limit=600) == Settled()

        assert [account(one) for one in world.jobs] == ["misspelt", "reader"]

    def test_it_is_kept_in_the_record(self) -> None:
        world = running(1)
        world.job_runs = False
        world.ask(**ASKED)
        drive(world, idle=2)

        again = load_bootstrap(dump_bootstrap(world.record))

        assert again.successor is not None
        assert again.successor.store == STORE


class TestARestoreOfWhatIsGone:
    def test_reads_the_manifest_with_its_identity_and_passes_it_to_the_cluster(self) -> None:
        restore = parse_restore(restoring(**ASKED))
        assert restore.source == STORE
        job = description_job(restore, STORE, operator_image="operator:1")
        assert account(job) == "reader"

        said = JobReport(described=Described({"size": 1}, "3.7.3", 1))
        told = Order("ns/c", "uid-c", (), "", STORE)
        done = Job("j", "uid-j", "1", 0.0, "complete", said, order=told)
        step = decide(ObservedRestore(restore, {}, job=done))

        assert isinstance(step, CreateCluster)
        assert step.manifest["spec"]["bootstrap"]["restore"]["pod"] == POD
        made = {"metadata": {"name": "c"}, "spec": step.manifest["spec"]}
        assert parse_cluster(made).restore == STORE


class TestWhatASpecSays:
    def test_beside_a_backup_by_name_it_is_refused(self) -> None:
        """The EtcdBackup already names a ServiceAccount, which is known to work."""
        said = {"backupRef": {"name": "b"}, "pod": POD}

        with pytest.raises(
            RefusedCluster, match=r"restore\.pod\.serviceAccountName: cannot be combined"
        ):
            parse_cluster(body(1, bootstrap={"restore": said}))
        with pytest.raises(
            RefusedRestore, match=r"spec\.pod\.serviceAccountName: cannot be combined"
        ):
            parse_restore(restoring(**said))

    @pytest.mark.parametrize("pod", [3, [], {"serviceAccountName": 3}])
    def test_an_invalid_name_is_reported_once(self, pod: Any) -> None:
        with pytest.raises(RefusedRestore) as refused:
            parse_restore(restoring(**ASKED | {"pod": pod}))

        assert len(refused.value.problems) == 1
        assert "spec.pod" in str(refused.value)

    def test_it_is_the_same_in_the_job_and_in_a_spec(self) -> None:
        assert from_json(to_json(STORE)) == STORE
        assert to_spec(STORE)["pod"] == POD
        assert "pod" not in to_spec(replace(STORE, service_account=""))

    def test_an_older_record_names_none(self) -> None:
        told = to_json(replace(STORE, service_account=""))

        assert "serviceAccountName" not in told
        assert from_json(told).service_account == ""


class TestTheHashOfAJob:
    """A Job with another hash than the spec's is deleted and made again, with all that it has
    downloaded."""

    def test_an_operator_that_knows_one_more_field_began_a_restore_again(self) -> None:
        @dataclass(frozen=True, slots=True)
        class NewerStore(Store):
            region: str = ""

        newer = NewerStore(STORE.kind, STORE.bucket, STORE.key, service_account="reader")

        assert job_hash(parse_cluster(body(1)), newer) == job_hash(parse_cluster(body(1)), STORE)

    def test_it_stays_what_earlier_versions_wrote(self) -> None:
        assert job_hash(parse_cluster(body(1)), STORE).endswith("-6927f77496226426")
