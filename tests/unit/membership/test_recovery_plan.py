"""Recovery from a lost quorum: the planner's steps. `recovery_world` has the rules."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from recovery_world import JOB, RecoveryWorld, formed, lost
from views import with_pod, with_status, without_status
from worlds import UID, Conflict, claim_gone, drive, is_write, labels, once

from etcd_stateful import identity, naming
from etcd_stateful.api.tls import Link, Links
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    CreateSecret,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    Hold,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.certificates import Certificates
from etcd_stateful.observed.members import MemberStatus
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.member import MemberRecord, load_member, member_annotations
from etcd_stateful.start.ticket import Finding
from etcd_stateful.status.conditions import all_conditions
from etcd_stateful.status.outcome import LONGEST_MESSAGE, Outcome
from etcd_stateful.status.rendering import render
from model.world.told import recovery_in


def hold(step: Step, reason: str, *words: str) -> Hold:
    assert isinstance(step, Hold), step
    assert step.reason == reason, step
    for word in words:
        assert word in step.message, step.message
    return step


def wait(step: Step, *words: str) -> Wait:
    assert isinstance(step, Wait), step
    for word in words:
        assert word in step.reason, step.reason
    return step


def drive_until(world: RecoveryWorld, kind: type, **fields: Any) -> Any:
    """Continues until just before a step of this kind."""
    for _ in range(100):
        step = decide(world.observe())
        if isinstance(step, kind) and all(
            getattr(step, key) == value for key, value in fields.items()
        ):
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(f"never came to {kind}; at last {decide(world.observe())}")


def raised(**given: Any) -> RecoveryWorld:
    """A recovery that has just raised the epoch."""
    world = lost(**given)
    world.ask(1)
    world.apply(drive_until(world, WriteBootstrap))
    assert world.record.survivor == "c-1"
    while isinstance(step := decide(world.observe()), ApplyChild):
        world.apply(step)
    return world


class TestTheWholeChain:
    def test_the_survivor_continues_alone_and_the_others_join_it(self) -> None:
        world = lost()
        claim = world.claims[1].uid
        had = len(world.history)
        world.ask(1)

        assert drive(world) == Settled()
        assert labels(world.history[had:]) == [
            "StatefulSet c",
            "ledger 3",
            "StatefulSet c",
            "CreateJob",
            "record data-c-1",
            "DeleteJob",
            "delete data-c-0",
            "delete data-c-2",
            "ledger 3",
            "StatefulSet c",
            "PodDisruptionBudget c",
            "add c-0",
            "PodDisruptionBudget c",
            "ledger 4",
            "record data-c-0",
            "push c-0 existing",
            "promote c-0",
            "add c-2",
            "ledger 5",
            "record data-c-2",
            "push c-2 existing",
            "promote c-2",
        ]
        assert world.claims[1].uid == claim
        assert (world.record.epoch, world.record.survivor) == (2, "")
        assert {world.epochs[one.uid] for one in world.claims.values()} == {2}
        assert len(world.jobs) == 1

    def test_no_human_is_needed_while_the_survivor_starts(self) -> None:
        """The others wait with empty volumes then, as they should."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        while world.record.survivor or world.record.epoch == 1:
            once(world)
        world.stuck = {1}
        for _ in range(20):
            step = once(world)
            assert not isinstance(step, Hold), step
        assert world.pods[0].where == world.pods[2].where == "start"
        world.stuck = set()

        assert drive(world) == Settled()

    @pytest.mark.parametrize(
        ("size", "gone", "kept"),
        [(1, (), 0), (2, (0,), 1), (3, (1, 2), 0), (5, (0, 2, 4), 3), (5, (0, 1, 2), 4)],
    )
    def test_of_any_size_and_any_ordinal(self, size: int, gone: tuple[int, ...], kept: int) -> None:
        world = formed(size)
        if gone:
            world.wipe(*gone)
            drive(world, idle=3)
            world.ask(kept)

        assert drive(world) == Settled()
        assert len(world.etcds[world.record.cluster_id].voters) == size

    @pytest.mark.parametrize("size", [1, 3])
    def test_the_survivor_may_be_beyond_the_size(self, size: int) -> None:
        """Members below it join first. It is removed once they serve."""
        world = lost(5, (0, 1, 2))
        world.ask(4)
        world.edit(size=size)

        assert drive(world) == Settled()
        assert len(world.etcds[world.record.cluster_id].voters) == size
        recorded = [one for one in sorted(world.claims) if world.member_record(one)]
        assert recorded == list(range(size))

    def test_a_request_counts_for_one_recovery(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)

        assert decide(world.observe()) == Settled()
        world.wipe(0, 2)
        rest = drive(world)

        hold(rest, "QuorumLost", "epoch 2 and the survivor")
        assert len(world.pods) == 3

    def test_one_recovery_may_follow_another(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)
        world.wipe(1, 2)
        drive(world)
        world.ask(0)

        assert drive(world) == Settled()
        assert world.record.epoch == 3
        assert len(world.jobs) == 2

    def test_a_settled_cluster_does_not_look_for_jobs(self) -> None:
        world = lost()
        assert not survivor.needs_lookup(world.observe())
        world.ask(1)
        assert survivor.needs_lookup(world.observe())
        drive(world)
        assert not survivor.needs_lookup(world.observe())

    def test_any_operator_continues_it_from_any_point(self) -> None:
        """Every step is chosen by an operator that has just started. Here each irreversible write
        is also repeated, as if its answer had been lost. The repetition is refused."""
        world = lost()
        world.ask(1)
        for _ in range(200):
            step = decide(world.observe())
            if not is_write(step):
                if isinstance(step, Settled):
                    break
                world.turn()
                continue
            world.apply(step)
            if isinstance(step, DeleteClaim | DeleteJob | CreateJob | WriteBootstrap):
                with pytest.raises((Conflict, AssertionError, KeyError)):
                    world.apply(step)
        assert decide(world.observe()) == Settled()
        assert len(world.jobs) == 1


