"""The learner: one at a time, promoted once it is ready, removed if it cannot become ready."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import (
    DOWN,
    TRIED_AGAIN,
    newest,
    seat,
    with_claim,
    with_members,
    with_pod,
    with_status,
    without_status,
)
from worlds import World, drive, formed, is_write, labels, until

from etcd_stateful.membership.members import learner
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import MemberPromote, MemberRemove, Settled, Step, Wait
from etcd_stateful.start.ticket import Finding

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def joining(size: int = 3, label: str = "promote c-3", **spec: object) -> World:
    """A cluster that grows by one, just before this step."""
    world = formed(size, **spec)
    world.edit(size=size + 1)
    world.history.clear()
    until(world, label)
    return world


@pytest.fixture(scope="module")
def ready() -> Observation:
    """A cluster whose learner c-3 has caught up."""
    return joining().observe()


class TestPromoted:
    def test_when_it_has_caught_up(self, ready: Observation) -> None:
        step = decide(ready)

        assert isinstance(step, MemberPromote)
        assert step.member_id == seat(ready, 3).member.member_id
        assert step.leader.member_id == ready.statuses[0].leader_id

    def test_at_once_when_it_runs_after_a_few_crashes(self, ready: Observation) -> None:
        """A learner is never Ready, and only Ready would end the state "being started again"."""
        assert isinstance(decide(with_pod(ready, 3, **TRIED_AGAIN)), MemberPromote)

    def test_not_before(self, ready: Observation) -> None:
        step = decide(with_status(ready, 3, applied_index=50))

        assert step == Wait("learner c-3 to catch up", soon=True)

    def test_an_edit_never_reached_a_learner_that_could_not_catch_up(self) -> None:
        """It may need the edit for that. Its pod was left alone, as it answers."""
        world = joining()
        world.edit(pod={"labels": {"a": "b"}})
        world.apply(decide(world.observe()))
        world.turn()
        seen = with_status(world.observe(), 3, applied_index=50)

        assert decide(seen) == Wait("learner c-3 to catch up", soon=True)
        assert labels([decide(with_pod(seen, 3, age=601.0))]) == ["restart c-3"]
        assert not is_write(decide(with_pod(seen, 3, age=601.0, revision=newest(seen))))

    def test_one_that_hears_no_leader_was_given_a_vote_that_the_quorum_needed(self) -> None:
        """I1: it had caught up before its pod was restarted, and has not reached the others since.
        It answers nevertheless."""
        world = joining()
        world.pods[1].silent = True
        seen = world.observe()
        assert isinstance(decide(seen), MemberPromote)

        step = decide(with_status(seen, 3, leader_id=0))

        assert step == Wait("learner c-3 to hear the leader", soon=True)

    def test_an_edit_that_was_taken_back_never_reached_one_that_hears_no_leader(self) -> None:
        """Not even with an emptyDir, to which it copies nothing then."""
        world = joining(**EMPTY_DIR)
        world.edit(pod={"emptyDir": {}, "labels": {"a": "b"}})
        world.apply(decide(world.observe()))
        world.turn()
        copies = with_status(with_pod(world.observe(), 3, age=601.0), 3, applied_index=50)

        assert decide(copies) == Wait("learner c-3 to catch up", soon=True)
        assert labels([decide(with_status(copies, 3, leader_id=0))]) == ["restart c-3"]

    def test_not_only_because_the_leader_says_so(self, ready: Observation) -> None:
        """etcd promotes a dead learner, by the progress that the leader last heard of."""
        assert decide(without_status(ready, 3)) == Wait("learner c-3 to start", soon=True)

    def test_not_when_another_member_answers_at_its_address(self, ready: Observation) -> None:
        assert not is_write(decide(with_status(ready, 3, member_id=77)))

    def test_not_when_it_reports_that_it_is_no_learner(self, ready: Observation) -> None:
        assert not is_write(decide(with_status(ready, 3, learner=False)))

    @pytest.mark.parametrize("change", [{"deleting": True}, {"crashing": True}])
    def test_not_when_its_pod_or_claim_is_being_deleted(
        self, ready: Observation, change: dict
    ) -> None:
        assert not is_write(decide(with_pod(ready, 3, **change)))

    def test_the_wait_said_that_it_has_yet_to_catch_up_where_voters_do_not_answer(
        self, ready: Observation
    ) -> None:
        """etcd has a quorum, but nothing may keep the operator from two of three members."""
        step = decide(without_status(without_status(ready, 1), 2))

        assert step == Wait("c-1, c-2 to serve, before learner c-3 may vote", soon=True)

    def test_the_wait_did_not_say_that_its_pod_cannot_be_created(self, ready: Observation) -> None:
        """A quota, or a webhook, may refuse it for ever."""
        step = decide(replace(ready, pods=ready.pods[:3]))

        assert step == Wait(
            "learner c-3 to start: its pod has yet to be created; the Events of StatefulSet c say "
            "what keeps it",
            soon=True,
        )

    def test_the_wait_did_not_say_that_its_start_cannot_be_reached(
        self, ready: Observation
    ) -> None:
        silent = with_pod(
            without_status(ready, 3), 3, in_start=True, unanswered="connection refused", age=60.0
        )

        step = decide(silent)

        assert isinstance(step, Wait)
        assert "its init container start does not answer (connection refused; " in step.reason

    def test_the_wait_did_not_say_that_it_waits_for_its_name(self) -> None:
        world = joining(label="push c-3 existing")
        seen = world.observe()
        answer = replace(seen.pods[3].answer, finding=Finding("ticketed"))

        assert decide(with_pod(seen, 3, answer=answer)) == Wait(
            "learner c-3 to start: it waits for DNS to resolve c-3.c.ns.svc to pod c-3, for at "
            "most 30 s",
            soon=True,
        )

    def test_not_without_its_pod(self, ready: Observation) -> None:
        assert learner.promote_or_drop(replace(ready, pods=ready.pods[:3])) is None

    def test_never_with_a_wiped_volume(self) -> None:
        """At 1 -> 2 that costs the quorum: the new voter has no data and can get none."""
        world = joining(1, "promote c-1")
        world.claims[1].data = None
        world.run_start(1)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps[steps.index("remove c-1") :][:8] == [
            "remove c-1",
            "PodDisruptionBudget c",
            "add c-1",
            "PodDisruptionBudget c",
            "ledger 3",
            "record data-c-1",
            "push c-1 existing",
            "promote c-1",
        ]

    def test_although_its_pod_is_not_ready(self, ready: Observation) -> None:
        """F25: the pod of a learner never is."""
        assert not ready.pods[3].ready
        assert isinstance(decide(ready), MemberPromote)

    def test_not_when_the_voters_would_have_no_quorum(self) -> None:
        """I1: of four voters three must serve, and with this learner only two would."""
        ready = joining().observe()
        few = without_status(ready, *[one for one in (0, 1, 2) if not seat(ready, one).leads][:2])

        assert learner.promote_or_drop(few) is None

    def test_with_one_of_three_voters_down(self, ready: Observation) -> None:
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)

        assert isinstance(decide(without_status(ready, follower)), MemberPromote)

    def test_only_by_the_leader(self, ready: Observation) -> None:
        leader = next(one for one in (0, 1, 2) if seat(ready, one).leads)

        step = decide(without_status(ready, leader))

        assert step == Wait(f"the leader, c-{leader}, to answer", soon=True)


class TestTicket:
    def test_names_exactly_the_listed_members(self) -> None:
        """F3: etcd refuses an outdated list, and the learner would never start."""
        step = until(formed_and_growing(), "push c-3 existing")

        assert step.ticket.initial_cluster.split(",") == [
            f"c-{one}=https://c-{one}.c.ns.svc:2380" for one in range(4)
        ]

    def test_is_recorded_under_the_new_id_before_it_is_pushed(self) -> None:
        world = formed_and_growing()
        step = until(world, "push c-3 existing")

        assert world.record.challenge(step.ticket.member_id) == step.ticket.challenge
        assert world.member_record(3).member_id == step.ticket.member_id

    def test_a_refused_join_is_repaired(self) -> None:
        """The list changed at that very moment: etcd exits with an unequal member count."""
        world = formed_and_growing()
        step = until(world, "push c-3 existing")
        told = step.ticket.initial_cluster.rpartition(",")[0]
        world.apply(replace(step, ticket=replace(step.ticket, initial_cluster=told)))
        assert world.pods[3].crashing

        assert drive(world, idle=40) == Settled()
        assert len(world.etcd.voters) == 4


def formed_and_growing() -> World:
    world = formed(3)
    world.edit(size=4)
    return world


class TestDropped:
    @pytest.mark.parametrize("label", ["ledger 4", "push c-3 existing", "promote c-3"])
    def test_when_the_size_is_back(self, label: str) -> None:
        """F11: if it had a ticket, the claim that it had begun to use is deleted with it."""
        world = joining(3, label)
        world.edit(size=3)

        assert drive(world) == Settled()
        assert "promote c-3" not in labels(world.history)
        assert len(world.etcd.members) == 3
        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_when_its_volume_is_lost(self, storage: dict) -> None:
        world = joining(3, "promote c-3", **storage)
        world.empty(3)

        assert drive(world) == Settled()
        assert "remove c-3" in labels(world.history)
        assert len(world.etcd.voters) == 4

    def test_when_it_has_not_started_and_a_voter_is_lost(self, ready: Observation) -> None:
        """The voter cannot be replaced while a learner is in flight (I2)."""
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)
        away = with_pod(without_status(ready, 3, follower), 3, etcd_started=False, in_start=True)

        step = decide(with_claim(away, follower, deleting=True))

        assert isinstance(step, MemberRemove)
        assert step.member_id == seat(ready, 3).member.member_id
        assert f"c-{follower} has to be replaced" in step.reason

    def test_not_when_it_runs_and_is_silent_for_a_moment(self, ready: Observation) -> None:
        """It was removed together with all the data that it had copied, and then everything was
        copied again."""
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)
        away = without_status(ready, 3, follower)

        step = decide(with_claim(away, follower, deleting=True))

        assert step == Wait("learner c-3 to start", soon=True)

    def test_not_when_its_container_is_being_started_again(self, ready: Observation) -> None:
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)
        away = with_claim(without_status(ready, 3, follower), follower, deleting=True)
        assert isinstance(decide(with_pod(away, 3, **DOWN)), MemberRemove)

        step = decide(with_pod(away, 3, age=99.0, **TRIED_AGAIN))

        assert step == Wait("learner c-3 to start: container etcd keeps failing", soon=True)

    def test_not_for_a_lost_voter_that_still_serves(self, ready: Observation) -> None:
        """There is no hurry. Once the learner is promoted, one of four voters can be removed."""
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)

        step = decide(with_claim(without_status(ready, 3), follower, deleting=True))

        assert step == Wait("learner c-3 to start", soon=True)

    @pytest.mark.parametrize("applied", [50, None], ids=["gets nowhere", "is silent"])
    @pytest.mark.parametrize("age", [learner.STUCK_SECONDS - 1, learner.STUCK_SECONDS])
    def test_when_it_gets_nowhere_and_a_voter_is_lost(
        self, ready: Observation, applied: int | None, age: float
    ) -> None:
        """It was waited for without end, and the voter was never replaced."""
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)
        found = with_pod(without_status(ready, follower), 3, age=age)
        found = (
            with_status(found, 3, applied_index=applied) if applied else without_status(found, 3)
        )

        step = decide(with_claim(found, follower, deleting=True))

        if age < learner.STUCK_SECONDS:
            assert isinstance(step, Wait)
        else:
            assert isinstance(step, MemberRemove)
            assert step.member_id == seat(ready, 3).member.member_id
            assert f"c-{follower} has to be replaced" in step.reason

    def test_not_when_it_gets_nowhere_and_nobody_is_lost(self, ready: Observation) -> None:
        found = with_pod(with_status(ready, 3, applied_index=50), 3, age=learner.STUCK_SECONDS)

        assert decide(found) == Wait("learner c-3 to catch up", soon=True)

    @pytest.mark.parametrize("serves", [True, False])
    def test_not_when_it_runs_and_a_voter_is_lost(
        self, ready: Observation, *, serves: bool
    ) -> None:
        follower = next(one for one in (0, 1, 2) if not seat(ready, one).leads)
        found = ready if serves else without_status(ready, follower)

        step = decide(with_claim(found, follower, deleting=True))

        assert isinstance(step, MemberPromote)


class TestInFlight:
    """I2: no other membership change happens meanwhile."""

    @pytest.mark.parametrize("size", [5, 7])
    def test_no_other_is_added(self, size: int) -> None:
        world = formed(3)
        world.edit(size=size)
        worst: list[int] = []

        def note(_: Step) -> None:
            worst.append(len(world.etcd.learners))

        assert drive(world, each=note) == Settled()
        assert max(worst) == 1

    def test_its_trouble_is_reported(self, ready: Observation) -> None:
        away = with_pod(without_status(ready, 3), 3, trouble="cannot be scheduled: no node")

        assert decide(away) == Wait("learner c-3 to start: cannot be scheduled: no node", soon=True)

    def test_a_shrink_below_the_voters_removes_it_first(self) -> None:
        world = joining()
        world.edit(size=1)
        world.history.clear()

        assert drive(world) == Settled()
        assert labels(world.history)[0] == "remove c-3"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_crashing_learners_pod_is_recreated(self, storage: dict) -> None:
        """F3: a restarted container skips `start`, which alone can tell what is wrong."""
        world = joining(3, "push c-3 existing", **storage)
        world.apply(decide(world.observe()))
        world.pods[3].crashing = True
        world._holder(3).data = None

        assert drive(world, idle=40) == Settled()
        assert len(world.etcd.voters) == 4

    def test_a_learner_that_is_off_the_list_is_not_one(self, ready: Observation) -> None:
        others = with_members(ready, *ready.etcd.members[:3])

        assert learner.promote_or_drop(others) is None
        assert learner.in_flight(others) is None
