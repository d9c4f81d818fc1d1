"""A restore in place: its steps, and what may happen at each of them.

`inplace_world` checks every write against the rules: no pod is stopped before its successor is on a
disk, and no old volume is deleted before the successor serves.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from inplace_world import InPlaceWorld, chain, running
from recovery_world import RecoveryWorld
from restore_world import FIRST, backup, place
from world_api import Volume
from worlds import OLDER, UID, Data, body, claim_gone, drive, is_write, labels, until

from etcd_stateful import identity, naming
from etcd_stateful.api.tls import Trust
from etcd_stateful.jobs.restore import BUMP
from etcd_stateful.membership.epochs import in_place, in_place_request
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    CreateJob,
    DeleteClaim,
    DeleteJob,
    Hold,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.objects import Job
from etcd_stateful.observed.put_off import PutOff
from etcd_stateful.records import takeover
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.successor import bump, raised_by
from etcd_stateful.status.restore_progress import restoring

MOST = 600


def data_of(world: InPlaceWorld, cluster_id: int) -> list[int]:
    found = ((one, world.claims[one].data) for one in sorted(world.claims))
    return [ordinal for ordinal, data in found if data and data.cluster_id == cluster_id]


def deleted_and_adopted(world: InPlaceWorld) -> InPlaceWorld:
    """The cluster is deleted and declared again under its name, to adopt the old data."""
    following = InPlaceWorld(body(3, uid="uid-again", retainedClaims={"adopt": UID}))
    for left in ("claims", "etcds", "ticketed", "epochs", "filled", "replaced", "_count"):
        setattr(following, left, getattr(world, left))
    following.body.setdefault("status", {})
    return following


def go(world: InPlaceWorld, stop: Callable[[Step], bool], most: int = MOST) -> Step:
    """Continues until just before the first step of that kind."""
    for _ in range(most):
        step = decide(world.observe())
        if stop(step):
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(labels(world.history[-8:]))


def is_stop(step: Step) -> bool:
    kind, manifest = getattr(step, "kind", ""), getattr(step, "manifest", {})
    return kind == "StatefulSet" and manifest["spec"]["replicas"] == 0


def test_a_late_job_filled_the_claim_of_a_member_that_was_added_since() -> None:
    """Its pod waited for a claim with that name, and created a cluster of one with the ID of this
    cluster."""
    world = running(3)
    world.ask()
    job = until_job(world)
    assert drive(world, idle=8, limit=MOST) == Settled()
    world.edit(size=4)
    late = replace(world.observe(), job=job)

    assert isinstance(decide(late), DeleteJob)
    assert isinstance(decide(replace(late, job=replace(job, deleting=True))), Wait)
    assert is_write(decide(replace(late, job=replace(job, stranger="another cluster"))))


def test_the_first_volume_lay_where_the_cluster_was_about_to_grow() -> None:
    """The write of the StatefulSet was put off, and then the quorum was lost. Later a pod was
    created on the volume that the restore fills."""
    world = running(3)
    world.edit(size=5)
    world.apply(decide(world.observe()))
    grow = decide(world.observe())
    assert labels([grow]) == ["StatefulSet c"]
    world.cut_off = True
    world.edit(size=3)
    world.ask()
    off = {(grow.kind, grow.name): PutOff(grow.manifest, "refused")}

    world.apply(decide(replace(world.observe(), put_off=off)))

    assert world.record.successor.ordinal == 5


def test_the_number_of_members_stays_recorded_while_all_are_stopped() -> None:
    """The member list may be old, and the size may have been edited."""
    world = running(3)
    world.ask()
    go(world, is_stop)
    seen = world.observe()
    assert seen.etcd is not None
    shrunk = replace(seen.etcd, members=seen.etcd.members[:1])

    assert (
        replicas.record(replace(seen, cluster=replace(seen.cluster, size=1), etcd=shrunk)) is None
    )


def until_job(world: InPlaceWorld) -> Job:
    go(world, lambda _: world.job is not None)
    assert world.job is not None
    return world.job


class TestTheWholeChain:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
    def test_another_cluster_serves_under_the_same_names(self, size: int) -> None:
        world = running(size)
        old, epoch = world.record.cluster_id, world.record.epoch
        world.ask()

        assert drive(world, idle=8, limit=MOST) == Settled()

        record = world.record
        assert record.cluster_id != old
        assert (record.epoch, record.retired, record.successor) == (epoch + 1, (), None)
        assert sorted(world.pods) == sorted(world.claims) == list(range(size))
        assert not data_of(world, old)
        assert len(world.etcd.voters if world.etcd else ()) == size
        assert len(world.jobs) == 1

    def test_the_cluster_serves_until_all_of_the_backup_is_on_a_disk(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "Job c-restore to restore" in step.reason
        assert world.serving() == {0, 1, 2}
        assert not world.claims[3].data

    def test_the_first_member_is_removed_when_all_others_have_its_data(self) -> None:
        """Until then, writes are on as many volumes as there are."""
        world = running()
        world.ask()
        drive(world, idle=8, limit=MOST)

        changes = [one for one in labels(world.history) if one.startswith(("promote", "remove"))]
        assert changes == ["promote c-0", "promote c-1", "promote c-2", "remove c-3"]

    def test_the_first_member_stays_while_the_others_are_silent(self) -> None:
        """Silent for a moment only. It was removed, and only one volume had the writes of that
        time."""
        world = running()
        world.ask()
        world.apply(until(world, "promote c-0"))
        for ordinal in (1, 2):
            world.pods[ordinal].silent = True

        assert decide(world.observe()) == Wait("pod c-1 to answer from its init container start")

    def test_it_is_done_once(self) -> None:
        """The EtcdRestore still names a cluster that no longer exists."""
        world = running()
        world.ask()
        drive(world, idle=8, limit=MOST)
        now = world.record

        assert drive(world, idle=3) == Settled()
        assert world.record == now
        told = restoring(world.observe())
        assert told is not None
        assert (told["uid"], told["state"]) == ("uid-r", "Done")
        assert told["source"] == "s3://mybucket/etcd.backup"

    def test_a_restore_that_names_another_cluster_id_does_nothing(self) -> None:
        world = running()
        world.ask(cluster_id="00000000000000ab")
        before = len(world.history)

        assert drive(world, idle=3) == Settled()
        assert len(world.history) == before
        assert restoring(world.observe()) is None

    def test_a_finished_restore_requests_nothing(self) -> None:
        world = running()
        for status in ({"succeeded": True}, {"succeeded": False, "observedGeneration": 1}):
            world.ask()
            assert world.restore is not None
            world.restore["status"] = status
            assert decide(world.observe()) == Settled(), status

    def test_an_etcdbackup_is_looked_up_once(self) -> None:
        world = running()
        world.ask(backupRef={"name": "b"})
        step = drive(world, idle=3)
        assert isinstance(step, Hold)
        assert "EtcdBackup b does not exist" in step.message

        world.backups["b"] = backup()
        go(world, lambda one: isinstance(one, CreateJob))
        del world.backups["b"]
        taking = world.record.successor
        assert taking is not None
        assert taking.store == replace(place(FIRST))

        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"


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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        assert "spec.recovery" not in step.message

    def test_a_recovery_waits_until_such_a_claim_is_deleted(self) -> None:
        """It would begin the same epoch, and its pod would start once there are four members."""
        world = running(3)
        world.body["status"] = {"clusterID": identity.to_hex(world.record.cluster_id)}
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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
        world.ask()
        go(world, lambda step: "holds the data of the backup" in getattr(step, "reason", ""))
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


class TestWhatFails:
    def test_an_incomplete_backup_stops_no_pod(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)
        assert world.job is not None
        world.job = replace(world.job, state="failed", trouble="refused: etcd's hash")

        step = drive(world, idle=2)

        assert isinstance(step, Hold)
        assert (step.reason, "etcd's hash" in step.message) == ("RestoreFailed", True)
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], told["generation"]) == ("Failed", 1)
        assert world.serving() == {0, 1, 2}
        assert not any(map(is_stop, world.history))
        # Once it has been reported, nothing is left of it.
        assert world.restore is not None
        world.restore["status"] = {"succeeded": False, "observedGeneration": 1}
        assert drive(world, idle=8) == Settled()
        assert (sorted(world.claims), world.job) == ([0, 1, 2], None)
        assert world.serving() == {0, 1, 2}

    def test_a_claim_that_blocked_it_was_named_without_a_way_out(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)
        seen = world.observe()
        [mine] = [claim for claim in seen.claims if claim.ordinal == 3]
        assert mine.record is not None
        other = replace(mine, record=replace(mine.record, cluster_uid="other", cluster_id=7))
        claims = tuple(other if claim is mine else claim for claim in seen.claims)

        step = decide(replace(seen, claims=claims))

        assert isinstance(step, Hold)
        assert step.reason == "RestoreFailed"
        assert "claim data-c-3 holds another member's data" in step.message
        assert "delete the claim" in step.message

    def test_a_failure_does_not_prevent_the_replacement_of_a_lost_member(self) -> None:
        """The cluster's own repair does not wait for the restore."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)

        world.wipe(2)
        drive(world, idle=8)

        assert world.serving() == {0, 1, 2}
        assert len(data_of(world, world.record.cluster_id)) == 3

    def test_the_old_claims_stay_until_the_restored_cluster_serves(self) -> None:
        world = running()
        old = world.record.cluster_id
        world.ask()
        world.stuck.add(3)

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Wait)
        assert "c-3 to serve the restored data" in step.reason
        assert "claims data-c-0, data-c-1, data-c-2 of the replaced cluster are kept" in step.reason
        assert data_of(world, old) == [0, 1, 2]
        world.stuck.clear()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert not data_of(world, old)

    def test_a_pod_that_a_deleted_claim_kept_away_was_waited_for_without_saying_so(self) -> None:
        """An old claim was deleted, and a finalizer kept it: it was said to be kept until the
        restored cluster serves, which it kept from serving."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        world.stuck_claims = {1}
        world.claims[1].deleting = True

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Wait)
        assert step.reason.startswith("claim data-c-1 to be gone: until then pod c-3 is not")
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_pod_that_is_refused_was_waited_for_without_saying_so(self) -> None:
        """Until it is created nobody is served. A policy or a quota may keep it away."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        seen = world.observe()
        assert seen.pod(3) is None

        step = in_place.clean_up(seen)

        assert isinstance(step, Wait)
        assert step.reason.startswith(
            "c-3 to serve the restored data (its pod has yet to be created; the Events of "
            "StatefulSet c say what keeps it); until then claims data-c-0"
        )

    def test_a_claim_that_is_being_deleted_was_said_to_be_kept(self) -> None:
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.claims[1].deleting = True

        step = in_place.clean_up(world.observe())

        assert isinstance(step, Wait)
        assert "c-3 to serve the restored data; until then claims data-c-0, data-c-2" in step.reason

    @pytest.mark.parametrize(
        ("note", "text", "reason"),
        [
            (naming.CLAIM_UID, "of-the-claim-it-was-copied-from", "ClaimRestored"),
            (naming.EPOCH, "?", "ClaimRecordDamaged"),
        ],
    )
    def test_an_old_claim_that_was_deleted_by_hand_broke_a_rule(
        self, note: str, text: str, reason: str
    ) -> None:
        """The operator leaves it alone, so a human deletes it, as a condition says. While a
        finalizer keeps it, no pod runs on it: nothing of the restore is left to do."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        world.claims[1].annotations[note] = text
        held = drive(world, idle=3)
        assert isinstance(held, Hold)
        assert (held.reason, "delete the claim" in held.message) == (reason, True)
        assert world.record.retired, "not over while the claim is there"

        world.stuck_claims = {1}
        world.empty(1)
        drive(world, idle=3)

        assert not world.record.retired
        assert 1 in world.claims.keys() - world.pods.keys()
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_lost_quorum_was_reported_as_a_cluster_that_has_yet_to_serve(self) -> None:
        """As long as an old claim could not be deleted, for example on a dead node."""
        world = running()
        kept, old = world.claims[2].annotations, world.record.cluster_id
        world.ask()
        assert drive(world, idle=8, limit=MOST) == Settled()
        world.secret = (world.secret[0], replace(world.record, retired=(old,)))
        world.claims[2].annotations = kept | {naming.CLAIM_UID: world.claims[2].uid}
        world.claims[2].deleting = world.pods[2].deleting = True

        for ordinal in (0, 1):
            world.claims[ordinal].data = None
            world.run_start(ordinal)
        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"

    def test_users_in_the_backup_that_lock_the_operator_out_are_reported(self) -> None:
        """The status said for good that the cluster was about to serve, and never what to do."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)

        seen = replace(world.observe(), denied="user name is empty")
        step = decide(seen)

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationRefused"
        assert "user name is empty" in step.message

    def test_a_restored_cluster_that_is_lost_before_it_serves_can_be_restored_again(self) -> None:
        world = running()
        first = world.record.cluster_id
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        second = world.record.cluster_id
        world.claims[3].data = None
        world.claims[3].deleting = True
        world.pods[3].deleting = True

        step = drive(world, idle=8)
        assert isinstance(step, Hold)
        assert f'spec.replace.clusterID is "{identity.to_hex(second)}"' in step.message
        assert data_of(world, first) == [0, 1, 2]

        world.stuck.clear()
        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.cluster_id not in (first, second)
        assert len(data_of(world, world.record.cluster_id)) == 3
        assert not data_of(world, first)

    @pytest.mark.parametrize("how", ["emptied", "damaged"])
    def test_a_first_volume_that_start_finds_lost_was_waited_for(self, how: str) -> None:
        """Its claim was still there, so the cluster was said for ever to be about to serve."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.stuck.clear()
        if how == "emptied":
            world.claims[3].data = None
        else:
            world.claims[3].damaged = "the log is cut short"

        step = drive(world, idle=8)

        assert isinstance(step, Hold)
        assert step.reason == "RestoreFailed"
        assert "the restored cluster lost its volume before it served" in step.message
        assert (
            "claims data-c-0, data-c-1, data-c-2 of the replaced cluster are kept" in step.message
        )
        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_restored_cluster_that_never_serves_can_be_replaced_by_another(self) -> None:
        """For example if the backup is of a newer etcd, and no manifest says so."""
        world = running()
        first = world.record.cluster_id
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        second = world.record.cluster_id

        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.cluster_id not in (first, second)
        assert data_of(world, world.record.cluster_id) == [0, 1, 2]
        assert not [one for one in (first, second) if data_of(world, one)]

    def test_a_volume_of_neither_cluster_is_left_alone(self) -> None:
        """It has the name of an ordinal, and nobody has given it up."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000cd"
        world.claims[2].data = other = Data(UID, "c-2", 1, 0xCD)
        world.stuck.clear()
        drive(world, idle=8, limit=MOST)

        assert world.claims[2].data == other
        assert not world.claims[2].deleting
        assert world.serving() >= {0, 1}

    def test_a_pod_that_does_not_stop_is_waited_for(self) -> None:
        world = running()
        old = world.record.cluster_id
        world.ask()
        go(world, is_stop)
        world.apply(decide(world.observe()))
        world.turn()
        world.pods[1].deleting = world.pods[1].overdue = True

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "c-1 (its node does not confirm that it has stopped" in step.reason
        assert world.record.cluster_id == old

    def test_a_pod_without_its_labels_that_does_not_stop_is_waited_for(self) -> None:
        """The StatefulSet releases it, and its etcd still runs on an old volume."""
        world = running()
        old = world.record.cluster_id
        world.ask()
        go(world, is_stop)
        world.strangers = ("c-1",)

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "pods c-1 to stop" in step.reason
        assert "kubectl delete pod c-1, as nothing else stops it" in step.reason
        assert "delete the Node, or force-delete the pod" in step.reason
        assert (world.record.cluster_id, not world.pods) == (old, True)
        world.strangers = ()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_cluster_is_replaced_only_by_steps_that_are_decided_twice(self) -> None:
        """After the first of these writes the old volumes are useless."""
        world = running()
        world.ask()
        old = world.record.cluster_id
        steps = [
            go(world, is_stop),
            go(world, lambda one: isinstance(one, WriteBootstrap) and one.record.cluster_id != old),
        ]

        assert [is_final(one) for one in steps] == [True, True]

    def test_pending_operations_are_not_passed_on_to_the_new_cluster(self) -> None:
        """Its data is of the Job's version, and nothing has been requested of it."""
        world = running()
        world.ask()
        go(world, is_stop)
        record, taking = world.record, world.record.successor
        assert taking is not None
        busy = replace(record, declined=True, before="3.6.16", oldest="3.6.16", version="3.7.3")

        after = takeover.taken_over(busy, taking)

        assert (after.declined, after.before, after.oldest) == (False, "", "3.7.3")
        assert (after.successor, after.members, after.size) == (None, (), taking.ordinal + 1)

    def test_without_a_quorum_it_is_the_way_out(self) -> None:
        """All volumes are gone, and nobody knows the last revision."""
        world = running()
        world.wipe(0, 1, 2)
        step = drive(world, idle=3)
        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"
        old = world.record.cluster_id

        world.ask()
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.cluster_id != old
        assert len(data_of(world, world.record.cluster_id)) == 3

    def test_a_recovery_requested_beside_it_stopped_all_pods_for_nothing(self) -> None:
        """The recovery waited for a Job that could not run. If it had run, the backup would have
        won."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=3)
        assert world.job is not None
        world.wipe(1, 2)
        drive(world, idle=3)
        old = world.record.cluster_id

        RecoveryWorld.ask(world, 0)
        step = decide(world.observe())
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "spec.recovery asks" in told["message"]) == ("Held", True)
        for _ in range(MOST):
            if world.record.survivor:
                break
            world.apply(step) if is_write(step) else world.turn()
            step = decide(world.observe())

        assert (world.record.survivor, world.record.epoch) == ("c-0", 2)
        assert (world.record.cluster_id, data_of(world, old)) == (old, [0])

    def test_pods_are_stopped_before_a_version_that_is_edited_meanwhile_is_recorded(self) -> None:
        """The recorded version could be lower than the backup's, and no edit could correct that."""
        world = running()
        world.ask()
        go(world, is_stop)

        world.edit(version="3.7.2", pod={"labels": {"a": "b"}})
        seen = world.observe()
        trust = replace(seen.cluster.trust, peer="0123456789abcdef")

        assert is_stop(decide(seen))
        assert is_stop(decide(replace(seen, cluster=replace(seen.cluster, trust=trust))))

    def test_a_version_that_was_taken_back_just_then_got_data_of_the_newer_one(self) -> None:
        """The first volume was filled with the version that the members were changing to, and
        perhaps with data that only that can read. No edit could correct that any more."""
        world = running(version="3.6.16")
        world.edit(version="3.7.3")
        go(world, lambda _: world.record.version == "3.7.3")
        world.ask()
        go(world, is_stop)

        world.edit(version="3.6.16")

        assert is_stop(decide(world.observe()))
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert (world.record.version, world.record.retired) == ("3.6.16", ())

    @pytest.mark.parametrize("ended", [False, True])
    def test_each_turn_of_a_rotation_beside_it_began_the_download_again(self, ended: bool) -> None:
        """The Job mounts no certificates, and the spec had not been edited, as the reason said."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=3)
        seen = world.observe()
        assert seen.job is not None
        job = replace(seen.job, state="complete") if ended else seen.job
        trust = Trust(peer="0123456789abcdef")

        step = in_place.next_step(
            replace(seen, job=job, cluster=replace(seen.cluster, trust=trust))
        )

        assert isinstance(step, WriteBootstrap if ended else Wait), step

    def test_nothing_continues_while_paused(self) -> None:
        world = running()
        world.ask()
        world.edit(paused=True)
        before = len(world.history)
        drive(world, idle=2)

        assert len(world.history) == before
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "spec.paused" in told["message"]) == ("Held", True)


class TestWhatIsRefused:
    def test_seven_members_leave_no_free_ordinal(self) -> None:
        world = running(7)
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert step.reason == "RestoreRefused"
        assert "set spec.size to 5" in step.message
        assert world.record.successor is None

    def test_a_smaller_size_was_asked_for_where_only_a_claim_is_in_the_way(self) -> None:
        """Also of a cluster that was not as large, and whose size had never been more."""
        world = running(3)
        world.claims[6] = Volume("v-by-hand", 1, {})
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert "spec.size" not in step.message
        assert "claims data-c-6" in step.message

    def test_a_smaller_size_was_asked_for_where_restored_clusters_had_never_served(self) -> None:
        """Nothing removes their ordinals without a quorum, whatever the size is."""
        world = running(5)
        for first in (5, 6):
            world.ask(uid=f"uid-{first}")
            world.failing = {world.record.version}
            drive(world, idle=3)
            assert len(world.record.retired) == first - 4
        world.ask(uid="uid-7")

        told = restoring(world.observe())

        assert told is not None
        assert (told["state"], "set spec.size" in told["message"]) == ("Held", False)
        assert "restore into a new cluster" in told["message"]

    @pytest.mark.parametrize("size", [1, 3])
    def test_an_empty_dir_is_refused(self, size: int) -> None:
        """Its pods are not stopped: all data would be gone before the new data is proven."""
        world = running(size, pod={"emptyDir": {}})
        before, known = len(world.history), world.record
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert (step.reason, "emptyDir" in step.message) == ("RestoreRefused", True)
        assert (world.history[before:], world.record) == ([], known)
        assert world.serving() == set(range(size))
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "emptyDir" in told["message"]) == ("Held", True)

    def test_a_recovery_comes_first(self) -> None:
        world = running()
        world.ask()
        seen = world.observe()
        assert seen.secret is not None
        busy = replace(seen.secret, bootstrap=replace(world.record, survivor="c-1"))

        assert "recovery" in in_place_request.why_not(replace(seen, secret=busy))

    @pytest.mark.parametrize("word", [{}, {"adopt": OLDER}, {"discard": UID}])
    def test_a_claim_whose_adoption_was_taken_back_was_left_over(
        self, word: dict[str, str]
    ) -> None:
        """Its data is of the etcd cluster that is replaced, its record names the EtcdCluster of
        before: nothing would have deleted it when the restore was over."""
        world = deleted_and_adopted(running())
        world.stuck = {2}
        drive(world, idle=3)
        world.edit(retainedClaims=word)
        world.ask()

        drive(world, idle=3)

        told = restoring(world.observe())
        assert (world.serving(), world.record.successor) == ({0, 1}, None)
        assert told is not None
        assert told["state"] == "Held"
        assert f"data-c-2 must be adopted first (spec.retainedClaims.adopt: {UID})" in str(told)
        world.stuck = set()
        world.empty(2)
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"

    def test_a_claim_to_be_adopted_whose_record_was_damaged_was_left_over(self) -> None:
        """Until its record was corrected it counted as nobody's, and the cluster was replaced."""
        world = deleted_and_adopted(running())
        world.stuck = {2}
        drive(world, idle=3)
        sound = world.claims[2].annotations
        world.claims[2].annotations = sound | {naming.EPOCH: "?"}
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert (step.reason, world.record.successor) == ("ClaimRecordDamaged", None)
        told = restoring(world.observe())
        assert f"data-c-2 must be adopted first (spec.retainedClaims.adopt: {UID})" in str(told)
        world.claims[2].annotations = sound
        world.claims[2].resource_version += 1000
        world.stuck = set()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"
        assert UID not in {one.cluster_uid for one in world.observe().claims}

    def test_a_claim_of_another_cluster_is_never_deleted(self) -> None:
        """It is at the ordinal that the successor needs."""
        world = running()
        world.ask()
        until(world, "CreateJob")
        notes = world.claims[3].annotations
        notes[naming.CLUSTER_ID] = "00000000000000cd"
        world.claims[3].data = Data(UID, "c-3", 1, 0xCD)

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert not any(isinstance(one, DeleteClaim) for one in world.history)