class TestBeforeTheEpochIsRaised:
    def test_an_internal_error_hid_that_certificates_had_expired_meanwhile(self) -> None:
        """The pods had stopped, and the epoch waits for certificates with which the survivor can
        start. The status asked for a report of a bug, in every pass."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        seen = world.observe()
        cluster = replace(seen.cluster, links=Links(Link("Static", "expired")))

        step = decide(replace(seen, cluster=cluster, certificates=Certificates(0.0)))

        hold(step, "CertificatesUnusable", "Secret expired")

    def test_removing_the_request_cancels_it(self) -> None:
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        assert not world.pods

        world.take_back()

        hold(drive(world), "QuorumLost")
        assert world.record.epoch == 1
        assert len(world.pods) == 3
        assert not world.jobs

    def test_cancelled_with_another_minor_in_the_spec_all_pods_stayed_away(self) -> None:
        """Whether the version can change depends on what members report."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        assert not world.pods
        world.edit(version="3.6.16")

        world.take_back()

        hold(drive(world), "QuorumLost")
        assert len(world.pods) == 3

    def test_a_quorum_that_comes_back_cancels_it(self) -> None:
        """The pods were about to be stopped when the members were back."""
        world = formed()
        world.ask(1, fenced=["c-0", "c-2"])
        for ordinal in (0, 2):
            world.pods[ordinal].silent = True
        wait_for_stop = decide(world.observe())
        assert isinstance(wait_for_stop, ApplyChild)
        for pod in world.pods.values():
            pod.silent = False

        hold(drive(world), "RecoveryNotNeeded")
        assert world.record.epoch == 1
        assert world.record.declined

    def test_no_pod_is_left_when_the_epoch_is_raised(self) -> None:
        world = lost()
        world.ask(1)
        world.apply(decide(world.observe()))
        assert world.observe().replicas == 0

        step = wait(decide(world.observe()), "pod c-0", "pod c-1", "pod c-2", "to stop")

        assert step.soon

    def test_a_pod_without_its_labels_is_waited_for(self) -> None:
        """It was ours once. Nothing stops it, which the wait did not say, and it still uses the
        volume."""
        world = lost()
        world.ask(1)
        world.strangers = ("c-2",)
        for _ in range(20):
            once(world)

        ways = "delete the Node, or force-delete the pod"
        wait(decide(world.observe()), "pods c-2 to stop", "kubectl delete pod c-2", ways)
        assert world.record.epoch == 1

    def test_stopping_all_pods_and_raising_the_epoch_are_decided_twice(self) -> None:
        world = lost()
        world.ask(1)

        assert is_final(drive_until(world, ApplyChild))
        assert is_final(drive_until(world, WriteBootstrap))
        assert is_final(drive_until(world, CreateJob))
        assert is_final(drive_until(world, DeleteClaim))


def test_another_minor_in_the_spec_kept_the_survivor_away() -> None:
    world = raised()
    world.edit(version="3.6.16")

    drive(world, idle=8, limit=600)

    assert len(world.serving()) == 3


def test_a_new_default_version_kept_the_survivor_away() -> None:
    """The cluster was created by an older operator, and its spec names no version."""
    world = lost(version="3.7.2")
    del world.body["spec"]["version"]
    world.ask(1)

    drive(world, idle=8, limit=600)

    assert len(world.serving()) == 3
    assert world.record.version == "3.7.2"


