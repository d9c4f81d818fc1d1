"""A cluster that is bootstrapped from a backup: its steps, and what may happen at each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recovery_world import RecoveryWorld, formed
from restore_world import RESTORE, RestoreWorld, born
from views import with_pod
from worlds import body, drive, is_write, labels, once

from etcd_stateful import naming
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.jobs.restore import BUMP
from etcd_stateful.manifests.jobs import MALLOC_ENVIRONMENT
from etcd_stateful.manifests.restore_job import restore_job
from etcd_stateful.manifests.statefulset import first_claim, stateful_set
from etcd_stateful.membership.epochs import quorum, restore
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    CreateJob,
    DeleteJob,
    ExpandClaim,
    Hold,
    Settled,
    Step,
    Wait,
)
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.member import MemberRecord


def steps(world: RestoreWorld, most: int = 200) -> list[str]:
    assert drive(world, idle=2) == Settled(), decide(world.observe())
    return labels(world.history)[:most]


class TestTheWholeChain:
    def test_the_first_member_runs_on_the_backup_and_the_others_join_it(self) -> None:
        world = born()

        told = steps(world)

        assert told[:4] == [
            "CreateSecret",
            "Service c",
            "StatefulSet c",
            "PersistentVolumeClaim data-c-0",
        ]
        assert told[4:7] == ["CreateJob", "record data-c-0", "DeleteJob"]
        assert "push c-0 new" not in told
        assert [one for one in told if one.startswith("add")] == ["add c-1", "add c-2"]
        record = world.record
        assert (record.latched, record.restoring) == (True, False)
        assert len(world.etcds[record.cluster_id].voters) == 3
        assert len(world.jobs) == 1

    @pytest.mark.parametrize("size", [1, 2, 5, 7])
    def test_of_any_size(self, size: int) -> None:
        world = born(size)
        steps(world)

        assert len(world.etcds[world.record.cluster_id].voters) == size

    def test_clients_are_let_in_only_once_the_data_is_there(self) -> None:
        """The client Service is created after the latch."""
        world = born()
        world.job_runs = False
        drive(world, idle=3)

        assert ("Service", "c-client") not in world.objects
        assert not world.pods

    def test_it_is_never_done_twice(self) -> None:
        world = born(1)
        steps(world)
        before = len(world.jobs)
        world.edit(bootstrap={"restore": RESTORE | {"s3": {"path": "mybucket/other"}}})
        drive(world, idle=3)
        assert len(world.jobs) == before

        world.wipe(0)
        drive(world, idle=3)
        assert len(world.jobs) == before
        assert not isinstance(decide(world.observe()), CreateJob | Settled)

    def test_with_tls_the_record_on_the_first_claim_says_so_too(self) -> None:
        """The claim outlives every other record of its member's URL."""
        world = born(1, TLS={"peer": "Managed"})
        steps(world)

        assert {claim.record.peer_scheme for claim in world.observe().claims if claim.record} == {
            "https"
        }


class TestWhileTheFirstMemberStarts:
    def starting(self) -> RestoreWorld:
        """The others wait with empty volumes, as they should."""
        world = born()
        while world.secret is None or not world.record.latched:
            once(world)
        world.stuck = {0}
        return world

    def test_the_quorum_was_called_lost_and_a_recovery_was_proposed(self) -> None:
        world = self.starting()
        for _ in range(20):
            step = once(world)
            assert not isinstance(step, Hold), step
        assert world.pods[1].where == world.pods[2].where == "start"
        world.stuck = set()

        assert drive(world) == Settled()

    def test_one_that_has_lost_its_volume_is_reported(self) -> None:
        world = self.starting()
        drive(world, idle=3)
        world.stuck = set()
        world.wipe(0)

        rest = drive(world, idle=3)

        assert isinstance(rest, Hold)
        assert (rest.reason, "c-0, c-1, c-2 is lost" in rest.message) == ("QuorumLost", True)

    def test_one_that_does_not_start_in_time_is_reported(self) -> None:
        world = self.starting()
        drive(world, idle=3)

        step = decide(with_pod(world.observe(), 0, age=quorum.START_SECONDS))

        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"


