"""Disturbances of a recovery that the model found: `tests/model/scenarios.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recovery_world import RecoveryWorld, formed, lost
from views import DOWN, TRIED_AGAIN, with_claim, with_pod
from worlds import OLDER, UID, drive, guess_version, is_write, labels, until

from etcd_stateful import identity, naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.manifests.start_settings import epoch_in
from etcd_stateful.membership.epochs import in_place_request, quorum, survivor
from etcd_stateful.membership.members import budget
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import roll, upgrade
from etcd_stateful.membership.steps import (
    DeleteClaim,
    DeletePod,
    Hold,
    Settled,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding


def recovered() -> RecoveryWorld:
    world = lost()
    world.ask(1)
    assert drive(world) == Settled()
    return world


def requested(seen: Observation, name: str) -> Recovery:
    return Recovery(name, recorded(seen).cluster_id, recorded(seen).epoch)


def waiting(seen: Observation, ordinal: int, finding: Finding, **change: Any) -> Observation:
    """The pod was recreated, and its `start` reports this finding."""
    statuses = {at: status for at, status in seen.statuses.items() if at != ordinal}
    said = {"in_start": True, "etcd_started": False, "ready": False}
    answer = StartAnswer("run", finding)
    return with_pod(replace(seen, statuses=statuses), ordinal, answer=answer, **said, **change)


class TestOutOfReach:
    """Nobody answers the operator, and no pod is Ready. A quorum may serve all the same."""

    def corrupt(self, size: int = 3) -> RecoveryWorld:
        world = formed(size)
        assert world.etcd is not None
        world.etcd.alarms = [Alarm("CORRUPT", world.etcd.voters[0])]
        world.cut_off = True
        return world

    def leaderless(self) -> RecoveryWorld:
        """Of three, one answers. A recovery with it is requested."""
        world = formed()
        for one in (0, 2):
            world.pods[one].silent = True
        world.turn()
        world.ask(1)
        return world

    def test_a_corrupt_cluster_out_of_reach_was_stopped_for_a_recovery(self) -> None:
        """Under CORRUPT no member is Ready, though it follows a leader and serves reads."""
        world = self.corrupt()
        assert not any(pod.ready for pod in world.observe().pods)
        world.ask(1)

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert "enough of c-0, c-1, c-2 to answer" in rest.reason
        assert "spec.recovery.fenced" in rest.reason
        assert world.serving() == {0, 1, 2}

    def test_two_stopping_nodes_away_from_kubernetes_count_too(self) -> None:
        world = self.corrupt()
        world.stuck = {2}
        world.wipe(2)
        world.turn()
        for one in (0, 1):
            world.pods[one].deleting = world.pods[one].overdue = True
            world.pods[one].trouble = "it was deleted and node n has not confirmed that it stopped"
        world.ask(1)

        assert "c-0, c-1 to answer" in str(decide(world.observe()))

    def test_one_voter_among_pods_that_have_yet_to_join_is_a_quorum(self) -> None:
        world = formed(1)
        world.edit(size=3)
        until(world, "add c-1")
        assert world.etcd is not None
        world.etcd.alarms = [Alarm("CORRUPT", world.etcd.voters[0])]
        world.cut_off = True
        world.ask(0)

        assert not survivor.halted(world.observe())

    def test_it_ends_once_the_operator_reaches_the_quorum(self) -> None:
        world = self.corrupt()
        world.ask(1)
        drive(world)
        world.cut_off = False

        drive(world)

        assert world.record.declined
        assert len(world.pods) == 3

    def test_a_silent_survivor_that_was_the_only_member_was_to_be_fenced(self) -> None:
        world = formed(1)
        world.cut_off = True
        world.turn()
        world.ask(0)
        seen = with_pod(world.observe(), 0, ready=False)

        step = decide(replace(seen, etcd=None, statuses={}))

        assert isinstance(step, Wait), step
        assert "c-0 to answer" in step.reason
        assert step.reason.endswith("for good, delete the Node, or force-delete the pod)")

    def test_fenced_pods_do_not_count(self) -> None:
        """The user knows that their nodes are off. Too few others run etcd for a quorum."""
        world = self.corrupt()
        world.ask(1, fenced=["c-0", "c-2"])

        assert survivor.halted(world.observe())

    def test_a_silent_survivor_alone_is_no_quorum(self) -> None:
        world = lost()
        world.cut_off = True
        world.ask(1)

        assert survivor.halted(world.observe())

    @pytest.mark.parametrize("why", ["crashing", "stranger", "in start"])
    def test_pods_without_an_etcd_of_this_cluster_do_not_count(self, why: str) -> None:
        world = self.corrupt()
        world.ask(1)
        seen = world.observe()
        if why == "stranger":
            seen = replace(seen, strangers={0: 7, 2: 7})
        for one in (0, 2):
            change = {"crashing": {"crashing": True}, "in start": {"in_start": True}}.get(why, {})
            seen = with_pod(seen, one, **change)

        assert survivor.halted(seen)

    def test_two_members_out_of_reach_were_stopped_as_the_third_had_no_leader(self) -> None:
        """They served on the other side of a split. What they acknowledged there was given up."""
        world = self.leaderless()

        step = decide(world.observe())

        assert isinstance(step, Wait), step
        assert "enough of c-0, c-2 to answer" in step.reason
        assert "list the pod in spec.recovery.fenced" in step.reason

    def test_silent_members_too_few_for_a_quorum_do_not_count(self) -> None:
        """The third crashes: its etcd serves nobody."""
        seen = with_pod(self.leaderless().observe(), 0, crashing=True)

        assert survivor.halted(seen)

    def test_silence_of_pods_that_stop_does_not_undo_the_recovery(self) -> None:
        world = self.leaderless()
        world.ask(1, fenced=["c-0", "c-2"])
        world.apply(decide(world.observe()))
        world.ask(1)
        seen = world.observe()
        assert seen.replicas == 0

        assert survivor.halted(replace(seen, statuses={}))


class TestBeforeTheEpochIsRaised:
    def test_a_quorum_of_stopping_pods_is_not_a_lost_quorum(self) -> None:
        """The operator had stopped all pods and was then cut off. The node that had been silent was
        back before they had stopped, and the pods that were Ready did not count any more."""
        world = formed()
        world.ask(1)
        seen = replace(world.observe(), etcd=None, statuses={})
        stopping = replace(seen, pods=tuple(replace(pod, deleting=True) for pod in seen.pods))

        assert any(pod.ready for pod in stopping.pods)
        assert survivor.accepted(stopping) is None

    def test_a_budget_created_while_all_pods_stop_keeps_a_quorum(self) -> None:
        """The recovery may still be taken back, and then the pods start with this budget."""
        world = lost()
        world.ask(1)
        seen = replace(world.observe(), disruption_budget=None)

        assert survivor.halted(seen)
        assert budget.min_available(seen) == 2


class TestVolumeAheadOfTheRecord:
    """The Secret was lost after the Job of a recovery had raised the epoch of c-1's volume, and
    before its claim said so. The record is of epoch 1 again, and the next recovery or restore
    begins epoch 2, in which that volume may run too: then two clusters served."""

    AHEAD = Finding("foreign-data", "the marker is of epoch 2, not 1", UID, 2, "c-1")

    def test_another_survivor_is_refused(self) -> None:
        seen = waiting(lost().observe(), 1, self.AHEAD)

        assert "the volume of c-1 holds epoch 2" in survivor.why_not(seen, requested(seen, "c-2"))
        assert "the volume of c-1" not in survivor.why_not(seen, requested(seen, "c-1"))

    def test_a_restore_in_place_is_refused(self) -> None:
        seen = lost().observe()

        assert in_place_request.why_not(seen) == ""
        refused = in_place_request.why_not(waiting(seen, 1, self.AHEAD))
        assert "request that recovery again or, if you do not need its data, delete" in refused

    @pytest.mark.parametrize("losses", [1, 2])
    def test_while_its_pod_could_not_be_scheduled_another_recovery_began_its_epoch(
        self, losses: int
    ) -> None:
        """Nothing reports the volume then. But the StatefulSet has the epoch before any volume, and
        a note of it afterwards."""
        world = lost(5, gone=(0, 2, 4))
        world.ask(1)
        world.apply(until(world, "CreateJob"))
        world.turn()
        assert world.epoch_on(1) == 2
        world.take_back()
        world.stuck = {1}
        for _ in range(losses):
            world.lose_secret()
            drive(world, idle=3)
        assert world.record.epoch == 1
        world.ask(3)

        drive(world, idle=3)

        assert world.epoch_on(3) == 3


class TestWhenTheSurvivorStarts:
    def test_the_survivor_is_waited_for_until_it_leads_itself(self) -> None:
        """It answered while the others waited with empty volumes, which looked like another lost
        quorum."""
        world = lost()
        world.ask(1)
        while True:
            step, seen = decide(world.observe()), world.observe()
            if world.record.epoch == 2 and not world.record.survivor and seen.statuses:
                break
            world.apply(step) if is_write(step) else world.turn()
        candidate = {at: replace(one, leader_id=0) for at, one in seen.statuses.items()}
        seen = replace(seen, etcd=None, statuses=candidate)
        seen = waiting(waiting(seen, 0, Finding("no-data")), 2, Finding("no-data"))

        step = decide(seen)

        assert list(candidate) == [1]
        assert isinstance(step, Wait), step
        assert "a quorum to answer" in step.reason

    def test_a_human_is_needed_if_the_members_that_joined_are_lost(self) -> None:
        world = recovered()
        seen = world.observe()
        alone = {1: replace(seen.statuses[1], leader_id=0)}
        seen = replace(seen, etcd=None, statuses=alone)
        seen = waiting(waiting(seen, 0, Finding("no-data")), 2, Finding("no-data"))

        step = decide(seen)

        assert isinstance(step, Hold), step
        assert step.reason == "QuorumLost"

    @pytest.mark.parametrize("answers", [True, False])
    def test_a_human_is_needed_if_the_members_that_joined_have_lost_their_claims(
        self, answers: bool
    ) -> None:
        """A claim without a record looks like one that never had a member. So this looked like a
        survivor that is about to start, and was waited for without end."""
        seen = recovered().observe()
        alone = {1: replace(seen.statuses[1], leader_id=0)} if answers else {}
        anew = [replace(one, uid=f"{one.uid}-anew", record=None) for one in seen.claims]
        claims = tuple(one if one.ordinal == 1 else anew[one.ordinal] for one in seen.claims)
        seen = replace(seen, etcd=None, statuses=alone, claims=claims)
        seen = waiting(waiting(seen, 0, Finding("no-data")), 2, Finding("no-data"))
        seen = with_pod(seen, 1, age=quorum.START_SECONDS, ready=False)

        step = decide(seen)

        assert isinstance(step, Hold), step
        assert step.reason == "QuorumLost"

    @pytest.mark.parametrize(
        ("change", "waits"),
        [({}, True), ({"trouble": "its volumes"}, True), (DOWN, False), (TRIED_AGAIN, False)],
    )
    def test_a_survivor_that_opened_a_large_database_was_to_be_recovered_once_more(
        self, change: dict[str, Any], waits: bool
    ) -> None:
        """Whoever did so started it over, each time."""
        world = lost()
        world.ask(1)
        while world.record.survivor or world.record.epoch == 1:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.stuck = {1}
        drive(world, idle=3)
        late = with_pod(world.observe(), 1, age=quorum.START_SECONDS, **change)

        step = decide(late)

        assert isinstance(step, Hold), step
        words = "if no other member has joined c-1 since the last recovery or restore, only wait"
        assert (words in step.message) is waits


class TestWhenOneNodeIsLeft:
    """It has room for one member. The scheduler places the pod that has waited longest."""

    def turn(self, world: RecoveryWorld) -> None:
        there = {one: pod for one, pod in world.pods.items() if not pod.deleting}
        placed = [one for one, pod in there.items() if pod.where != "pending"]
        waiting = sorted(there, key=lambda one: int(there[one].uid[1:]))
        world.stuck = set(range(7)) - {*(placed or waiting)[:1]}
        world.turn()

    def seen(self, world: RecoveryWorld) -> Observation:
        seen = world.observe()
        for one, pod in world.pods.items():
            seen = with_pod(seen, one, crowded_out=pod.where == "pending")
        return seen

    def test_a_new_pod_took_the_node_of_the_survivor_and_both_waited_for_good(self) -> None:
        """Two of three nodes were lost, and members were kept apart, as in the example for
        production. The pod of the lowest ordinal came first, and had to wait for the survivor."""
        world = lost(gone=(0, 1))
        world.ask(2)
        deleted = []
        for _ in range(300):
            step = decide(self.seen(world))
            if is_write(step):
                world.apply(step)
                deleted += [step.name] if isinstance(step, DeletePod) else []
            else:
                self.turn(world)

        assert world.serving() == {2}
        assert deleted == ["c-0", "c-1"]

    def test_pods_gave_way_to_one_that_may_get_its_node_or_is_no_survivor(self) -> None:
        world = lost(gone=(0, 1))
        world.ask(2)
        while not isinstance(step := decide(seen := self.seen(world)), DeletePod):
            world.apply(step) if is_write(step) else self.turn(world)
        record = seen.claims[2].record
        assert record is not None
        past = replace(record, epoch=record.epoch - 1)

        assert labels([roll.give_way(seen)]) == ["restart c-0"]
        assert roll.give_way(with_pod(seen, 2, age=29.0)) is None, "it has just begun to wait"
        assert roll.give_way(with_claim(seen, 2, record=past)) is None, "the recovery left it"
        assert roll.give_way(with_pod(seen, 1, ready=True)) is None, "a quorum serves"
        started = waiting(seen, 0, Finding("ticketed"))
        assert labels([roll.give_way(started)]) != ["restart c-0"], "it has had its ticket"

    def test_nothing_gives_way_twice_where_something_else_takes_the_room(self) -> None:
        world = recovered()
        world.wipe(0, 2)
        world.stuck = {1}
        world.restart_pod(1)
        deleted = []
        for _ in range(300):
            step = decide(with_pod(world.observe(), 1, crowded_out=True))
            if is_write(step):
                world.apply(step)
                deleted += [step.name] if isinstance(step, DeletePod) else []
            else:
                world.turn()

        assert sorted(deleted) == ["c-0", "c-2"]


class TestEarlierPodsAndVolumes:
    @pytest.mark.parametrize(
        "finding", [Finding("foreign-data", "the marker is of epoch 2, not 1"), Finding("no-data")]
    )
    def test_a_pod_of_an_earlier_epoch_is_recreated(self, finding: Finding) -> None:
        """It was restored with the other Kubernetes objects. It refused the ticket of this epoch,
        and was sent it again and again."""
        seen = recovered().observe()
        restored = waiting(seen, 0, finding, epoch=1, revision="of before")

        step = decide(restored)

        assert isinstance(step, DeletePod), step
        assert step.name == "c-0"

    def test_a_pod_without_an_epoch_is_left_alone(self) -> None:
        seen = with_pod(recovered().observe(), 0, revision="of before")

        assert decide(seen) == Settled()

    def test_a_volume_of_an_earlier_epoch_that_the_recovery_left_is_deleted(self) -> None:
        """The Secret was lost before the other claims were deleted, and with it the record that
        they were to be deleted."""
        seen = recovered().observe()
        assert seen.etcd is not None
        left = next(one for one in seen.claims if one.ordinal == 2)
        assert left.record is not None
        members = [one for one in seen.etcd.members if one.member_id != left.record.member_id]
        old = replace(left, record=replace(left.record, epoch=1))
        claims = tuple(old if one.ordinal == 2 else one for one in seen.claims)
        seen = replace(seen, claims=claims, etcd=replace(seen.etcd, members=tuple(members)))
        finding = Finding("foreign-data", "the marker is of epoch 1, not 2", epoch=1)
        seen = waiting(seen, 2, finding)

        step = decide(seen)

        assert isinstance(step, DeleteClaim), step
        assert step.name == "data-c-2"


def test_an_unrecorded_recovery_is_reported_with_what_to_do() -> None:
    """The Secret was lost while the Job ran, and with it everything that had the new epoch. The
    volume was reported as foreign, and not that the recovery can be requested again."""
    world = lost()
    del world.pods[1]
    world.make_alone(1, epoch=2)

    step = drive(world)

    assert isinstance(step, Hold), step
    assert step.reason == "ForeignData"
    assert "It belongs to a recovery that is no longer on record. Give the lost" in step.message
    assert "epoch 1 and the survivor that you choose: c-1 (" in step.message

    world.ask(1)

    assert drive(world) == Settled()


def test_another_recovery_was_offered_although_a_quorum_answers() -> None:
    """It was declined, and the volume was never mended."""
    world = formed()
    del world.pods[1]
    world.make_alone(1, epoch=2)

    step = drive(world)

    assert isinstance(step, Hold), step
    assert step.reason == "ForeignData"
    assert "with UID" not in step.message  # it is this very cluster's
    assert "spec.recovery" not in step.message
    assert "It belongs to a recovery that is no longer on record. A quorum answers" in step.message
    assert "delete claim data-c-1 with its data, and a new member takes its" in step.message

    world.empty(1)

    assert drive(world) == Settled()


@pytest.mark.parametrize(
    ("settings", "epoch"),
    [('{"epoch": 3}', 3), ("{}", None), ("no JSON", None), ('{"epoch": "3"}', None), (None, None)],
)
def test_the_epoch_of_a_pod_is_read_from_the_settings_of_its_start(
    settings: str | None, epoch: int | None
) -> None:
    start = {"name": "start", "env": [{"name": "START_SETTINGS", "value": settings}]}

    assert epoch_in({"initContainers": [start]}) == epoch
    assert epoch_in({}) is None


def test_a_recovery_began_with_data_that_its_pod_had_not_adopted_yet() -> None:
    """The cluster was created again with both fields. As soon as the survivor's claim was recorded,
    the recovery stopped the pod that waited for its ticket. The Job refused the marker of the
    deleted cluster; by then the epoch was raised, and no other member had data."""
    old = formed(3)
    asked = {
        "survivor": "c-1",
        "clusterID": identity.to_hex(old.record.cluster_id),
        "epoch": old.record.epoch,
    }
    world = old.remake(OLDER, retainedClaims={"adopt": UID}, recovery=asked)
    for ordinal in (0, 2):
        world.claims[ordinal].data = None

    world.apply(until(world, "record data-c-1"))
    refusal = world.observe()
    assert decide(refusal) == until(world, "push c-1 adopt")
    asked_for = refusal.cluster.recovery
    assert asked_for is not None
    assert survivor.why_not(refusal, asked_for) == (
        f"c-1 has not adopted its data from cluster {UID} yet (spec.retainedClaims.adopt)"
    )
    assert drive(world) == Settled()


def test_data_of_a_recovery_that_ended_with_its_cluster_could_not_be_adopted() -> None:
    """The Job had raised the epoch of the volume, and the claim was yet to be recorded with it. The
    record that was rebuilt for the next cluster had the claim's epoch, and the message no way out.
    """
    old = lost()
    old.ask(1)
    old.apply(until(old, "CreateJob"))
    old.turn()
    world = old.remake(OLDER, retainedClaims={"adopt": UID})

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "ForeignData"
    words = f'set annotation {naming.EPOCH} of claim data-c-1 to "2" and delete Secret c-start'
    assert words in rest.message
    claim = world.claims[1]
    claim.annotations, claim.resource_version = claim.annotations | {naming.EPOCH: "2"}, 999
    world.lose_secret()
    assert drive(world) == Settled()
    assert world.record.epoch == 2


def with_a_guess(wrong: str) -> RecoveryWorld:
    """Quorum and records were lost together, and the spec named another version than that of the
    data. A recovery has begun, and etcd fails in its Job."""
    world = lost(version="3.6.14")
    guess_version(world, wrong)
    world.ask(1)
    drive(world)
    assert (world.record.version, world.record.untried) == (wrong, True)
    assert world.job is not None
    assert world.job.etcd_crashing
    return world


@pytest.mark.parametrize("wrong", ["3.5.33", "3.7.3"])
def test_a_recovery_that_began_with_a_guessed_version_could_not_be_given_the_right_one(
    wrong: str,
) -> None:
    """No member runs during a recovery, so none was seen to fail, and with the epoch raised there
    was no way back. The plan only offered another survivor, with the same data."""
    world = with_a_guess(wrong)
    rest = decide(world.observe())
    assert isinstance(rest, Wait)
    assert f"etcd {wrong} is only assumed, as no record says which version wrote" in rest.reason
    assert "set spec.version to the version that they ran. If that cannot be mended" in rest.reason

    world.edit(version="3.6.14")

    assert drive(world) == Settled()
    assert {pod.version for pod in world.pods.values()} == {"3.6.14"}
    assert not world.record.untried


def test_in_a_recovery_a_guess_is_kept_until_etcd_fails_in_the_job() -> None:
    world = with_a_guess("3.7.3")
    world.edit(version="3.6.14")
    seen = world.observe()
    assert isinstance(decide(seen), WriteBootstrap)
    assert seen.job is not None

    slow = replace(seen, job=replace(seen.job, etcd_crashing=False, trouble="no node has room"))
    assert isinstance(decide(slow), Wait)
    assert seen.secret is not None
    known = replace(seen.secret, bootstrap=replace(world.record, untried=False))
    assert upgrade.replace_assumed_in_job(replace(seen, secret=known)) is None