class TestFencing:
    def stuck(self) -> RecoveryWorld:
        """The node of c-2 is silent, so nothing confirms that its pod has stopped."""
        world = formed()
        world.wipe(0)
        world.pods[2].silent = True
        world.turn()
        world.ask(1)
        world.apply(drive_until(world, ApplyChild))
        world.pods[2].deleting = world.pods[2].overdue = True
        world.pods[2].trouble = "it was deleted and node n2 has not confirmed that it stopped"
        for _ in range(5):
            world.turn()
        return world

    def test_a_pod_that_does_not_confirm_is_reported_and_waited_for(self) -> None:
        world = self.stuck()

        wait(decide(world.observe()), "c-2", "node n2", "list the pod in spec.recovery.fenced")

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_survivor_that_does_not_confirm_was_to_be_fenced_which_is_refused(
        self, begun: bool
    ) -> None:
        """Its volume is needed, so a spec that lists it among the fenced is not accepted."""
        world = raised() if begun else lost()
        if begun:
            world.take_back()
        else:
            world.ask(1)
            world.apply(drive_until(world, ApplyChild))
        stuck = {"deleting": True, "overdue": True, "trouble": "it was deleted", "ready": False}
        [kept] = with_pod(lost().observe(), 1, **stuck).pods[1:2]

        step = decide(replace(world.observe(), pods=(kept,)))

        way = "if its node is off for good, delete the Node, or force-delete the pod"
        assert "fenced" not in wait(step, "pod c-1 (it was deleted", way).reason

    def test_a_fenced_pod_is_force_deleted(self) -> None:
        world = self.stuck()
        world.ask(1, fenced=["c-2"])

        step = decide(world.observe())

        assert isinstance(step, DeletePod)
        assert (step.name, step.force) == ("c-2", True)
        assert drive(world) == Settled()

    def test_a_fenced_pod_that_a_finalizer_keeps_was_force_deleted_for_ever(self) -> None:
        world = self.stuck()
        world.ask(1, fenced=["c-2"])

        step = decide(with_pod(world.observe(), 2, kept_by="mesh/a"))

        wait(step, "pod c-2 (its finalizer mesh/a keeps it: if what set that is gone, remove it")

    def test_a_fenced_pod_is_given_time_to_stop(self) -> None:
        """A human may be wrong. A node that answers stops the pod within its grace period."""
        world = self.stuck()
        world.ask(1, fenced=["c-2"])
        world.pods[2].overdue = False

        wait(decide(world.observe()), "pod c-2")

    def test_a_pod_that_answers_is_not_fenced(self) -> None:
        world = lost()
        world.ask(1, fenced=["c-0"])

        hold(drive(world), "RecoveryRefused", "spec.recovery.fenced lists c-0, but c-0 answers")
        assert len(world.pods) == 3

    def test_a_fenced_pod_may_still_be_ready(self) -> None:
        """Kubernetes notices only after 40 seconds that a node is off."""
        seen = lost().observe()
        world = lost()
        world.pods[2].silent = True
        world.ask(1, fenced=["c-2"])
        pods = tuple(
            replace(pod, ready=True, answer=None) if pod.ordinal == 2 else pod
            for pod in world.observe().pods
        )
        seen = replace(world.observe(), pods=pods)

        assert survivor.accepted(seen) is not None
        assert survivor.accepted(replace(seen, cluster=world_without_fence(seen))) is None


def world_without_fence(seen: Observation) -> Any:
    assert seen.cluster.recovery is not None
    return replace(seen.cluster, recovery=replace(seen.cluster.recovery, fenced=()))


