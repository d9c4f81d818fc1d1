"""What may happen at each step of a restore in place."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from inplace_world import InPlaceWorld, chain, running
from recovery_world import RecoveryWorld
from worlds import claim_gone, drive, is_write

from etcd_stateful import identity, naming
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateJob, DeleteJob, Hold, Settled, Step, Wait
from etcd_stateful.status.restore_progress import restoring
from unit.membership.in_place.disturbed_world import (
    MOST,
    data_of,
    deleted_and_adopted,
    go,
    is_stop,
    until_job,
)


def until_filled(world: InPlaceWorld) -> None:
    """Asks for the restore, and continues until just before its first volume is on record."""
    world.ask()
    go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))


@pytest.fixture(scope="module")
def worlds() -> list[InPlaceWorld]:
    return chain()


@pytest.fixture(scope="module")
def small() -> list[InPlaceWorld]:
    return chain(1)


class TestAtEveryStep:
    """One thing happens after the n-th write, for every n."""

    def each(self, worlds: list[InPlaceWorld], happens: Callable[[InPlaceWorld], None]) -> None:
        assert len(worlds) > 12
        for world in worlds:
            happens(copy.deepcopy(world))

    def test_the_restore_is_deleted(self, worlds: list[InPlaceWorld]) -> None:
        """Before the point of no return nothing has changed; after it, the restore is finished."""
        ends = set()

        def happens(world: InPlaceWorld) -> None:
            world.restore = None
            old = world.record.cluster_id
            over = world.record.restored_by == "uid-r"
            before = len(data_of(world, old))
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert world.record.cluster_id == old
            if not over:
                assert before == 3
                assert data_of(world, old) == [0, 1, 2]
                assert world.etcd is not None
                assert world.etcd.added == 0, "as members that never left"
            left = [one for number, one in world.claims.items() if number > 2]
            assert not any(one.data or world.member_record(3) for one in left), "left of it"
            assert world.job is None
            assert world.record.successor is None
            ends.add(over)

        self.each(worlds, happens)
        assert ends == {True, False}

    @pytest.mark.parametrize("called_off", [False, True])
    def test_another_minor_that_had_to_wait_for_members_kept_all_of_them_away(
        self, worlds: list[InPlaceWorld], called_off: bool
    ) -> None:
        """With all pods stopped for the restore, no member could say whether the version may
        change."""

        def happens(world: InPlaceWorld) -> None:
            world.edit(version="3.6.16", pod={"labels": {"a": "b"}})
            if called_off:
                world.restore = None
            drive(world, idle=8, limit=MOST)
            assert world.etcd is not None
            assert world.etcd.leader
            assert len(world.serving()) == 3

        self.each(worlds, happens)

    @pytest.mark.parametrize("what", ["job", "claim", "both"])
    def test_what_it_works_with_is_lost(self, small: list[InPlaceWorld], what: str) -> None:
        def happens(world: InPlaceWorld) -> None:
            old = world.record.cluster_id
            taken = world.record.restored_by == "uid-r"
            if what != "claim":
                world.job = None
            if what != "job" and not taken:
                world.claims.pop(1, None)
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert taken or world.record.cluster_id != old
            assert data_of(world, world.record.cluster_id) == [0]

        self.each(small, happens)

    def test_the_secret_is_lost(self, worlds: list[InPlaceWorld]) -> None:
        """The result is never empty: the old data runs, or the new data, or the cluster holds."""

        def happens(world: InPlaceWorld) -> None:
            world.body["status"]["clusterID"] = identity.to_hex(world.record.cluster_id)
            known = {world.record.cluster_id}
            world.lose_secret()
            world.restore = None
            step = drive(world, idle=8, limit=MOST)
            assert isinstance(step, Settled | Hold), step
            assert world.record.cluster_id in known
            assert data_of(world, world.record.cluster_id)

        self.each(worlds, happens)

    def test_the_secret_is_lost_before_the_template_has_the_new_epoch(self) -> None:
        """Its write may be refused. The status is right, and no pod of the old cluster may run."""
        world = running(3)
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        restored = world.record.cluster_id
        world.body["status"] = {"clusterID": identity.to_hex(restored)}
        world.lose_secret()
        world.restore = None

        drive(world, idle=8, limit=MOST)

        assert world.record.cluster_id == restored
        assert world.serving() == {3}

    def test_a_claim_of_which_no_record_was_left_ran_beside_the_restored_cluster(self) -> None:
        """The Secret was lost, and the restore began again, at another ordinal and with the same
        epoch. So a pod on the first claim started without a ticket, and clients wrote to both."""
        world = running(3)
        first = world.record.cluster_id
        world.body["status"] = {"clusterID": identity.to_hex(first)}
        until_filled(world)
        world.lose_secret()

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Hold)
        assert step.reason == "RestoreRefused"
        assert "claim data-c-3 holds epoch 2 of another etcd cluster" in step.message
        assert "if you do not need its data, delete the claim" in step.message
        assert world.record.cluster_id == first
        assert world.serving() == {0, 1, 2}
        del world.claims[3]
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"

    def test_a_recovery_was_offered_for_a_pod_on_such_a_claim(self) -> None:
        """The other members serve, and it is a claim that may be deleted."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        until_filled(world)
        world.lose_secret()
        world.restore = None
        world.edit(size=4)

        drive(world, idle=8, limit=MOST)
        seen = world.observe()
        pod, held = seen.pod(3), world.member_record(3)
        assert pod is not None
        assert pod.answer is not None
        assert held is not None
        found = replace(pod.answer.finding, epoch=held.epoch, cluster_id=held.cluster_id)
        told = replace(pod, answer=replace(pod.answer, finding=found))
        pods = tuple(told if one is pod else one for one in seen.pods)

        step = decide(replace(seen, pods=pods))

        assert isinstance(step, Hold)
        assert step.reason == "ForeignData"
        assert "delete claim data-c-3 with its data" in step.message
        assert "recovery" not in step.message

    def test_a_recovery_waits_until_such_a_claim_is_deleted(self) -> None:
        """It would begin the same epoch, and its pod would start once there are four members."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        until_filled(world)
        world.lose_secret()
        world.restore = None
        assert drive(world, idle=8, limit=MOST) == Settled()
        world.wipe(0, 1)
        drive(world, idle=3)
        RecoveryWorld.ask(world, 2)

        step = drive(world, idle=8)

        assert isinstance(step, Hold)
        assert step.reason == "RecoveryRefused"
        assert "claim data-c-3 holds epoch 2 of another etcd cluster" in step.message
        del world.claims[3]
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_recovery_started_a_pod_on_the_volume_of_a_restore(self) -> None:
        """A size that waits for the restore was reached at once, as there was no member list. The
        recovery began the epoch of the restore's volume, so that would have served."""
        world = running(3)
        until_filled(world)
        world.wipe(0, 1)
        for _ in range(3):
            world.turn()
        world.edit(size=5)
        RecoveryWorld.ask(world, 2)

        for _ in range(60):
            step = decide(world.observe())
            if is_write(step):
                world.apply(step)
            world.turn()  # the StatefulSet controller does not wait for the operator
        assert world.record.epoch == 3
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_recovery_waited_for_a_restore_that_could_not_end(self) -> None:
        """Its Job could not reach the store, and the message said to delete the pod of a node that
        is off. The Job made another one each time."""
        world = running(3)
        world.job_runs = False
        world.ask()
        world.apply(go(world, lambda step: isinstance(step, CreateJob)))
        world.strangers = ("c-restore-x7k2p",)
        world.wipe(0, 1)
        for _ in range(3):
            world.turn()
        RecoveryWorld.ask(world, 2)

        def each(step: Step) -> None:
            if isinstance(step, DeleteJob):
                world.strangers, world.job_runs = (), True

        assert drive(world, idle=8, limit=MOST, each=each) == Settled()
        assert world.record.epoch == 3
        assert world.record.restored_by == "uid-r"

    def test_a_restore_that_was_cancelled_deleted_the_job_of_a_recovery(self) -> None:
        """Again and again, as long as something kept the claim of the restore."""
        world = running(3)
        until_filled(world)
        world.wipe(0, 1)
        for _ in range(3):
            world.turn()
        RecoveryWorld.ask(world, 2)
        world.apply(go(world, lambda step: isinstance(step, CreateJob)))
        world.restore = None
        world.stuck_claims = {3}
        world.job_runs = False

        rest = drive(world, idle=8)

        assert isinstance(rest, Wait)
        assert "Job c-recovery to make a cluster of one" in rest.reason
        world.job_runs = True
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.epoch == 2

    @pytest.mark.parametrize("size", [3, 5])
    def test_the_volume_of_a_restore_ran_beside_a_recovery_whose_record_was_lost(
        self, size: int
    ) -> None:
        """The recovery had begun the epoch of that volume. Without its record, its claim counted as
        a member's, and its pod served beside the survivor."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        until_filled(world)
        world.wipe(0, 1)
        for _ in range(3):
            world.turn()
        world.edit(size=size)
        RecoveryWorld.ask(world, 2)
        go(world, lambda step: "recorded with epoch" in getattr(step, "reason", ""))
        world.apply(decide(world.observe()))
        world.lose_secret()

        for _ in range(40):
            step = decide(world.observe())
            if is_write(step):
                world.apply(step)
            world.turn()

        world.restore = None
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert len(data_of(world, world.record.cluster_id)) == size

    @pytest.mark.parametrize("state", ["failed", "running", "complete"])
    def test_a_claim_that_was_deleted_under_its_job_stayed_for_ever(self, state: str) -> None:
        """Kubernetes keeps it for the pod of the Job, also for one that has ended."""
        world = running(3)
        world.ask()
        job = until_job(world)
        world.job = replace(job, state=state)
        world.claims[3].deleting = True
        world.stuck_claims = {3}

        assert isinstance(decide(world.observe()), DeleteJob)
        world.apply(decide(world.observe()))

        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by

    def test_a_recovery_began_the_epoch_of_a_cancelled_restore_off_the_record(self) -> None:
        """A finalizer kept its claim, and the Secret was lost: nothing but the claim told of it."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        until_filled(world)
        world.stuck_claims = {3}
        world.restore = None
        go(world, lambda _: 3 in world.claims and world.claims[3].deleting)
        world.wipe(0, 1)
        world.lose_secret()
        world.turn()
        world.apply(decide(world.observe()))
        assert world.record.epoch == 1
        RecoveryWorld.ask(world, 2)

        assert drive(world, idle=8, limit=MOST) == Settled()

        assert (world.record.epoch, world.epoch_on(3)) == (3, 2)

    def test_a_member_with_a_damaged_record_kept_pods_from_being_stopped_for_good(self) -> None:
        """Beyond spec.size, its claim counted as that of a restore once the pods were stopped. Then
        the restore was refused, and they were started again, over and over."""
        world = running(3)
        world.ask()
        world.apply(go(world, is_stop))
        world.edit(size=1)
        world.claims[2].annotations |= {naming.EPOCH: "?"}

        rest = drive(world, idle=8, limit=MOST)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"
        assert world.record.restored_by == "uid-r"

    def test_another_restore_began_the_epoch_of_a_cancelled_one_with_a_damaged_record(self) -> None:
        """The pod of the claim that it had filled could then run beside the restored cluster."""
        world = running(3)
        until_filled(world)
        world.claims[3].annotations |= {naming.EPOCH: "?"}
        world.claims[3].resource_version += 1000
        world.restore = None
        drive(world, idle=3)
        world.ask()

        drive(world, idle=3)

        assert world.record.successor is None
        told = restoring(world.observe())
        assert "claim data-c-3 may be of a restore that was cancelled" in str(told)
        del world.claims[3]
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"

    def test_the_replaced_cluster_came_back_beside_the_restored_one(self) -> None:
        """The Secret was lost before the status named the restored cluster. The record was rebuilt
        for the old one, and its pods ran again when they were recreated."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        world.ask()
        go(world, lambda step: "claim data-c-0 is deleted" in getattr(step, "reason", ""))
        restored = world.record.cluster_id
        world.lose_secret()

        step = drive(world, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert "into status.clusterID" in step.message
        world.body["status"] = {"clusterID": identity.to_hex(restored)}
        for ordinal in range(3):
            world.restart_pod(ordinal)
            drive(world, idle=2)
        assert world.record.cluster_id == restored
        assert world.serving() == {3}

    def test_the_message_asked_for_the_id_of_the_replaced_cluster_and_refused_it(self) -> None:
        """It said to put in "the right cluster ID", whichever data is right. The replaced data
        cannot run any more, so its ID changed nothing, and the message stayed the same."""
        world = running(3)
        old = world.record.cluster_id
        world.ask()
        go(world, lambda step: "claim data-c-0 is deleted" in getattr(step, "reason", ""))
        restored = identity.to_hex(world.record.cluster_id)
        world.lose_secret()
        world.body["status"] = {"clusterID": identity.to_hex(old)}

        step = drive(world, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert f"put {restored} into status.clusterID" in step.message
        world.body["status"] = {"clusterID": restored}
        while isinstance(step := drive(world, idle=3), Hold) and step.reason == "ForeignData":
            named = re.search(r"delete claim data-c-(\d) with its data", step.message)
            assert named, step.message
            world.empty(int(named[1]))
        assert step == Settled()
        assert data_of(world, world.record.cluster_id) == [0, 1, 2]
        assert identity.to_hex(world.record.cluster_id) == restored

    def test_a_scaled_up_stateful_set_ran_the_replaced_cluster_beside_the_restored_one(
        self,
    ) -> None:
        """Between the takeover and the next template its pods were of the old one, and their
        members started with their data."""
        world = running(3)
        world.ask()
        world.apply(go(world, lambda step: "it starts with c-3" in getattr(step, "reason", "")))
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 3
        for _ in range(4):
            world.turn()
        assert [one for one, _ in world.running()] == [0, 1, 2]

        assert drive(world, idle=8, limit=MOST) == Settled()

        assert data_of(world, world.record.cluster_id) == [0, 1, 2]
        assert len(world.claims) == 3

    @pytest.mark.parametrize("with_stateful_set", [True, False])
    def test_the_restored_cluster_was_started_beside_the_one_that_still_ran(
        self, *, with_stateful_set: bool
    ) -> None:
        """The Secret was lost before the takeover, and the human chose the restored data. That etcd
        of the other cluster has to be stopped was said, but not waited for."""
        world = running(3)
        until_filled(world)
        world.lose_secret()
        if not with_stateful_set:
            world.delete_stateful_set()
        restored = world.claims[3].annotations[naming.CLUSTER_ID]
        world.body["status"] = {"clusterID": restored}

        step = drive(world, idle=8)

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        way = "scale StatefulSet c to 0" if with_stateful_set else "delete pods c-0, c-1, c-2"
        assert f"{way}, and the record is rebuilt" in step.message
        if with_stateful_set:
            world.alter("StatefulSet", "c")["spec"]["replicas"] = 0
        for pod in world.pods.values():
            pod.deleting = True
        drive(world, idle=8)
        assert identity.to_hex(world.record.cluster_id) == restored
        assert world.serving() == {3}

    def test_a_deleted_claim_that_stays_kept_the_restored_member_down(self) -> None:
        """The StatefulSet controller created no pod above it, and the plan said for ever that the
        restored cluster was about to serve. Now the members are not even stopped."""
        world = running(3)
        world.stuck_claims = {1}
        world.empty(1)
        drive(world, idle=3)
        world.ask()

        step = drive(world, idle=8, limit=MOST)

        assert step == Wait(f"pod c-1 to be created; it waits for {claim_gone(1).reason}")
        assert world.serving() == {0, 2}
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"

    def test_a_claim_that_is_deleted_as_the_members_stop_is_waited_for_and_named(self) -> None:
        world = running(3)
        world.stuck_claims = {1}
        world.ask()
        go(world, is_stop)
        world.claims[1].deleting = True

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Wait)
        assert "claim data-c-1 to be gone: until then pod c-3" in step.reason
        assert not world.record.retired, "and can still be cancelled"

    @pytest.mark.parametrize("goes_on", [False, True])
    def test_the_cluster_is_deleted_and_adopted(
        self, worlds: list[InPlaceWorld], *, goes_on: bool
    ) -> None:
        """All claims stay, the old ones and the new one. A human decides which data is adopted, and
        an EtcdRestore that still exists names that data. It had begun before the claims were
        adopted, and left them over when it was done."""

        def happens(world: InPlaceWorld) -> None:
            if world.record.restored_by:
                return
            old, again = world.record.cluster_id, deleted_and_adopted(world)
            again.restore = world.restore if goes_on else None
            held = drive(again, idle=8, limit=MOST)
            if 3 in world.claims and world.member_record(3):
                assert isinstance(held, Hold)
                assert held.reason == "SplitBrain"
                assert f"data-c-0 says {identity.to_hex(old)}" in held.message
                assert again.history == []
                again.body["status"]["clusterID"] = identity.to_hex(old)
                assert drive(again, idle=8, limit=MOST) == Settled()
            assert (again.record.restored_by == "uid-r") is goes_on
            if not goes_on:
                assert data_of(again, old) == [0, 1, 2]

        self.each(worlds, happens)

    def test_a_member_restarts(self, worlds: list[InPlaceWorld]) -> None:
        def happens(world: InPlaceWorld) -> None:
            if 1 in world.pods:
                world.restart_pod(1)
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert world.record.restored_by == "uid-r"

        self.each(worlds, happens)

    def test_another_backup_is_named(self, small: list[InPlaceWorld]) -> None:
        def happens(world: InPlaceWorld) -> None:
            taken = world.record.restored_by == "uid-r"
            assert world.restore is not None
            world.restore["spec"]["s3"] = {"path": "mybucket/another", "awsSecret": "aws"}
            world.restore["metadata"]["generation"] += 1
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert world.record.restored_by == "uid-r"
            if not taken:
                assert "another" in str(world.jobs[-1])

        self.each(small, happens)

    def test_the_cluster_grows(self, worlds: list[InPlaceWorld]) -> None:
        """It grows into the very ordinal whose volume is being filled."""

        def happens(world: InPlaceWorld) -> None:
            old = world.record.cluster_id
            taken = world.record.restored_by == "uid-r"
            world.edit(size=5)
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert taken or world.record.cluster_id != old
            assert len(data_of(world, world.record.cluster_id)) == 5

        self.each(worlds, happens)

    def test_the_cluster_shrinks(self, worlds: list[InPlaceWorld]) -> None:
        def happens(world: InPlaceWorld) -> None:
            world.edit(size=1)
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert world.record.restored_by == "uid-r"
            assert data_of(world, world.record.cluster_id) == [0]

        self.each(worlds, happens)

    def test_another_restore_replaces_it(self, small: list[InPlaceWorld]) -> None:
        def happens(world: InPlaceWorld) -> None:
            taken = world.record.restored_by
            if not taken:
                world.ask(uid="uid-s")
            assert drive(world, idle=8, limit=MOST) == Settled()
            assert world.record.restored_by == (taken or "uid-s")

        self.each(small, happens)

    def test_it_is_reported(self, small: list[InPlaceWorld]) -> None:
        def happens(world: InPlaceWorld) -> None:
            told = restoring(world.observe())
            assert told is not None
            assert told["uid"] == "uid-r"
            assert told["message"]
            assert told["state"] in ("Working", "Done")
            assert ("source" in told) == ("generation" not in told)

        self.each(small, happens)
