"""When a member is lost and, above all, when it is not: only proof counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import TRIED_AGAIN, seat, with_claim, with_members, with_pod, with_status, without_status
from worlds import World, drive, formed, until

from etcd_stateful.membership.members.loss import why_lost
from etcd_stateful.membership.members.replace import remove_lost_voter
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import MemberRemove, Settled, Wait
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.start.ticket import Finding

EMPTY_DIR = {"pod": {"emptyDir": {}}}


@pytest.fixture(scope="module")
def seen() -> Observation:
    return formed(3).observe()


def lost(seen: Observation, ordinal: int = 1) -> str:
    return why_lost(seen, seat(seen, ordinal))


def finds(seen: Observation, found: str, detail: str = "") -> Observation:
    """c-1 waits in `start`, in a run that the ledger does not know, and reports this finding."""
    answer = StartAnswer("another-run", Finding(found, detail))  # type: ignore[arg-type]
    waits = with_pod(seen, 1, in_start=True, etcd_started=False, ready=False, answer=answer)
    return without_status(waits, 1)


class TestReportedByStart:
    def test_an_empty_volume_of_a_member_that_had_its_ticket(self, seen: Observation) -> None:
        assert lost(finds(seen, "no-data")) == "the volume of pod c-1 is empty"

    def test_a_damaged_log(self, seen: Observation) -> None:
        assert lost(finds(seen, "damaged", "no record")) == (
            "the log of pod c-1 is damaged: no record"
        )

    @pytest.mark.parametrize("found", ["unreadable", "foreign-data", "ticketed"])
    def test_nothing_else_that_it_finds(self, seen: Observation, found: str) -> None:
        assert lost(finds(seen, found, "I/O error")) == ""

    @pytest.mark.parametrize("found", ["no-data", "damaged"])
    @pytest.mark.parametrize("change", [{"deleting": True}, {"in_start": False}])
    def test_not_an_outdated_answer(self, seen: Observation, found: str, change: dict) -> None:
        assert lost(with_pod(finds(seen, found), 1, **change)) == ""

    def test_not_the_run_that_the_ledger_names(self, seen: Observation) -> None:
        """Its ticket is about to be pushed, or it has it already and starts etcd."""
        waits = finds(seen, "no-data")
        member = seat(seen, 1).member.member_id
        run = seen.secret.bootstrap.challenge(member)
        answer = StartAnswer(run, Finding("no-data"))

        assert lost(with_pod(waits, 1, answer=answer)) == ""

    def test_not_a_member_that_never_had_a_ticket(self, seen: Observation) -> None:
        first, second, third = seen.etcd.members
        record: Bootstrap = seen.secret.bootstrap
        issued = (one for one in record.issued if one[0] != second.member_id)
        record = replace(record, issued=tuple(issued))
        found = finds(seen, "no-data")
        found = replace(found, secret=replace(found.secret, bootstrap=record))
        found = with_members(found, first, replace(second, name=""), third)

        assert lost(with_claim(found, 1, record=None)) == ""


class TestShownByTheClaim:
    def test_it_is_being_deleted_under_a_member_that_serves(self, seen: Observation) -> None:
        """F34: the pod runs on for days, and all its data is lost once it stops."""
        assert lost(with_claim(seen, 1, deleting=True)) == "claim data-c-1 is being deleted"

    def test_it_has_lost_its_volume(self, seen: Observation) -> None:
        assert lost(with_claim(seen, 1, phase="Lost")) == "claim data-c-1 has lost its volume"

    @pytest.mark.parametrize("phase", ["Bound", "Pending", ""])
    def test_not_in_another_phase(self, seen: Observation, phase: str) -> None:
        assert lost(with_claim(seen, 1, phase=phase)) == ""

    def test_it_is_gone_from_under_a_pod_that_runs(self, seen: Observation) -> None:
        gone = replace(seen, claims=(seen.claims[0], seen.claims[2]))

        assert lost(gone) == "the claim of pod c-1 is gone"

    def test_not_while_both_are_about_to_be_recreated(self, seen: Observation) -> None:
        """`start` will report what is on the new volume."""
        gone = replace(
            seen, claims=(seen.claims[0], seen.claims[2]), pods=(seen.pods[0], seen.pods[2])
        )

        assert lost(gone) == ""

    def test_with_an_empty_dir_claims_mean_nothing(self) -> None:
        assert lost(formed(3, **EMPTY_DIR).observe()) == ""

    def test_its_node_is_gone_for_good(self, seen: Observation) -> None:
        assert lost(with_pod(seen, 1, node_gone=True)) == (
            "the node that the volume of pod c-1 lies on is gone"
        )


class TestReportedByEtcd:
    def test_it_refuses_its_data_again_and_again(self, seen: Observation) -> None:
        assert lost(with_pod(seen, 1, damage="crc mismatch")) == (
            "etcd in pod c-1 refuses its data: crc mismatch"
        )

    def test_not_while_its_container_is_being_started_again(self, seen: Observation) -> None:
        """Somebody may have repaired the files, and then etcd comes up."""
        assert lost(with_pod(seen, 1, damage="crc mismatch", **TRIED_AGAIN)) == ""


class TestNever:
    """Each of these heals by itself, or after a human steps in."""

    @pytest.mark.parametrize(
        "change",
        [
            {"crashing": True, "age": 9999.0},
            {"ready": False},
            {"deleting": True},
            {"overdue": True, "deleting": True},
            {"trouble": "node is NotReady"},
            {"in_start": True, "etcd_started": False, "answer": None},
        ],
        ids=["crashing", "not ready", "stopping", "not confirmed", "NotReady", "silent start"],
    )
    def test_for_any_trouble_of_its_pod(self, seen: Observation, change: dict) -> None:
        assert lost(without_status(with_pod(seen, 1, **change), 1)) == ""

    def test_for_silence(self, seen: Observation) -> None:
        assert lost(without_status(seen, 1)) == ""

    def test_for_having_no_pod(self, seen: Observation) -> None:
        assert lost(without_status(replace(seen, pods=(seen.pods[0], seen.pods[2])), 1)) == ""

    def test_for_hearing_no_leader(self, seen: Observation) -> None:
        assert lost(with_status(seen, 1, leader_id=0)) == ""

    def test_without_being_a_member(self, seen: Observation) -> None:
        alone = with_members(seen, seen.etcd.members[0])

        assert lost(with_claim(alone, 1, deleting=True)) == ""

    @pytest.mark.parametrize("how", ["silent", "pending", "crashing"])
    def test_for_being_down_however_long(self, how: str) -> None:
        world = formed(3)
        pod = world.pods[1]
        pod.silent, pod.crashing = how == "silent", how == "crashing"
        pod.where = "pending" if how == "pending" else pod.where
        world.stuck = {1}
        world.history.clear()

        rest = drive(world, idle=25)

        assert isinstance(rest, Wait)
        assert world.history == []


class TestCorrupt:
    """F36: a majority of HashKV answers decides; the alarm alone may blame the wrong one."""

    def world(self, size: int, *differing: int, blamed: int = 0) -> World:
        world = formed(size)
        seats = {world.seat(one): one for one in world.etcd.members}
        world.etcd.differing = {seats[one]: 7 for one in differing}
        world.etcd.alarms = [Alarm("CORRUPT", seats[blamed])]
        return world

    def lost(self, world: World, alarms: bool = True) -> list[int]:
        seen = world.observe()
        seen = seen if alarms else replace(seen, alarms=())
        return [one for one in range(seen.cluster.size) if lost(seen, one)]

    @pytest.mark.parametrize("blamed", [0, 2])
    def test_the_member_that_differs_is_lost_whichever_is_blamed(self, blamed: int) -> None:
        world = self.world(3, 2, blamed=blamed)

        assert self.lost(world) == [2]
        assert lost(world.observe(), 2) == "the data of pod c-2 differs from what most members have"

    def test_two_of_five_that_differ_are_both_lost(self) -> None:
        assert self.lost(self.world(5, 1, 3)) == [1, 3]

    def test_the_minority_is_lost_even_if_the_first_member_is_in_it(self) -> None:
        assert self.lost(self.world(3, 1, 2)) == [0]

    def test_a_witness_was_removed_before_the_member_that_differs(self) -> None:
        """Of three, two agree. Without one of these two it is one against one, and then none is
        lost."""
        seen = with_claim(self.world(3, 2).observe(), 1, deleting=True)
        assert [one for one in range(3) if lost(seen, one)] == [1, 2]
        assert all(seat(seen, one).serves for one in range(3))

        step = remove_lost_voter(seen)

        assert isinstance(step, MemberRemove)
        assert step.member_id == seat(seen, 2).member.member_id

    @pytest.mark.parametrize(("size", "differing"), [(2, (1,)), (4, (2, 3))])
    def test_a_tie_says_nothing(self, size: int, differing: tuple[int, ...]) -> None:
        world = self.world(size, *differing)
        world.history.clear()

        assert self.lost(world) == []
        drive(world)
        assert world.history == []

    def test_a_removed_member_that_still_answered_had_a_vote(self) -> None:
        """Somebody had decided a tie of four by removing one. etcd goes on for a second then, and
        as long as it does not hear of it. Meanwhile the others that agreed were removed."""
        seen = self.world(4, 0, 3).observe()
        assert seen.etcd is not None
        gone = seat(seen, 3).member
        kept = tuple(one for one in seen.members if one != gone)

        left = replace(seen, etcd=replace(seen.etcd, members=kept))

        assert [one for one in range(3) if lost(left, one)] == [0]

    def test_a_removed_member_that_answers_for_the_new_one_at_its_ordinal_had_a_vote(self) -> None:
        seen = self.world(3, 0).observe()
        assert [one for one in range(3) if lost(seen, one)] == [0]

        before = with_status(seen, 2, member_id=9)

        assert [one for one in range(3) if lost(before, one)] == []

    def test_a_learner_without_a_vote_kept_a_member_that_differs(self) -> None:
        seen = self.world(3, 2).observe()
        added = replace(seen.etcd.members[0], member_id=9, learner=True, peer_urls=())

        grown = with_members(seen, *seen.etcd.members, added)

        assert [one for one in range(3) if lost(grown, one)] == [2]

    def test_a_majority_of_the_answers_may_be_no_majority_of_the_members(self) -> None:
        world = self.world(5, 2)
        seen = world.observe()
        few = replace(seen, hashes={one: seen.hashes[one] for one in (1, 2, 3)})

        assert lost(few, 2) == ""

    def test_a_member_without_a_hash_is_not_lost(self) -> None:
        seen = self.world(3, 2).observe()

        assert lost(replace(seen, hashes={0: 1, 1: 1}), 2) == ""

    def test_three_answers_that_all_differ_say_nothing(self) -> None:
        seen = self.world(3, 2).observe()

        found = replace(seen, hashes={0: 1, 1: 2, 2: 3})
        assert [one for one in range(3) if lost(found, one)] == []

    def test_no_alarm_no_loss(self) -> None:
        assert self.lost(self.world(3, 2), alarms=False) == []

    def test_another_kind_of_alarm_is_no_loss(self) -> None:
        seen = self.world(3, 2).observe()

        assert lost(replace(seen, alarms=(Alarm("NOSPACE", 1),)), 2) == ""


class TestAnotherMembersData:
    """A volume that was missing is back, and its member was removed meanwhile."""

    def test_the_pod_of_a_new_member_runs_on_the_old_ones_data(self) -> None:
        world = formed(3)
        old = world.data(1)
        world.claims[1].data = None
        world.restart_pod(1)
        until(world, "ledger 4")
        world.claims[1].data = old
        world.run_start(1)
        world.history.clear()

        assert lost(world.observe(), 1) == "pod c-1 runs on the data of another member"
        assert drive(world) == Settled()
        assert world.data(1).member_id != old.member_id

    def test_not_while_the_listed_member_answers_whatever_the_record_says(
        self, seen: Observation
    ) -> None:
        record = replace(seen.claim(1).record, member_id=9)
        edited = with_claim(seen, 1, record=record)

        assert lost(edited) == ""
        assert lost(without_status(edited, 1)) == "pod c-1 runs on the data of another member"

    def test_a_silent_member_was_removed_as_somebody_had_edited_the_record_on_its_claim(
        self, seen: Observation
    ) -> None:
        """Although `start` had read its log, and named it."""
        record = replace(seen.claim(1).record, member_id=9)
        silent = without_status(with_claim(seen, 1, record=record), 1)
        member = seat(seen, 1).member.member_id

        assert lost(with_pod(silent, 1, ran_as=member)) == ""
        assert lost(with_pod(silent, 1, ran_as=8)) == "pod c-1 runs on the data of another member"

    def test_a_silent_member_was_removed_as_nothing_said_whose_data_it_runs_on(
        self, seen: Observation
    ) -> None:
        unrecorded = with_claim(seen, 1, record=None)

        assert lost(without_status(unrecorded, 1)) == ""

    def test_a_member_without_a_ticket_ran_on_data_that_nothing_named(
        self, seen: Observation
    ) -> None:
        """It is on the list and never had a volume, so what runs there is not its own."""
        record: Bootstrap = seen.secret.bootstrap
        member = seat(seen, 1).member.member_id
        issued = tuple(one for one in record.issued if one[0] != member)
        unused = replace(seen.secret, bootstrap=replace(record, issued=issued))
        silent = without_status(with_claim(replace(seen, secret=unused), 1, record=None), 1)

        assert lost(silent) == "pod c-1 runs on the data of another member"