class TestAfterTheEpochIsRaised:
    def test_removing_the_request_does_not_stop_it(self) -> None:
        world = raised()
        world.take_back()

        assert drive(world) == Settled()
        assert world.record.epoch == 2

    def test_a_deleted_job_is_recreated(self) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        world.job = None
        world.job_runs = True

        assert drive(world) == Settled()
        assert len(world.jobs) == 2

    def test_no_job_while_a_pod_of_the_previous_one_may_run(self) -> None:
        world = raised()
        world.strangers = (f"{JOB}-abcde",)
        for _ in range(5):
            world.turn()

        wait(decide(world.observe()), f"{JOB}-abcde to stop")

    def test_a_pod_of_the_previous_job_on_a_node_that_is_off_was_named_without_a_way_out(
        self,
    ) -> None:
        """Its Job was deleted, as a condition had advised, or another survivor was named."""
        world = raised()
        world.strangers = (f"{JOB}-abcde",)
        for _ in range(5):
            world.turn()

        wait(decide(world.observe()), "delete the Node, or force-delete the pod")

    @pytest.mark.parametrize("fenced", [(), ("c-0",)])
    def test_no_job_while_a_pod_that_came_back_is_stopping(self, fenced: tuple[str, ...]) -> None:
        """Somebody has scaled the StatefulSet up meanwhile."""
        world = raised()
        world.ask(1, epoch=1, fenced=list(fenced))
        pods = tuple(replace(one, deleting=True, overdue=True) for one in lost().observe().pods)

        step = decide(replace(world.observe(), pods=pods))

        if fenced:
            assert isinstance(step, DeletePod), step
            assert (step.name, step.force) == ("c-0", True)
        else:
            wait(step, "pod c-0", "pod c-1", "to stop")

    def test_a_second_pod_of_a_job_that_was_done_ran_beside_the_survivor(self) -> None:
        """Its etcd waits for the lock on the data, with the order to drop all members but its
        own."""
        world = raised()
        world.apply(drive_until(world, DeleteJob))
        world.strangers = (f"{JOB}-abcde",)

        wait(decide(world.observe()), f"{JOB}-abcde to stop")

        world.strangers = ()
        assert drive(world) == Settled()

    def test_a_running_job_is_waited_for_with_its_own_reason(self) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        assert world.job is not None
        wait(decide(world.observe()), f"Job {JOB} to make a cluster of one out of c-1")
        world.job = replace(world.job, trouble="image no-such cannot be pulled")

        wait(decide(world.observe()), "image no-such cannot be pulled")

    def test_a_job_that_no_node_can_run_was_waited_for_without_naming_the_way_out(self) -> None:
        """The node of the survivor's volume was removed, so nothing but another survivor helps."""
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        assert world.job is not None
        world.job = replace(world.job, trouble="no node can use its volume")

        words = "If that cannot be mended, name another survivor in spec.recovery, with epoch 2"
        wait(decide(world.observe()), "no node can use its volume", words)

    def test_an_edit_of_the_spec_reaches_a_stuck_job(self) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        world.edit(repository="another.registry/etcd")

        step = drive_until(world, DeleteJob)

        assert "the spec has been edited" in step.reason
        world.job_runs = True
        assert drive(world) == Settled()
        images = [
            job["spec"]["template"]["spec"]["initContainers"][1]["image"] for job in world.jobs
        ]
        assert images[1].startswith("another.registry/etcd")

    @pytest.mark.parametrize("state", ["running", "failed"])
    def test_roots_password_that_a_job_had_asked_for_did_not_reach_it(self, state: Any) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        assert world.job is not None
        asked = "etcd asks for a user: name the Secret in spec.auth.rootSecret"
        world.job = replace(world.job, state=state, trouble=asked)
        world.edit(auth={"rootSecret": {"name": "root", "key": "pw"}})

        step = decide(world.observe())

        assert isinstance(step, DeleteJob)
        assert "the spec has been edited" in step.reason
        world.apply(step)
        world.apply(drive_until(world, CreateJob))
        volumes = world.jobs[-1]["spec"]["template"]["spec"]["volumes"]
        assert "root" in [one["name"] for one in volumes]
        assert not isinstance(decide(world.observe()), DeleteJob)

    def test_an_edit_does_not_repeat_a_finished_job(self) -> None:
        world = raised()
        world.apply(drive_until(world, CreateJob))
        world.turn()
        world.edit(repository="another.registry/etcd")

        assert isinstance(drive_until(world, RecordMember), RecordMember)
        assert len(world.jobs) == 1

    def test_a_failed_job_is_reported_with_the_ways_out(self) -> None:
        world = raised()
        world.claims[1].data = None

        rest = drive(world)

        hold(rest, "RecoveryFailed", "there is no log", f"delete Job {JOB}", "with epoch 2")
        assert not [step for step in world.history if isinstance(step, DeleteClaim)]

    def test_another_survivor_may_be_named_with_the_new_epoch(self) -> None:
        world = lost(3, (2,))
        world.wipe(1)
        world.turn()
        world.claims[1].data = formed().claims[1].data  # found again, and then useless
        world = lost()
        world.ask(1)
        world.apply(drive_until(world, WriteBootstrap))
        world.claims[1].data, kept = None, world.claims[1].data
        hold(drive(world), "RecoveryFailed")
        assert kept is not None
        world.claims[0].data = replace(kept, member="c-0", member_id=first_id(world, 0))

        world.ask(0)

        assert drive(world) == Settled()
        assert world.record.epoch == 3
        assert world.record.survivor == ""
        assert [job["metadata"]["annotations"][naming.EPOCH] for job in world.jobs] == ["2", "3"]

    @pytest.mark.parametrize("job", ["fails", "crashes"])
    def test_another_survivor_that_cannot_be_was_named_without_an_answer(self, job: str) -> None:
        """The status went on to ask for another survivor, and did not say what is wrong with it."""
        world = raised()
        if job == "fails":
            world.claims[1].data = None
        else:
            world.failing = {world.record.version}
        before = drive(world)
        world.claims[2].annotations |= {naming.CLAIM_UID: "of-the-claim-it-was-copied-from"}

        world.ask(2)
        rest = drive(world)

        assert isinstance(before, Hold | Wait)
        assert isinstance(rest, Hold | Wait)
        why = "What it names now is refused: claim data-c-2 was restored or cloned"
        assert why not in str(before)
        assert why in str(rest)

    def test_a_survivor_whose_claim_is_gone_is_reported(self) -> None:
        world = raised()
        del world.claims[1]

        hold(decide(world.observe()), "RecoveryFailed", "c-1 has no claim", "with epoch 2")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"deleting": True}, "is lost"),
            ({"phase": "Lost"}, "is lost"),
            ({"damage": "half a record", "record": None}, "does not say whose"),
            ({"uid": "another"}, "was restored or cloned"),
        ],
    )
    def test_a_survivor_whose_claim_has_changed_is_reported(
        self, change: dict[str, Any], words: str
    ) -> None:
        seen = raised().observe()

        step = decide(with_claim(seen, 1, **change))

        hold(step, "RecoveryFailed", words)

    def test_a_job_of_another_owner_is_left_alone(self) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        assert world.job is not None
        world.job = replace(world.job, stranger="nobody (it has no owner)", survivor="", epoch=0)

        hold(decide(world.observe()), "NameTaken", JOB, "left alone")

    def test_claims_that_may_belong_to_another_cluster_are_left_alone(self) -> None:
        """A claim is deleted only if its record names this claim, this cluster, and an earlier
        epoch."""
        world = raised()
        world.apply(drive_until(world, CreateJob))
        world.turn()
        world.apply(drive_until(world, RecordMember))
        world.apply(drive_until(world, DeleteJob))
        seen = world.observe()
        assert isinstance(decide(seen), DeleteClaim)
        for change in (
            {"uid": "cloned"},
            {"record": None},
            {"record": other_record(seen, cluster_uid="other")},
            {"record": other_record(seen, cluster_id=7)},
            {"record": other_record(seen, epoch=2)},
        ):
            left = with_claim(with_claim(seen, 0, **change), 2, **change)
            assert not isinstance(decide(left), DeleteClaim), change

    def test_a_claim_below_the_survivor_is_waited_for(self) -> None:
        """Its pod cannot be created, and the StatefulSet controller then creates none above it."""
        world = raised()
        world.stuck_claims.add(0)

        rest = drive(world)

        wait(rest, "claim data-c-0 to be gone: until then pod c-1", "finalizers")
        assert world.record.survivor == "c-1"
        world.stuck_claims.clear()
        assert drive(world) == Settled()

    @pytest.mark.parametrize("survivor", [0, 1])
    def test_a_claim_that_a_finalizer_kept_held_the_survivor_down_for_ever(
        self, survivor: int
    ) -> None:
        world = lost(3, tuple({0, 1, 2} - {survivor}))
        world.stuck_claims.add(2)
        world.ask(survivor)

        assert drive(world) == claim_gone(2)

        assert world.serving() == {0, 1}
        assert world.pods.keys() == {0, 1}
        world.stuck_claims.clear()
        world.take_back()
        assert drive(world) == Settled()
        assert world.serving() == {0, 1, 2}

    def test_a_lost_secret_is_recreated_in_the_new_epoch(self) -> None:
        """The claims have the epoch on record. Without it, every volume would count as older."""
        world = lost()
        world.ask(1)
        drive(world)
        world.take_back()
        world.secret = None

        step = decide(world.observe())

        assert isinstance(step, CreateSecret)
        assert step.record.epoch == 2
        assert drive(world) == Settled()

    def test_a_secret_lost_while_the_job_runs_restarts_the_recovery(self) -> None:
        world = raised()
        world.job_runs = False
        world.apply(drive_until(world, CreateJob))
        world.secret = None
        world.apply(drive_until(world, CreateSecret))
        assert world.record.epoch == 1
        world.job_runs = True

        assert drive(world) == Settled()
        assert world.record.epoch == 3, "the lost Job may have begun epoch 2"


