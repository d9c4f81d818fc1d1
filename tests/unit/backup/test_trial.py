"""Trial restores: what is compared, the Job's pod, and what counts as proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_CLUSTERS, JOBS, PODS
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.backup import measurement, outcome, trial
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.measurement import Hash, Measured, Verdict
from etcd_stateful.backup.observed import Run
from etcd_stateful.backup.outcome import Failure, Verified
from etcd_stateful.manifests.backup_job import order
from etcd_stateful.manifests.trial_job import trial_job
from unit.backup_controllers.backup.one_backup import LABELS, STORED, World
from unit.manifests.test_backup_job import CASES, METADATA
from unit.manifests.test_golden import text_of

GOLDEN = Path(__file__).parents[1] / "manifests" / "golden" / "trials"
CLUSTER = Measured(12, (Hash(5, 0xAB),))
MADE = replace(STORED, key="etcd.backup")
PROVEN = Verified("3.7.3", ("revision 42", "12 keys", "etcd's hash"))
VERIFICATION = "b-backup-vg1"


class TestCompare:
    def wrong(self, now: int, restored: Measured) -> str:
        return "; ".join(measurement.compare(42, CLUSTER, now, restored).wrong)

    def test_the_same_at_the_revision_of_the_backup(self) -> None:
        verdict = measurement.compare(42, CLUSTER, 42, CLUSTER)

        assert verdict == Verdict((), ("revision 42", "12 keys", "etcd's hash"))

    def test_later_writes_are_not_a_difference(self) -> None:
        assert measurement.compare(42, CLUSTER, 50, CLUSTER).wrong == ()

    def test_fewer_writes_are_a_difference(self) -> None:
        assert self.wrong(41, CLUSTER) == "it is at revision 41, and the backup is of 42"

    def test_another_number_of_keys(self) -> None:
        told = self.wrong(42, replace(CLUSTER, keys=11))

        assert told == "it has 11 keys at 42, and the cluster had 12"

    def test_other_values(self) -> None:
        told = self.wrong(42, replace(CLUSTER, hashes=(Hash(5, 0xAC),)))

        assert told == "etcd's hash at revision 42 is not the cluster's"

    def test_hashes_after_different_compactions_are_not_compared(self) -> None:
        verdict = measurement.compare(42, CLUSTER, 42, replace(CLUSTER, hashes=(Hash(40, 0xAC),)))

        assert verdict.wrong == ()
        assert [words.partition(":")[0] for words in verdict.unknown] == [
            "etcd's hash could not be compared"
        ]
        between = replace(CLUSTER, hashes=(*CLUSTER.hashes, Hash(40, 0xAD)))
        told = measurement.compare(42, between, 42, replace(CLUSTER, hashes=(Hash(40, 0xAC),)))
        assert told.wrong

    @pytest.mark.parametrize(
        "cluster", [None, Measured(None, ()), replace(CLUSTER, keys=None), Measured(12, ())]
    )
    def test_a_backup_that_was_never_measured_is_not_verified(
        self, cluster: Measured | None
    ) -> None:
        """A cluster that was too large to be counted in half a minute was reported as verified."""
        verdict = measurement.compare(42, cluster, 42, CLUSTER)

        assert verdict.wrong == ("its manifest does not say what the cluster held",)

    def test_a_backup_whose_revision_was_compacted_is_not_verified(
        self,
    ) -> None:
        told = self.wrong(50, Measured())

        assert told == "its keys cannot be counted: it is compacted beyond revision 42"

    def test_an_etcd_without_etcdutl_cannot_be_used(self) -> None:
        assert trial.why_not("3.5.0") == trial.why_not("3.7.3") == ""
        assert "use Hash" in trial.why_not("3.4.33")
        assert "use Hash" in trial.why_not("what")

    def test_no_backup_of_a_private_build_could_be_verified(self) -> None:
        """All runs of its schedule failed, and their files were deleted as those of failed runs."""
        assert trial.why_not("3.6.14-acme.1") == ""
        assert "use Hash" in trial.why_not("3.4.33-acme.1")


class TestTheJob:
    def job(self, case: str = "coreos", **changes: Any) -> dict[str, Any]:
        backup = parse_backup({"metadata": METADATA, "spec": CASES[case] | changes})
        return trial_job(
            backup,
            Run("g1", 0.0),
            MADE,
            etcd_image="quay.io/coreos/etcd:v3.7.3",
            operator_image="operator:1",
            pull_secrets=[{"name": "registry"}, {"name": "other"}],
        )

    @pytest.mark.parametrize("case", CASES)
    def test_what_is_rendered_is_what_it_was(self, case: str, *, update_golden: bool) -> None:
        path = GOLDEN / f"{case}.yaml"
        text = text_of([self.job(case)])
        if update_golden:
            path.write_text(text)

        assert text == path.read_text()

    def pod(self, **changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.job(**changes)["spec"]["template"]["spec"]
        return found

    def test_only_the_first_container_sees_the_credentials(self) -> None:
        for case in CASES:
            pod = self.pod(case=case)
            every = [*pod["initContainers"], *pod["containers"]]
            assert [one["name"] for one in every] == ["fetch", "etcdutl", "etcd", "backup"]
            for one in every[1:]:
                assert [mount["name"] for mount in one["volumeMounts"]] == ["trial"]
            others = [one for one in every[0]["volumeMounts"] if one["name"] != "trial"]
            assert all(one["readOnly"] for one in others)

    def test_its_etcd_cannot_be_reached_from_outside(self) -> None:
        etcd = self.pod()["initContainers"][2]

        assert etcd["restartPolicy"] == "Always"
        urls = [word for word in etcd["command"] if "urls" in word]
        assert len(urls) == 3
        assert all("://127.0.0.1:" in word for word in urls)

    def test_a_stack_trace_was_given_as_the_reason_why_etcd_does_not_run(self) -> None:
        """It filled the termination message, and the panic above it was lost."""
        for one in self.pod()["initContainers"][1:]:
            assert {"name": "GOTRACEBACK", "value": "none"} in one["env"]

    def test_it_meets_the_restricted_pod_security_level(self) -> None:
        pod = self.pod()

        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for one in (*pod["initContainers"], *pod["containers"]):
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}

    def test_each_of_our_containers_gets_its_part(self) -> None:
        pod = self.pod(case="interval-tls")
        said = [
            orders.parse(pod[kind][0]["env"][0]["value"])
            for kind in ("initContainers", "containers")
        ]

        assert [one.action for one in said] == ["bring", "prove"]
        assert {(one.store.key, one.expected, one.stamped) for one in said} == {
            ("etcd.backup", STORED.sha256, False)
        }
        assert {secret["name"] for secret in pod["imagePullSecrets"]} == {"registry", "other"}

    def test_a_difference_is_not_tried_again(self) -> None:
        rules = self.job()["spec"]["podFailurePolicy"]["rules"]

        failed = [one["onExitCodes"] for one in rules if one["action"] == "FailJob"]
        assert {one["containerName"] for one in failed} == {"fetch", "backup"}

    def test_the_last_verified_backup_is_not_deleted_for_an_unverified_one(self) -> None:
        policy = {"backupIntervalInSecond": 60, "maxBackups": 1}
        spec = CASES["coreos"] | {"backupPolicy": policy, "verify": "Restore"}
        backup = parse_backup({"metadata": METADATA, "spec": spec})

        assert order(backup, None).keep == 2
        assert order(replace(backup, verify="Hash"), None).keep == 1
        without = replace(backup, policy=replace(backup.policy, keep=0))
        assert order(without, None).keep == 0

    @pytest.mark.parametrize("case", CASES)
    def test_it_does_not_count_as_a_reader_of_the_cluster(self, case: str) -> None:
        """It may take long, and no member's defragmentation should wait for it."""
        made = self.job(case)

        for one in (made, made["spec"]["template"]):
            assert naming.LABEL_INSTANCE not in one["metadata"]["labels"]

    def test_its_name_fits_beside_the_backups(self) -> None:
        backup = parse_backup({"metadata": METADATA | {"name": "b" * 200}, "spec": CASES["coreos"]})
        made = trial_job(backup, Run("1800000000", 0.0), MADE, etcd_image="e", operator_image="o")

        assert len(made["metadata"]["name"]) <= 63