class TestAtEveryStep:
    """One thing happens after the n-th step, for every n. It ends well, or with a reason."""

    def run(self, happens: Any) -> list[Step]:
        ends = []
        for number in range(40):
            world = born(2)
            if not self._until(world, number):
                break
            happens(world)
            ends.append(drive(world, idle=3))
            assert ends[-1] == Settled(), (number, ends[-1])
            data = world.claims[0].data
            assert data is not None
            assert data.cluster_id == world.record.cluster_id
        return ends

    def _until(self, world: RestoreWorld, number: int) -> bool:
        """False if the restore is over before that step."""
        done = 0
        while done < number:
            step = decide(world.observe())
            if world.secret is not None and not world.record.restoring:
                return False
            if is_write(step):
                world.apply(step)
                done += 1
            else:
                world.turn()
        return True

    def test_the_job_is_deleted(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.job = None

        assert len(self.run(happens)) > 5

    def test_the_job_starts_over(self) -> None:
        def happens(world: RestoreWorld) -> None:
            if world.job is not None:
                world.job = replace(world.job, state="running")

        self.run(happens)

    def test_the_claim_is_lost(self) -> None:
        """As long as nothing has run, the backup can be restored again."""

        def happens(world: RestoreWorld) -> None:
            if world.secret is None or world.record.restoring:
                world.claims.pop(0, None)
                world.job = None

        self.run(happens)

    def test_the_claim_is_deleted_and_made_again_beside_a_finished_job(self) -> None:
        """That Job filled the old volume, and would vouch for an empty one."""

        def happens(world: RestoreWorld) -> None:
            if world.secret is None or world.record.restoring:
                world.claims.pop(0, None)

        self.run(happens)

    def test_the_secret_is_lost(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.lose_secret()

        self.run(happens)

    def test_the_size_is_edited(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.edit(size=3)

        self.run(happens)


class TestObstacles:
    def at_job(self, **job: Any) -> RestoreWorld:
        world = born()
        world.job_runs = False
        drive(world, idle=2)
        assert world.job is not None
        world.job = replace(world.job, **job)
        return world

    def test_a_version_that_cannot_read_it_can_be_corrected_in_the_spec(self) -> None:
        world = self.at_job(state="failed", trouble="spec.version: restore it with etcd 3.6")

        world.edit(version="3.6.16")
        world.job_runs = True

        assert drive(world, idle=2) == Settled()
        assert world.record.version == "3.6.16"

    def test_a_failed_job_is_reported_and_nothing_runs(self) -> None:
        world = self.at_job(state="failed", trouble="refused: etcd's hash")

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "RestoreFailed"
        assert "refused: etcd's hash" in step.message
        assert "new-restore" not in step.message
        assert "data-c-0" not in step.message
        assert not world.pods

    @pytest.mark.parametrize("uid", ["", "of-a-deleted-cluster"])
    def test_a_claim_with_other_data_was_reported_without_saying_to_delete_it(
        self, uid: str
    ) -> None:
        """A cluster was deleted just as its Job had filled the claim, which had no record yet; or
        somebody has made the claim. Neither another Job nor an edit helps."""
        why = "refused: the volume holds data already: the marker names c-0 of cluster x"
        world = self.at_job(state="failed", trouble=why)
        world.claims[0].annotations[naming.CLUSTER_UID] = uid

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert "Claim data-c-0 was not created for this EtcdCluster" in step.message
        assert "delete it" in step.message

    def test_an_edit_of_the_spec_recreates_the_job(self) -> None:
        world = self.at_job(state="failed")
        other = RESTORE | {"s3": {"path": "mybucket/other", "awsSecret": "aws"}}
        world.edit(bootstrap={"restore": other})
        world.job_runs = True

        assert drive(world, idle=2) == Settled()
        assert len(world.jobs) == 2

    def test_a_larger_volume_that_the_message_had_asked_for_was_never_there(self) -> None:
        """The claim was not expanded while there was no pod, and the Job not made again."""
        why = "refused: spec.pod.persistentVolumeClaimSpec: the volume has 9 bytes left"
        world = self.at_job(state="failed", trouble=why, storage="1Gi")
        larger = {"resources": {"requests": {"storage": "10Gi"}}}
        world.edit(pod={"persistentVolumeClaimSpec": larger})
        seen = world.observe()
        small = replace(seen.claims[0], requested="1Gi", capacity="1Gi")

        def after(**claim: Any) -> Step:
            return decide(replace(seen, claims=(replace(small, **claim),)))

        assert isinstance(after(), ExpandClaim)
        assert isinstance(after(requested="10Gi"), DeleteJob)
        held = after(fixed="only dynamically provisioned pvc can be resized")
        assert isinstance(held, Hold)
        assert "Claim data-c-0 (1Gi) cannot be expanded" in held.message
        assert "delete it, and another is created" in held.message

    @pytest.mark.parametrize("state", ["failed", "running"])
    def test_a_claim_that_was_deleted_as_the_message_asks_stayed_for_ever(self, state: str) -> None:
        """Kubernetes keeps it for the pod of the Job, and nothing deleted the Job."""
        world = self.at_job(state=state)
        world.claims[0].deleting = True
        world.stuck_claims = {0}

        assert labels([once(world)]) == ["DeleteJob"]

        world.stuck_claims, world.job_runs = set(), True
        assert drive(world, idle=2) == Settled()
        assert len(world.jobs) == 2

    def test_another_owners_job_is_left_alone(self) -> None:
        world = self.at_job(stranger="nobody")

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "NameTaken"

    def test_what_keeps_the_job_waiting_is_in_the_plan(self) -> None:
        world = self.at_job(trouble="cannot be scheduled: no node")

        step = decide(world.observe())

        assert isinstance(step, Wait)
        assert "s3://mybucket/etcd.backup" in step.reason
        assert "cannot be scheduled" in step.reason

    def test_the_field_must_stay_until_it_is_done(self) -> None:
        world = self.at_job()
        del world.body["spec"]["bootstrap"]
        world.edit()

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert "put it back" in step.message

    def test_a_claim_of_another_member_is_left_alone(self) -> None:
        world = born()
        world.job_runs = False
        drive(world, idle=2)
        seen = world.observe()
        claim = seen.claims[0]
        other = MemberRecord(world.cluster.uid, claim.uid, 0x77, world.record.cluster_id)
        seen = replace(seen, claims=(replace(claim, record=other),), job=None)

        step = decide(seen)

        assert isinstance(step, Hold)
        assert "another member's data" in step.message

    @pytest.mark.parametrize("state", ["absent", "running", "complete"])
    def test_a_claim_with_an_unreadable_record_is_left_alone(self, state: Any) -> None:
        """It may hold another member's data."""
        world = self.at_job()
        seen = world.observe()
        assert seen.job is not None
        job = None if state == "absent" else replace(seen.job, state=state)
        broken = replace(seen.claims[0], damage="its annotation member-id is no ID")

        step = decide(replace(seen, claims=(broken,), job=job))

        assert isinstance(step, Hold)
        assert step.reason == "ClaimRecordDamaged"

    def test_a_manually_created_pod_is_waited_for(self) -> None:
        """With two pods on one volume, `start` would look at half of the data."""
        world = born(1)
        drive_pods = formed(1)
        world.apply(decide(world.observe()))
        while is_write(step := decide(world.observe())):
            if isinstance(step, CreateJob):
                break
            world.apply(step)
        seen = replace(world.observe(), pods=drive_pods.observe().pods)

        step = restore.carry_out(seen)

        assert isinstance(step, Wait)
        assert "c-0" in step.reason

    def test_a_second_pod_of_a_finished_job_used_the_volume_while_the_member_ran(self) -> None:
        """It starts from the beginning, and removes the marker first."""
        world = born(1)
        while not isinstance(step := decide(world.observe()), DeleteJob):
            world.apply(step) if is_write(step) else world.turn()
        world.apply(step)
        world.strangers = ("c-restore-abcde",)

        step = decide(world.observe())

        assert isinstance(step, Wait)
        assert "c-restore-abcde to stop" in step.reason
        world.strangers = ()
        assert drive(world, idle=3) == Settled()

    def test_an_empty_dir_cannot_be_filled_before_its_pod(self) -> None:
        with pytest.raises(RefusedCluster, match=r"spec\.bootstrap\.restore"):
            parse_cluster(body(1, bootstrap={"restore": RESTORE}, pod={"emptyDir": {}}))

    def test_an_invalid_place_is_reported_with_its_field(self) -> None:
        bad = RESTORE | {"s3": {"path": "mybucket/../x"}}
        with pytest.raises(RefusedCluster, match=r"spec\.bootstrap\.restore\.s3\.path"):
            parse_cluster(body(1, bootstrap={"restore": bad}))


class TestTheRecord:
    def test_it_survives_the_secret(self) -> None:
        record = records.restoring(
            records.first_attempt("uid", {"c-0": "http://c-0:2380"}, "3.7.3"), size=3
        )

        assert load_bootstrap(dump_bootstrap(record)) == record
        over = records.restored(record, 3)
        assert load_bootstrap(dump_bootstrap(over)) == over

    def test_the_record_of_every_other_cluster_has_not_changed(self) -> None:
        record = records.first_attempt("uid", {"c-0": "http://c-0:2380"}, "3.7.3")

        assert "restoring" not in dump_bootstrap(record)


class TestTheManifests:
    def test_the_claim_is_the_one_that_the_statefulset_would_make(self) -> None:
        cluster = parse_cluster(body(3))
        made = stateful_set(cluster, replicas=3, operator_image="operator:1")
        [template] = made["spec"]["volumeClaimTemplates"]

        claim = first_claim(cluster, 0)

        assert claim["metadata"]["name"] == "data-c-0"
        assert claim["spec"] == template["spec"]
        assert claim["metadata"]["labels"] == template["metadata"]["labels"]
        assert claim["metadata"]["annotations"] == template["metadata"]["annotations"]

    def job(self, **source: Any) -> Any:
        cluster = parse_cluster(body(3, bootstrap={"restore": source or RESTORE}))
        record = records.restoring(
            records.first_attempt("uid", {"c-0": cluster.peer_url(0)}, "3.7.3"), size=3
        )
        assert cluster.restore is not None
        return restore_job(
            cluster, record, cluster.restore, claim_uid="v1", operator_image="operator:1"
        )

    def test_only_the_first_container_sees_the_credentials(self) -> None:
        pod = self.job()["spec"]["template"]["spec"]
        every = [*pod["initContainers"], *pod["containers"]]

        assert [one["name"] for one in every] == ["fetch", "etcdutl", "finish"]
        mounts = {one["name"]: [m["name"] for m in one["volumeMounts"]] for one in every}
        assert mounts == {"fetch": ["data", "store"], "etcdutl": ["data"], "finish": ["data"]}
        assert pod["automountServiceAccountToken"] is False

    def test_evictions_do_not_count_as_attempts(self) -> None:
        """Nodes were drained one after another, and a long restore had failed."""
        rules = self.job()["spec"]["podFailurePolicy"]["rules"]

        disrupted = [{"type": "DisruptionTarget", "status": "True"}]
        assert {"action": "Ignore", "onPodConditions": disrupted} in rules
        [refused] = [one["onExitCodes"] for one in rules if one["action"] == "FailJob"]
        assert (refused["containerName"], refused["values"]) == ("fetch", [3])

    def test_the_stores_authorities_are_for_the_container_that_asks_it(self) -> None:
        place = {"path": "b/etcd", "caSecret": "ca", "endpoint": "https://minio:9000"}
        pod = self.job(storageType="S3", s3=place)["spec"]["template"]["spec"]
        every = [*pod["initContainers"], *pod["containers"]]

        assert [volume["name"] for volume in pod["volumes"]] == ["data", "ca"]
        mounts = {one["name"]: [m["name"] for m in one["volumeMounts"]] for one in every}
        assert mounts == {"fetch": ["data", "ca"], "etcdutl": ["data"], "finish": ["data"]}

    def test_what_the_file_streams_through_uses_its_memory_again(self) -> None:
        pod = self.job()["spec"]["template"]["spec"]

        assert all(one in pod["initContainers"][0]["env"] for one in MALLOC_ENVIRONMENT)
        assert not any(one in pod["containers"][0]["env"] for one in MALLOC_ENVIRONMENT)

    def test_etcdutl_is_the_clusters_own_and_revisions_only_grow(self) -> None:
        pod = self.job()["spec"]["template"]["spec"]
        etcdutl = pod["initContainers"][1]

        assert etcdutl["image"] == "quay.io/coreos/etcd:v3.7.3"
        assert "--mark-compacted" in etcdutl["command"]
        assert "--bump-revision=1000000000" in etcdutl["command"]
        assert "--name=c-0" in etcdutl["command"]
        assert {"name": "GOTRACEBACK", "value": "none"} in etcdutl["env"]


class TestRevisionsOfARepeatedRestore:
    """They were raised by the same number each time. A client that had watched the earlier cluster
    waited for future revisions, and etcd reported nothing that was written until then."""

    def raised(self, made: float) -> int:
        world = born()
        world.created = made
        drive(world, idle=2)
        command = world.jobs[0]["spec"]["template"]["spec"]["initContainers"][1]["command"]
        (said,) = (one for one in command if one.startswith("--bump-revision="))
        assert world.record.bump == int(said.partition("=")[2])
        return world.record.bump

    def test_continue_above_those_of_the_time_before(self) -> None:
        november = 1_793_491_200.0
        first, later = self.raised(november), self.raised(november + 60)

        writes_of_a_minute_that_no_etcd_can_do = 60 * 100_000
        assert later - first == writes_of_a_minute_that_no_etcd_can_do
        assert first > BUMP

    def test_are_raised_if_the_time_is_unknown(self) -> None:
        assert self.raised(0.0) == BUMP


def test_what_is_seen_of_a_cluster_without_a_restore_is_as_it_was() -> None:
    world = RecoveryWorld(body(3))
    drive(world, idle=2)
    seen: Observation = world.observe()

    assert seen.cluster.restore is None
    assert not world.record.restoring