def first_id(world: RecoveryWorld, ordinal: int) -> int:
    held = world.member_record(ordinal)
    assert held is not None
    return held.member_id


def with_claim(seen: Observation, ordinal: int, **change: Any) -> Observation:
    claims = tuple(
        replace(claim, **change) if claim.ordinal == ordinal else claim for claim in seen.claims
    )
    return replace(seen, claims=claims)


def other_record(seen: Observation, **change: Any) -> MemberRecord:
    claim = seen.claim(0)
    assert claim is not None
    assert claim.record is not None
    return replace(claim.record, **change)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"clusterID": "00000000000000ab"}, "it names cluster 00000000000000ab"),
            ({"epoch": 2}, "it names epoch 2, but status.epoch of the cluster is 1"),
            ({"survivor": "c-5"}, "c-5 has no claim"),
            ({"survivor": "c-0"}, "the volume of c-0 holds no usable data"),
        ],
    )
    def test_a_request_that_does_not_match(self, fields: dict[str, Any], words: str) -> None:
        world = lost()
        world.ask(1, **fields)

        hold(drive(world), "RecoveryRefused", words, "survivor that you choose: c-1 (index")
        assert len(world.pods) == 3

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"deleting": True}, "the volume of claim data-c-1 is lost"),
            ({"phase": "Lost"}, "the volume of claim data-c-1 is lost"),
            ({"record": None}, "does not say whose data it holds"),
        ],
    )
    def test_a_survivor_without_a_volume(self, change: dict[str, Any], words: str) -> None:
        world = lost()
        world.ask(1)
        seen = with_claim(world.observe(), 1, **change)

        assert not survivor.halted(seen)
        asked = survivor.requested(seen)
        assert asked is not None
        assert words in survivor.why_not(seen, asked)

    @pytest.mark.parametrize("change", [{"cluster_uid": "other"}, {"cluster_id": 7}])
    def test_a_recovery_continued_with_the_data_of_another_cluster(
        self, change: dict[str, Any]
    ) -> None:
        """Another cluster's volume was bound to this claim, or the volume is from before a restore
        in place."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        claim = seen.claim(1)
        assert claim is not None
        assert claim.record is not None
        record = replace(claim.record, **change)
        seen = with_claim(seen, 1, record=record)
        asked = survivor.requested(seen)

        assert asked is not None
        words = "claim data-c-1 holds data of another cluster"
        assert words in survivor.why_not(seen, asked)
        assert "c-1" not in [seat.name for seat in survivor.candidates(seen)]

    def test_a_survivor_of_an_earlier_epoch(self) -> None:
        """Its volume came back after another survivor had been used."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        claim = seen.claim(0)
        assert claim is not None
        newer = with_claim(seen, 0, record=other_record(seen, epoch=2))

        asked = survivor.requested(newer)

        assert asked is not None
        assert "is of epoch 1, but others are of 2" in survivor.why_not(newer, asked)

    @pytest.mark.parametrize("other", [True, False])
    def test_a_survivor_with_the_volume_of_another_used_up_an_epoch(self, other: bool) -> None:
        """Volumes were swapped. The Job refuses each of them, and by then no other pod starts."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        member_id = first_id(world, 2 if other else 1)
        ids = (UID, 1, "c-2", member_id, world.record.cluster_id)
        answer = StartAnswer("c" * 64, Finding("foreign-data", "the marker names pod c-2", *ids))
        pods = tuple(
            replace(pod, in_start=True, etcd_started=False, answer=answer)
            if pod.ordinal == 1
            else pod
            for pod in seen.pods
        )
        seen = replace(seen, pods=pods, statuses={})
        asked = survivor.requested(seen)
        assert asked is not None

        why = survivor.why_not(seen, asked)

        assert ("c-1 holds the data of another member" in why) is other
        assert survivor.halted(seen) is not other

    def test_a_survivor_on_a_node_that_is_gone(self) -> None:
        world = lost()
        world.pods[1].node_gone = True
        world.ask(1)

        hold(drive(world), "RecoveryRefused", "the node that the volume of c-1 lies on is gone")

    def test_two_etcd_clusters(self) -> None:
        world = lost()
        world.ask(1)
        seen = world.observe()
        other = replace(seen.statuses[1], cluster_id=7)

        step = decide(replace(seen, statuses={**seen.statuses, 2: other}))

        hold(step, "SplitBrain", "etcd answers with cluster ID 0000000000000007")

    def test_a_learner(self) -> None:
        world = lost()
        world.ask(1)
        seen = world.observe()
        learner = replace(seen.statuses[1], learner=True)
        asked = survivor.requested(seen)
        assert asked is not None

        why = survivor.why_not(replace(seen, statuses={1: learner}), asked)

        assert "c-1 is a learner" in why

    def test_an_empty_dir(self) -> None:
        world = formed(3, pod={"emptyDir": {}})
        world.restart_pod(0)
        world.restart_pod(2)
        world.turn()
        world.ask(1)

        hold(drive(world), "RecoveryRefused", "emptyDir")
        assert len(world.pods) == 3

    def test_a_cluster_that_has_not_formed(self) -> None:
        world = RecoveryWorld()
        world.stuck = {0, 1, 2}
        drive(world, idle=2)
        world.ask(1)

        assert not survivor.halted(world.observe())
        assert not isinstance(drive(world), Hold)

    @pytest.mark.parametrize("how", ["ready", "led"])
    def test_silence_alone_proves_no_lost_quorum(self, how: str) -> None:
        """The operator may be the one that is cut off. Kubelets and members know better."""
        world = formed()
        world.ask(1)
        seen = replace(world.observe(), etcd=None)
        if how == "ready":
            seen = replace(seen, statuses={})
        else:
            seen = replace(seen, pods=tuple(replace(pod, ready=False) for pod in seen.pods))

        step = decide(seen)

        said = wait(step, "c-0, c-1, c-2 to be no longer Ready and to have no leader")
        assert not survivor.halted(seen)
        assert ("delete its pod" in said.reason) is (how == "led")

    def test_a_survivor_whose_disk_had_hung_was_waited_for_without_a_way_out(self) -> None:
        """It goes on naming the leader that it had (seen on 3.5.35 and 3.7.3), and what answers is
        not accepted as fenced."""
        world = lost()
        world.ask(1)
        seen = with_pod(with_status(world.observe(), 1, leader_id=7), 1, ready=False)
        wait(decide(seen), "delete its pod")

        stops = without_status(with_pod(seen, 1, deleting=True), 1)
        assert survivor.halted(stops)

    def test_nothing_happens_while_paused(self) -> None:
        world = lost()
        world.ask(1)
        world.edit(paused=True)

        hold(drive(world), "Paused")
        assert len(world.pods) == 3


class TestWhileAQuorumAnswers:
    def test_it_is_not_needed_and_the_cluster_continues(self) -> None:
        world = formed()
        world.ask(1)
        world.edit(size=5)

        hold(drive(world), "RecoveryNotNeeded", "remove it")
        assert len(world.etcds[world.record.cluster_id].voters) == 5

    def test_a_member_list_alone_is_enough(self) -> None:
        """Whatever kubelets report, and whichever members answer."""
        world = formed()
        world.ask(1)
        seen = world.observe()
        pods = tuple(replace(pod, ready=False) for pod in seen.pods)
        leaderless = {at: replace(said, leader_id=0) for at, said in seen.statuses.items()}

        for statuses in ({}, leaderless):
            assert not survivor.halted(replace(seen, statuses=statuses, pods=pods))
        without = replace(seen, etcd=None, statuses=leaderless, pods=pods)
        assert survivor.halted(without)

    def test_the_request_is_not_kept_for_the_next_lost_quorum(self) -> None:
        world = formed()
        world.ask(1)
        drive(world)
        world.wipe(0, 2)

        hold(drive(world), "RecoveryRefused", "set while a quorum answered")
        assert len(world.pods) == 3

    def test_removed_and_set_again_it_counts(self) -> None:
        world = formed()
        world.ask(1)
        drive(world)
        world.wipe(0, 2)
        drive(world)
        world.take_back()
        hold(drive(world), "QuorumLost")
        assert not world.record.declined

        world.ask(1)

        drive(world)
        assert world.record.epoch == 2

    def test_a_request_for_another_cluster_is_not_recorded_as_declined(self) -> None:
        world = formed()
        world.ask(1, clusterID="00000000000000ab")

        hold(drive(world), "RecoveryNotNeeded")
        assert not world.record.declined

    def test_a_request_that_was_carried_out_is_not_mentioned(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)
        world.edit(size=5)

        assert drive(world) == Settled()


class TestWhatTheConditionSays:
    def test_all_that_the_spec_needs(self) -> None:
        world = lost()
        message = hold(decide(world.observe()), "QuorumLost").message
        asked = recovery_in(message)
        assert asked is not None

        world.edit(recovery=asked)

        assert drive(world) == Settled()
        assert world.record.epoch == 2

    def test_no_survivor_was_left_to_choose(self) -> None:
        """The condition had a whole `spec.recovery` to copy: it proposed one member."""
        message = survivor.ways_out(five_with_three_lost({0: (100, 5), 1: (120, 2)}))

        assert '"c-1"' not in message
        assert "the survivor that you choose: c-1 (index 120), c-0 (index 100); the hi" in message

    @pytest.mark.parametrize(
        ("progress", "best"),
        [
            ({0: (100, 5), 1: (120, 2)}, "c-1"),
            ({0: (120, 2), 1: (100, 9)}, "c-0"),
            ({0: (100, 2), 1: (100, 2)}, "c-0"),
            ({1: (1, 1)}, "c-1"),
        ],
    )
    def test_the_highest_index_comes_first_whatever_the_term(
        self, progress: dict[int, tuple[int, int]], best: str
    ) -> None:
        """Committed entries are one sequence. The term of a member without a leader says nothing
        about how much of it the member has."""
        seen = five_with_three_lost(progress)

        message = survivor.ways_out(seen)

        assert re.search(rf"choose: {best} \(", message)
        for ordinal, (index, term) in progress.items():
            assert f"c-{ordinal} (index {index})" in message, term

    def test_each_election_that_failed_was_an_event_and_a_write_of_the_status(self) -> None:
        """With `pre-vote: false` a member without a leader raises its term each second."""
        said = {
            survivor.ways_out(five_with_three_lost({0: (100, term), 1: (120, term)}))
            for term in (5, 6)
        }

        assert len(said) == 1

    def test_silent_members_should_be_started_first(self) -> None:
        message = survivor.ways_out(five_with_three_lost({1: (100, 2)}))

        assert "c-0 (does not answer)" in message
        assert "start those that do not answer first" in message

    def test_no_member_is_left(self) -> None:
        world = lost(3, (0, 1, 2))

        hold(drive(world), "QuorumLost", "No member's data is left here", "restore a backup")

    def test_the_message_fits_into_a_condition(self) -> None:
        """At least the way out does, even with the longest names."""
        world = lost(7, (0, 1, 2, 3))
        message = hold(decide(world.observe()), "QuorumLost").message
        until = message.index("; c-") if "; c-" in message else len(message)
        said = message[:until]

        assert len(said) + said.count("c-") * 51 < LONGEST_MESSAGE


def five_with_three_lost(progress: dict[int, tuple[int, int]]) -> Observation:
    seen = lost(5, (2, 3, 4)).observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    cluster_id = seen.secret.bootstrap.cluster_id
    said = {
        ordinal: MemberStatus(
            ordinal + 1, cluster_id, "3.7.3", 0, term, index, learner=False, db_size=1
        )
        for ordinal, (index, term) in progress.items()
    }
    return replace(seen, statuses=said)


class TestAdoption:
    def test_a_volume_of_an_earlier_epoch_is_not_adopted(self) -> None:
        """The cluster was deleted before the other members' claims were."""
        world = raised()
        world.apply(drive_until(world, CreateJob))
        world.turn()
        world.apply(drive_until(world, RecordMember))
        claims = {
            ordinal: claim.annotations[naming.EPOCH] for ordinal, claim in world.claims.items()
        }
        assert claims == {0: "1", 1: "2", 2: "1"}
        seen = world.observe()
        other = replace(seen.cluster, uid="new", recovery=None)
        adopt = replace(other, retained_claims=replace(other.retained_claims, adopt=UID))

        step = decide(replace(seen, cluster=adopt, secret=None, stateful_set=None, pods=()))

        assert isinstance(step, CreateSecret)
        assert step.record.epoch == 2