class TestThePasses:
    async def began(self, **spec: Any) -> World:
        world = World()
        world.declare(**({"verify": "Restore"} | spec))
        if "backupPolicy" in spec:
            await world.settle()
            world.clock.now += 3600
        await world.settle()
        return world

    async def stored(self, **spec: Any) -> World:
        world = await self.began(**spec)
        world.run_pod(message=outcome.serialise(MADE))
        world.end_job()
        await world.settle()
        return world

    def end(
        self,
        world: World,
        message: str,
        *,
        container: str = "backup",
        code: int = 0,
        name: str = VERIFICATION,
    ) -> None:
        job = world.kube.live(JOBS, name)
        ended = {"terminated": {"exitCode": code, "message": message}}
        kind = "containerStatuses" if container == "backup" else "initContainerStatuses"
        reference = {"kind": "Job", "uid": job["metadata"]["uid"], "controller": True}
        world.kube.put(
            PODS,
            {
                "metadata": {
                    "namespace": "default",
                    "name": "p2",
                    "labels": LABELS,
                    "annotations": {naming.BACKUP: "b"},
                    "ownerReferences": [reference],
                },
                "status": {kind: [{"name": container, "state": ended}]},
            },
        )
        kind = "Failed" if code else "Complete"
        job["status"] = {"conditions": [{"type": kind, "status": "True"}]}
        world.kube.put(JOBS, job)

    async def test_a_backup_succeeds_only_once_it_was_restored(self) -> None:
        world = await self.stored()
        assert world.jobs() == ["b-backup-g1", VERIFICATION]
        assert "succeeded" not in world.status
        assert world.condition()["reason"] == "Verifying"

        self.end(world, outcome.serialise(PROVEN))
        await world.settle()

        assert world.status["succeeded"] is True
        assert world.status["verified"] == "Restore"
        assert "unproven" not in world.status
        assert world.status["verifiedDate"] == world.clock.rfc3339()
        assert (
            "restored with etcd 3.7.3 and compared: revision 42, 12 keys"
            in (world.condition()["message"])
        )

    @pytest.mark.parametrize("code", [0, 3])
    async def test_the_trial_of_an_earlier_backup_of_the_run_was_taken_for_that_of_a_later_one(
        self, code: int
    ) -> None:
        """A drain had deleted the ended pod of the backup, and with it its report. At an interval
        the backup was made again, under another name, and counted as verified without a trial."""
        world = await self.stored(backupPolicy={"backupIntervalInSecond": 3600})
        job, trial_job = world.jobs()
        failure = Failure("VerificationFailed", "it has 11 keys", final=True)
        told = outcome.serialise(failure if code else PROVEN)
        world.kube.remove(PODS, "default", "p1")
        self.end(world, told, code=code, name=trial_job)
        await world.settle()
        again = replace(MADE, sha256="b" * 64)
        world.run_pod(message=outcome.serialise(again), of=job)
        world.end_job(of=job)
        await world.settle()

        assert "succeeded" not in world.status
        assert world.condition()["reason"] == "Verifying"
        [container] = world.kube.live(JOBS, trial_job)["spec"]["template"]["spec"]["containers"]
        assert orders.parse(container["env"][0]["value"]).expected == again.sha256

    async def test_an_edit_of_an_interval_sent_the_trial_to_a_store_without_the_backup(
        self,
    ) -> None:
        """An edit of an interval takes effect with the next run, but the trial of this one looked
        in the new bucket, and the backup failed (`VerificationFailed`)."""
        interval = {"backupIntervalInSecond": 3600}
        world = await self.began(backupPolicy=interval)
        s3 = {"path": "other/etcd.backup", "awsSecret": "others"}
        world.declare(generation=2, verify="Restore", backupPolicy=interval, s3=s3)
        world.run_pod(message=outcome.serialise(MADE))
        world.end_job()
        await world.settle()

        trial_job = world.kube.live(JOBS, world.jobs()[-1])
        pod = trial_job["spec"]["template"]["spec"]
        for container in (pod["initContainers"][0], *pod["containers"]):
            store = orders.parse(container["env"][0]["value"]).store
            assert (store.bucket, store.key, store.secret) == ("mybucket", MADE.key, "aws")
        assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == ["aws"]

    async def test_an_edit_of_an_interval_failed_a_backup_whose_keys_nobody_had_counted(
        self,
    ) -> None:
        """`verify: Restore` came while the backup ran, which had nothing to compare with."""
        interval = {"backupIntervalInSecond": 3600}
        world = await self.began(verify="None", backupPolicy=interval)
        world.declare(generation=2, verify="Restore", backupPolicy=interval)
        world.run_pod(message=outcome.serialise(MADE))
        world.end_job()
        await world.settle()

        assert world.status["succeeded"] is True
        assert "verified" not in world.status

    async def test_a_difference_is_a_condition(self) -> None:
        world = await self.stored()
        words = "spec.s3.path: etcd.backup was restored, and it has 11 keys"
        self.end(world, outcome.serialise(Failure("VerificationFailed", words, final=True)), code=3)
        await world.settle()

        assert world.status["succeeded"] is False
        assert "verified" not in world.status
        assert (world.condition()["reason"], world.condition()["message"]) == (
            "VerificationFailed",
            words,
        )
        assert world.status["unproven"] == MADE.location
        assert "location" not in world.status
        assert world.jobs() == ["b-backup-g1", VERIFICATION]

    async def test_an_edit_of_the_path_lost_the_file_that_was_still_being_tried(self) -> None:
        """Nothing named it any more, and `deletionPolicy: Delete` left it in the store."""
        world = await self.stored()
        s3 = {"path": "mybucket/elsewhere", "awsSecret": "aws"}
        elsewhere = replace(MADE, location="s3://mybucket/elsewhere", key="elsewhere")
        world.declare(generation=2, verify="Hash", s3=s3)
        await world.settle()
        assert world.status["unproven"] == MADE.location
        assert MADE.location in world.condition()["message"]
        await world.settle()
        world.run_pod(name="p3", message=outcome.serialise(elsewhere), of="b-backup-g2")
        world.end_job(of="b-backup-g2")
        await world.settle()

        assert world.status["succeeded"] is True
        assert world.status["location"] == elsewhere.location
        assert world.status["unproven"] == MADE.location

    async def test_a_run_that_stored_nothing_forgot_the_file_that_an_earlier_one_had_left(
        self,
    ) -> None:
        """The retention of a schedule then deleted the object alone."""
        world = await self.stored()
        why = Failure("VerificationFailed", "it has 11 keys", final=True)
        self.end(world, outcome.serialise(why), code=3)
        await world.settle()
        world.declare(generation=2, verify="Restore", clientTLSSecret="s")
        await world.settle()
        failure = Failure("EtcdUnreachable", "no endpoint answers", final=True)
        told = outcome.serialise(failure)
        world.run_pod(name="p3", message=told, code=3, of="b-backup-g2")
        world.end_job("Failed", of="b-backup-g2")
        await world.settle()
        assert world.status["reason"] == "no endpoint answers"
        assert world.status["unproven"] == MADE.location

        world.declare(generation=3, verify="Hash")
        await world.settle()
        world.run_pod(name="p4", message=outcome.serialise(MADE), of="b-backup-g3")
        world.end_job(of="b-backup-g3")
        await world.settle()
        assert world.status["succeeded"] is True
        assert "unproven" not in world.status, "it is replaced"

    async def test_a_failed_download_is_reported_by_the_container_that_failed(self) -> None:
        world = await self.stored()
        told = outcome.serialise(Failure("StoreRefused", "spec.s3.path: it refuses access"))
        self.end(world, told, container="fetch", code=1)
        await world.settle()

        assert world.condition()["reason"] == "StoreRefused"

    async def test_the_error_of_etcdutl_is_reported(self) -> None:
        world = await self.stored()
        said = "info\trestoring snapshot\nError: snapshot file integrity check failed\n"
        self.end(world, said, container="etcdutl", code=1)
        await world.settle()

        assert world.condition()["reason"] == "VerificationFailed"
        assert world.condition()["message"] == (
            "etcdutl does not restore it: Error: snapshot file integrity check failed"
        )

    async def test_an_etcdutl_without_memory_was_reported_as_a_bad_backup(self) -> None:
        world = await self.stored()
        self.end(world, "restoring snapshot", container="etcdutl", code=137)
        pod = world.kube.live(PODS, "p2")
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
        world.kube.put(PODS, pod)
        await world.settle()

        assert world.condition()["reason"] == "OutOfMemory"
        assert "container etcdutl needs more memory" in world.condition()["message"]

    async def test_an_etcd_that_keeps_failing_is_reported_with_its_last_error(self) -> None:
        """It was reported as too little time, but more time did not help."""
        world = await self.stored()
        words = "spec.backupPolicy.timeoutInSecond: 60 s have passed; set it higher"
        self.end(world, outcome.serialise(Failure("TimedOut", words)), code=1)
        pod = world.kube.live(PODS, "p2")
        last = {"exitCode": 137, "reason": "OOMKilled", "message": "panic: no memory"}
        etcd = {"name": "etcd", "restartCount": 2, "lastState": {"terminated": last}}
        pod["status"]["initContainerStatuses"] = [etcd]
        world.kube.put(PODS, pod)
        await world.settle()

        assert world.condition()["reason"] == "VerificationFailed"
        assert world.condition()["message"] == (
            "the etcd of the trial restore does not run on what is stored: container etcd keeps "
            "failing: exit code 137 (OOMKilled): panic: no memory; raise "
            "spec.pod.resources.limits.memory"
        )

    async def test_a_slow_etcd_is_not_blamed(self) -> None:
        world = await self.stored()
        words = "spec.backupPolicy.timeoutInSecond: 60 s have passed; set it higher"
        self.end(world, outcome.serialise(Failure("TimedOut", words)), code=1)
        pod = world.kube.live(PODS, "p2")
        ended = {"terminated": {"exitCode": 137, "reason": "Error"}}
        etcd = {"name": "etcd", "restartCount": 0, "state": ended}
        pod["status"]["initContainerStatuses"] = [etcd]
        world.kube.put(PODS, pod)
        await world.settle()

        assert (world.condition()["reason"], world.condition()["message"]) == ("TimedOut", words)

    async def test_a_trial_whose_result_was_lost_is_repeated(self) -> None:
        world = await self.stored()
        self.end(world, "")
        uid = world.kube.live(JOBS, VERIFICATION)["metadata"]["uid"]
        await world.settle()

        assert world.kube.live(JOBS, VERIFICATION)["metadata"]["uid"] != uid

    async def test_a_trial_goes_on_after_the_status_was_emptied(self) -> None:
        world = await self.stored()
        uid = world.kube.live(JOBS, VERIFICATION)["metadata"]["uid"]
        world.run_pod(name="p2", of=VERIFICATION)
        world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
        await world.settle()

        trial = world.kube.live(JOBS, VERIFICATION)["metadata"]
        assert trial["uid"] == uid
        assert "deletionTimestamp" not in trial

    async def test_it_uses_the_clusters_own_image(self) -> None:
        world = World()
        spec = {"size": 1, "repository": "mirror.example/etcd",
                "pod": {"imagePullSecrets": [{"name": "mirror"}]}}  # fmt: skip
        world.kube.put(
            ETCD_CLUSTERS, {"metadata": {"namespace": "default", "name": "c"}, "spec": spec}
        )
        world.declare(verify="Restore")
        await world.settle()
        world.run_pod(message=outcome.serialise(MADE))
        world.end_job()
        await world.settle()

        pod = world.kube.live(JOBS, VERIFICATION)["spec"]["template"]["spec"]
        assert pod["initContainers"][1]["image"] == "mirror.example/etcd:v3.7.3"
        assert pod["imagePullSecrets"] == [{"name": "mirror"}]

    async def test_the_image_of_a_private_build_has_the_number_as_its_tag(self) -> None:
        world = World()
        world.declare(verify="Restore")
        await world.settle()
        world.run_pod(message=outcome.serialise(replace(MADE, version="3.6.14-acme.1")))
        world.end_job()
        await world.settle()

        pod = world.kube.live(JOBS, VERIFICATION)["spec"]["template"]["spec"]
        assert pod["initContainers"][1]["image"] == "quay.io/coreos/etcd:v3.6.14"

    async def test_once_it_is_over_it_needs_no_request(self) -> None:
        world = await self.stored()
        self.end(world, outcome.serialise(PROVEN))
        await world.settle()
        world.kube.calls.clear()
        await world.settle()

        assert not world.kube.calls


def test_measurements_are_in_the_manifest_and_results_in_the_outcome() -> None:
    assert measurement.from_json(measurement.to_json(CLUSTER)) == CLUSTER
    assert measurement.from_json(measurement.to_json(Measured())) == Measured()


def test_the_manifest_of_an_etcd_that_was_never_compacted_can_be_read() -> None:
    """It was refused because of a -1, and no backup of a young cluster was verified."""
    young = Measured(3, (measurement.Hash(measurement.NEVER, 7),))

    assert measurement.from_json(measurement.to_json(young)) == young
    assert outcome.parse(outcome.serialise(PROVEN)).proven == PROVEN
    assert outcome.parse(outcome.serialise(MADE)).stored == MADE


def test_a_long_version_in_an_altered_manifest_had_the_trial_repeated_without_end() -> None:
    """The kubelet keeps 4 KiB of a result. No further run of the schedule began."""
    long = "3.7.3-" + "x" * 5000
    proven = outcome.parse(outcome.serialise(replace(PROVEN, version=long))[:4096]).proven
    stored = outcome.parse(outcome.serialise(replace(MADE, version=long))[:4096]).stored

    assert proven
    assert stored
    assert proven.version == stored.version == long[:64]