class TestRevisions:
    @pytest.mark.parametrize(
        ("live", "last", "least"),
        [
            (0, 0, BUMP),
            (5000, 0, 5000 + BUMP),
            # After an earlier restore, the backup may be from before it, and the bump would be the
            # same.
            (BUMP + 40, BUMP, 2 * BUMP + 40),
            # Without any answer: that bump, and what its backup had from one before it.
            (0, BUMP, 2 * BUMP),
            (0, 3 * BUMP, 6 * BUMP),
            # Only a learner answers, which has not got the data yet.
            (1, 3 * BUMP, 6 * BUMP),
        ],
    )
    def test_begin_above_every_revision_that_was_ever_used(
        self, live: int, last: int, least: int
    ) -> None:
        assert bump(live, last) >= least

    def test_are_raised_by_what_members_report(self) -> None:
        world = running()
        world.revision = 7 * BUMP + 3
        world.ask()
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={8 * BUMP + 3}" in str(world.jobs[-1])

    @pytest.mark.parametrize(
        ("lies", "live", "raised"),
        [
            (6 * BUMP, 7 * BUMP + 3, 2 * BUMP + 3),
            (7 * BUMP + 3, 7 * BUMP + 3, BUMP),
            # It is another cluster's backup, or the members that answer know little: what was
            # reached is unknown.
            (7 * BUMP + 4, 7 * BUMP + 3, 8 * BUMP + 3),
            (0, 7 * BUMP + 3, 8 * BUMP + 3),
            (True, 7 * BUMP + 3, 8 * BUMP + 3),
        ],
    )
    def test_were_doubled_by_each_restore_of_an_own_backup(
        self, lies: int, live: int, raised: int
    ) -> None:
        """The backup's own revisions are already included. The record has what was reached."""
        world = running()
        world.revision = live
        world.backups["b"] = backup(etcdRevision=lies, sha256="ab")
        world.ask(backupRef={"name": "b"})
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={raised}" in str(world.jobs[-1])
        counted = live + BUMP - raised
        assert (f'"revision": {counted}' in str(world.jobs[-1])) is bool(counted), "it is compared"
        assert world.record.successor
        assert world.record.successor.bump == live + BUMP
        assert load_bootstrap(dump_bootstrap(world.record)) == world.record

    def test_of_a_backup_without_a_recorded_file_are_unknown(self) -> None:
        """Its status does not say which file its revision belongs to."""
        world = running()
        world.backups["b"] = backup(etcdRevision=world.revision)
        world.ask(backupRef={"name": "b"})
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={world.revision + BUMP}" in str(world.jobs[-1])

    def test_are_raised_by_everything_recorded_if_no_member_answers(self) -> None:
        """The backup's revision may be older, or from a cluster that had come further."""
        assert raised_by(0, 3 * BUMP, 2 * BUMP) == bump(0, 3 * BUMP)

    def test_went_back_behind_those_of_another_clusters_backup_that_was_restored_before(
        self,
    ) -> None:
        """Its own were higher than any that the members had reported. The world refuses it."""
        world = running()
        world.ask()
        go(world, lambda _: world.etcd is not None and bool(world.record.retired))
        world.revision = 1000 * BUMP
        assert drive(world, idle=8, limit=MOST) == Settled()
        world.wipe(0, 1, 2)

        world.ask(uid="again")
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.restored_by == "again"

    def test_of_an_older_record_are_raised_by_its_bump(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        text = dump_bootstrap(world.record)

        assert "raisedBy" not in text
        taking = load_bootstrap(text).successor
        assert taking is not None
        assert taking.raised_by == taking.bump


class TestTheRecord:
    def test_can_be_read_back_from_the_secret(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        taking = world.record.successor
        assert taking is not None
        record = replace(
            world.record, retired=(7, 8), restored_by="u", restored_from="b", bump=5,
            successor=replace(taking, claim="v1", backup="b"),
        )  # fmt: skip

        assert load_bootstrap(dump_bootstrap(record)) == record

    def test_of_most_clusters_says_nothing_of_it(self) -> None:
        text = dump_bootstrap(running().record)

        unknown = {"successor", "retired", "bump", "restoredBy", "restoredFrom"}
        assert not unknown & set(text.split('"'))

    def test_that_is_garbled_is_no_record(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        text = dump_bootstrap(world.record)

        for word, other in (
            ('"c-3"', '"c-x"'),
            ('"successor": {', '"successor": {"member": 1, "x": {'),
        ):
            assert word in text
            with pytest.raises(BadRecord):
                load_bootstrap(text.replace(word, other))