def test_records_without_an_epoch_are_of_the_first() -> None:
    record = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    text = json.loads(dump_bootstrap(record))
    for key in ("epoch", "survivor", "declined"):
        del text[key]

    assert load_bootstrap(json.dumps(text)) == record


@pytest.mark.parametrize("epoch", [0, -1, True, "2", 1.5, None, [], 2.0])
def test_an_invalid_epoch_is_a_damaged_record(epoch: object) -> None:
    record = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    text = json.loads(dump_bootstrap(record)) | {"epoch": epoch}

    with pytest.raises(BadRecord):
        load_bootstrap(json.dumps(text))


@pytest.mark.parametrize("text", ["0", "", "x", "-1", "1.0", "٣", "1" * 10])
def test_an_invalid_epoch_on_a_claim_is_a_damaged_record(text: str) -> None:
    notes = member_annotations(MemberRecord("u", "c", 1, 2))

    with pytest.raises(BadRecord):
        load_member(notes | {naming.EPOCH: text})


def test_a_claim_has_its_epoch_on_record() -> None:
    record = MemberRecord("u", "c", 1, 2, epoch=7)

    assert load_member(member_annotations(record)) == record
    notes = member_annotations(record)
    del notes[naming.EPOCH]
    assert load_member(notes) == replace(record, epoch=1)


