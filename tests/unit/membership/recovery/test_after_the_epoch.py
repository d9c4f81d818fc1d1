"""Recovery from a lost quorum once the epoch is raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recovery_world import JOB, formed, lost
from worlds import claim_gone, drive

from etcd_stateful import naming
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    CreateJob,
    CreateSecret,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    Hold,
    RecordMember,
    Settled,
    Wait,
    WriteBootstrap,
)
from unit.membership.recovery.driving import (
    drive_until,
    first_id,
    hold,
    other_record,
    raised,
    wait,
    with_claim,
)


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