def test_ids_are_printed_as_in_the_status() -> None:
    seen = lost().observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    shown = identity.to_hex(seen.secret.bootstrap.cluster_id)

    assert f'clusterID "{shown}"' in survivor.ways_out(seen)
    assert isinstance(seen.claims[0], Claim)


class TestWhatStatusSays:
    def conditions(self, world: RecoveryWorld) -> dict[str, str]:
        seen = world.observe()
        said = all_conditions(Outcome(seen, decide(seen)))
        return {one.type: one.status for one in said}

    def test_it_is_recovering_until_all_are_back_and_never_scaling(self) -> None:
        world = lost()
        world.ask(1)
        for _ in range(100):
            step = decide(world.observe())
            if world.record.epoch == 2 and world.record.survivor:
                assert self.conditions(world)["Recovering"] == "True"
            if survivor.halted(world.observe()):
                assert "Scaling" not in self.conditions(world)
            if step == Settled():
                break
            world.apply(step) if is_write(step) else world.turn()
        assert "Recovering" not in self.conditions(world)

    def test_the_epoch_is_shown(self) -> None:
        world = lost()
        resource = {**world.body, "status": {"epoch": 1}}
        assert render(resource, Outcome(), "2026-01-01T00:00:00Z")["epoch"] == 1
        world.ask(1)
        drive(world)
        seen = world.observe()

        assert render(resource, Outcome(seen, Settled()), "2026-01-01T00:00:00Z")["epoch"] == 2
