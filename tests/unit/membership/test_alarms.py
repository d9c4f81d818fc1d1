"""The CORRUPT alarm: the member whose data differs is replaced, whichever the alarm blames, and
then the alarm is disarmed.

For NOSPACE see test_space.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from space_world import full
from views import seat, without_status
from worlds import World, drive, formed, labels, until

from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import DisarmAlarm, Hold, Settled, Wait
from etcd_stateful.membership.upkeep import alarms
from etcd_stateful.observed.members import Alarm

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def corrupt(size: int, *differing: int, blamed: int, **spec: object) -> World:
    world = formed(size, **spec)
    seats = {world.seat(one): one for one in world.etcd.members}
    world.etcd.differing = {seats[one]: 7 for one in differing}
    world.etcd.alarms = [Alarm("CORRUPT", seats[blamed])]
    world.history.clear()
    return world


@pytest.mark.parametrize("blamed", [0, 1, 2])
@pytest.mark.parametrize("ordinal", [0, 1, 2])
@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_the_member_that_differs_is_replaced_and_the_alarm_disarmed(
    ordinal: int, blamed: int, storage: dict
) -> None:
    """F36: its data is deleted too, so it has no vote on data that the others never had."""
    world = corrupt(3, ordinal, blamed=blamed, **storage)
    wrong = world.data(ordinal).member_id

    assert drive(world) == Settled()

    assert world.etcd.alarms == []
    assert wrong not in world.etcd.members
    assert len(world.etcd.voters) == 3
    others = {f"remove c-{one}" for one in range(3) if one != ordinal}
    assert not others & set(labels(world.history))
    if not storage:
        assert f"delete data-c-{ordinal}" in labels(world.history)


def test_two_of_five_that_differ_are_replaced_one_after_the_other() -> None:
    world = corrupt(5, 1, 4, blamed=1)

    assert drive(world) == Settled()
    assert world.etcd.alarms == []
    assert len(world.etcd.voters) == 5


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_the_member_that_differed_stayed_after_a_human_deleted_the_blamed_one(
    storage: dict,
) -> None:
    """The alarm was disarmed once the member that it blamed was gone. After that nobody compared
    hashes."""
    world = corrupt(5, 1, blamed=0, **storage)
    wrong = world.data(1).member_id
    world.empty(0)

    assert drive(world) == Settled()

    assert wrong not in world.etcd.members
    assert world.etcd.alarms == []
    assert len(world.etcd.voters) == 5


def test_the_member_that_differs_is_removed_before_a_witness_whose_claim_is_deleted() -> None:
    """Without the witness, the two that are left only contradict each other."""
    world = corrupt(3, 1, blamed=0)
    world.claims[0].deleting = True

    assert drive(world) == Settled()
    gone = [one for one in labels(world.history) if one.startswith("remove")]
    assert gone == ["remove c-1", "remove c-0"]


def test_nobody_was_served_before_another_pod_had_found_a_node() -> None:
    """Of four, three agreed. The fourth stayed until a fifth had been replaced, and all requests
    were refused until then."""
    world = corrupt(5, 1, blamed=1)
    wrong = world.data(1).member_id
    world.etcd.remove(world.member_at(4).member_id)
    world.empty(4)
    world.stuck = {1, 4}

    drive(world)

    assert wrong not in world.etcd.members
    assert world.etcd.alarms == []
    assert len(world.etcd.voters) == 3


@pytest.mark.parametrize(
    ("size", "sides"), [(2, "c-0 against c-1"), (4, "c-0, c-1 against c-2, c-3")]
)
def test_a_tie_is_left_to_a_human_and_both_sides_are_named(size: int, sides: str) -> None:
    world = corrupt(size, *range(size // 2), blamed=0)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "DataDiffers"
    for words in (f"the same data: {sides}.", "EtcdRestore", "etcdctl snapshot save"):
        assert words in rest.message
    assert "disarm" not in rest.message
    assert world.history == []
    assert len(world.etcd.alarms) == 1


def test_a_healthy_pod_was_waited_for_although_another_has_yet_to_be_compared() -> None:
    """No pod is Ready under CORRUPT. The advice leads on."""
    world = formed(3)
    world.pods[2].silent = True
    world.etcd.alarms = [Alarm("CORRUPT", 0)]

    rest = drive(world)

    assert rest == Wait(
        "etcd in c-2 to answer, so that its data can be compared: etcd has raised the alarm "
        "CORRUPT, and serves nobody until then. Most members agree: if c-2 will not come back, "
        "delete claim data-c-2, and a new member takes its place",
        soon=True,
    )
    world.claims[2].deleting = True
    drive(world)
    assert world.etcd.alarms == []


def test_a_member_that_may_decide_is_waited_for_and_not_given_up() -> None:
    world = corrupt(3, 0, blamed=0)
    world.pods[2].silent = True

    rest = drive(world)

    assert isinstance(rest, Wait)
    assert rest.reason.startswith("etcd in c-2 to answer")
    assert "delete" not in rest.reason


def test_with_an_empty_dir_the_pod_is_deleted() -> None:
    world = formed(3, pod={"emptyDir": {}})
    world.pods[2].silent = True
    world.etcd.alarms = [Alarm("CORRUPT", 0)]

    assert "delete pod c-2, and a new member" in decide(world.observe()).reason


def test_the_only_member_keeps_its_alarm_and_the_ways_out_are_named() -> None:
    world = corrupt(1, blamed=0)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "DataDiffers"
    for words in ("c-0 is the only member", "EtcdRestore", "etcdctl alarm disarm"):
        assert words in rest.message
    assert world.history == []


def test_a_snapshot_was_to_be_saved_in_a_pod_from_which_it_cannot_be_copied() -> None:
    """The only place for a file there is the member's volume, and etcd's image has no `tar`."""
    rest = drive(corrupt(2, 0, blamed=0))

    assert isinstance(rest, Hold)
    assert "(etcdctl snapshot save by kubectl port-forward to its pod)" in rest.message


def test_an_in_place_restore_is_not_suggested_with_an_empty_dir() -> None:
    rest = drive(corrupt(2, 0, blamed=0, **EMPTY_DIR))

    assert isinstance(rest, Hold)
    assert "Restore a backup into a new cluster; or" in rest.message


def test_no_tie_is_reported_before_every_member_has_sent_its_hash() -> None:
    seen = corrupt(4, 0, 1, blamed=0).observe()

    assert isinstance(decide(replace(seen, hashes={0: 7, 2: 1, 3: 1})), Wait)
    assert alarms.undecided(replace(without_status(seen, 1), hashes={0: 7, 2: 1, 3: 1})) is None


class TestWithoutAMajority:
    """A new member copies the leader's data. It is no witness, but it made a majority."""

    def contradicting(self) -> World:
        """Two members with different data, and the third has lost its own."""
        world = formed(3)
        world.empty(2)
        until(world, "add c-2")
        seats = {world.seat(one): one for one in world.etcd.members}
        world.etcd.differing = {seats[1]: 7}
        world.etcd.alarms = [Alarm("CORRUPT", seats[0])]
        world.history.clear()
        return world

    @pytest.mark.parametrize("leads", [0, 1])
    def test_the_copy_of_one_member_outvoted_the_other(self, leads: int) -> None:
        world = self.contradicting()
        world.etcd.leader = world.member_at(leads).member_id

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "the same data: c-0 against c-1." in rest.message
        assert world.history == []

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_human_deleted_the_only_witness(self, storage: dict) -> None:
        world = corrupt(3, 1, blamed=0, **storage)
        world.empty(0)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "the same data: c-1 against c-2." in rest.message
        assert {1, 2} <= {world.seat(one) for one in world.etcd.voters}

    def test_a_learner_does_not_get_a_vote(self) -> None:
        world = self.contradicting()
        alarms, world.etcd.alarms = world.etcd.alarms, []
        until(world, "promote c-2")
        world.etcd.alarms = alarms
        world.history.clear()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "the same data: c-0 against c-1." in rest.message
        assert world.history == []

    def with_learner(self, size: int, *differing: int) -> World:
        """Voters with different data, and a learner that could vote otherwise."""
        world = formed(size)
        world.edit(size=size + 1)
        until(world, f"promote c-{size}")
        seats = {world.seat(one): one for one in world.etcd.members}
        world.etcd.differing = {seats[one]: index + 7 for index, one in enumerate(differing)}
        world.etcd.alarms = [Alarm("CORRUPT", seats[0])]
        return world

    def lose(self, world: World, ordinal: int) -> None:
        world.empty(ordinal)
        for _ in range(3):
            world.turn()

    def test_that_data_differs_was_said_only_once_a_learner_had_been_given_up(self) -> None:
        """The lost voter has no hash, and is not removed before the learner is."""
        world = self.with_learner(3, 1)
        self.lose(world, 2)

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert "the same data: c-0 against c-1." in step.message
        assert len(world.etcd.members) == 4

    def test_a_tie_is_not_reported_while_a_lost_voter_still_runs(self) -> None:
        """Its claim is being deleted, it is silent for a moment, and may yet decide."""
        world = self.with_learner(3, 1)
        world.claims[2].deleting = True
        world.pods[2].silent = True

        assert isinstance(decide(world.observe()), Wait)

    def test_a_tie_is_not_reported_if_the_loss_of_a_voter_may_decide_it(self) -> None:
        """Of five, two agree, and one is lost. The fifth may be a witness when it answers."""
        world = self.with_learner(5, 1, 2)
        self.lose(world, 4)
        world.pods[3].silent = True

        step = decide(world.observe())

        assert isinstance(step, Wait)
        assert "the members' data to be compared" in step.reason

    def test_a_learner_waits_for_hashes_that_are_missing(self) -> None:
        world = formed(2)
        world.edit(size=3)
        until(world, "promote c-2")
        world.etcd.alarms = [Alarm("CORRUPT", min(world.etcd.members))]
        seen = world.observe()

        step = decide(replace(seen, hashes={0: 1}))
        silent = decide(replace(without_status(seen, 1), hashes={0: 1}))

        assert step == Wait("the data of c-1 to be compared: etcd has raised the alarm CORRUPT")
        assert silent == Wait(
            "the members' data to be compared, before learner c-2 may vote: etcd has raised the "
            "alarm CORRUPT",
            soon=True,
        )

    @pytest.mark.parametrize(("size", "edited"), [(2, 3), (2, 1), (4, 3), (4, 5)])
    def test_an_edit_of_the_size_decided_which_data_is_kept(self, size: int, edited: int) -> None:
        world = corrupt(size, *range(size // 2), blamed=0)
        world.edit(size=edited)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "DataDiffers"
        assert len(world.etcd.voters) == size

    def test_the_size_is_followed_once_they_agree(self) -> None:
        world = self.contradicting()
        drive(world)
        world.etcd.differing.clear()

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 3

    def test_members_did_not_copy_the_leader_whom_the_others_contradict(self) -> None:
        """Two of five are away, and then their copies would have been a tie."""
        world = corrupt(5, 1, blamed=1)
        world.etcd.leader = world.member_at(1).member_id
        for ordinal in (3, 4):
            world.etcd.remove(world.member_at(ordinal).member_id)
            world.empty(ordinal)

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 5
        assert not world.etcd.differing.keys() & world.etcd.members

    def test_a_learner_that_had_copied_the_contradicted_leader_made_a_tie(self) -> None:
        """Two of three agreed. The third led, and its copy got a vote, so that nobody was right."""
        world = self.with_learner(3)
        wrong, copy = world.member_at(0).member_id, world.member_at(3).member_id
        world.etcd.leader = wrong
        world.etcd.differing = {wrong: 7, copy: 7}

        assert drive(world) == Settled()

        assert not {wrong, copy} & world.etcd.members.keys()
        assert world.etcd.alarms == []
        assert len(world.etcd.voters) == 4

    @pytest.mark.parametrize("leads", [1, 2])
    def test_a_learner_is_replaced_also_if_another_leads_by_now(self, leads: int) -> None:
        world = self.with_learner(3)
        wrong, copy = world.member_at(0).member_id, world.member_at(3).member_id
        world.etcd.leader = world.member_at(leads).member_id
        world.etcd.differing = {wrong: 7, copy: 7}

        assert drive(world) == Settled()
        assert not {wrong, copy} & world.etcd.members.keys()

    @pytest.mark.parametrize(("size", "names"), [(1, False), (1, True), (2, True)])
    def test_a_learner_whose_data_differs_got_a_vote(self, size: int, names: bool) -> None:
        """Beside one voter that made a tie, which only a human could end. etcd names none of the
        two, as neither is a majority."""
        world = self.with_learner(size)
        learner = world.member_at(size).member_id
        world.etcd.differing = {learner: 7}
        world.etcd.alarms = [Alarm("CORRUPT", learner if names else 0)]
        world.history.clear()

        assert drive(world) == Settled()

        assert labels(world.history)[0] == f"remove c-{size}"
        assert world.etcd.alarms == []
        assert learner not in world.etcd.members
        assert len(world.etcd.voters) == size + 1

    def test_the_only_member_is_no_contradiction(self) -> None:
        world = corrupt(1, blamed=0)
        world.edit(size=3)

        assert drive(world) == Settled()


class TestDisarm:
    def test_of_a_member_that_is_gone(self) -> None:
        world = corrupt(3, blamed=0)
        world.etcd.alarms = [Alarm("CORRUPT", 0x77)]
        seen = replace(without_status(world.observe(), 2), hashes={0: 1, 1: 1})

        step = decide(seen)

        assert isinstance(step, DisarmAlarm)
        assert step.alarm.member_id == 0x77
        assert "0000000000000077" in step.reason

    def test_of_a_member_that_is_gone_not_while_others_differ(self) -> None:
        world = corrupt(3, blamed=0)
        world.etcd.alarms = [Alarm("CORRUPT", 0x77)]
        seen = world.observe()

        assert alarms.disarm(replace(seen, hashes={0: 1, 1: 2})) is None
        silent = without_status(seen, 2)
        assert alarms.disarm(replace(silent, hashes={0: 1, 1: 1})) is not None

    def test_members_whose_data_was_never_compared_were_let_in_again(self) -> None:
        """The member that the alarm blamed was gone, and a hash could not be had: it takes too long
        in a large database, or the members have compacted differently."""
        world = corrupt(3, blamed=0)
        world.etcd.alarms = [Alarm("CORRUPT", 0x77)]
        seen = world.observe()

        for hashes in ({}, {0: 1}, {0: 1, 1: 1}):
            assert alarms.disarm(replace(seen, hashes=hashes)) is None
        step = decide(replace(seen, hashes={0: 1, 1: 1}))
        assert isinstance(step, Wait)
        assert step.reason.startswith("the data of c-2 to be compared")

    def test_of_no_member_was_over_before_a_silent_one_was_compared(self) -> None:
        """etcd names none if no majority has the same data, and that was taken for one that is
        gone."""
        seen = corrupt(3, blamed=0).observe()
        seen = replace(seen, alarms=(Alarm("CORRUPT", 0),))
        assert isinstance(alarms.disarm(seen), DisarmAlarm)

        assert alarms.disarm(replace(without_status(seen, 2), hashes={0: 1, 1: 1})) is None

    def test_of_a_member_that_is_gone_when_one_is_left(self) -> None:
        world = corrupt(1, blamed=0)
        world.etcd.alarms = [Alarm("CORRUPT", 0x77)]

        assert alarms.disarm(replace(world.observe(), hashes={})) is not None

    def test_when_all_agree_again(self) -> None:
        seen = corrupt(3, blamed=0).observe()

        assert isinstance(decide(seen), DisarmAlarm)

    def test_not_while_one_of_them_gave_no_answer(self) -> None:
        seen = corrupt(3, blamed=0).observe()

        assert alarms.disarm(replace(seen, hashes={0: 1, 1: 1})) is None

    def test_not_while_one_differs(self) -> None:
        seen = corrupt(3, blamed=0).observe()

        assert alarms.disarm(replace(seen, hashes={0: 1, 1: 1, 2: 2})) is None

    def test_a_space_alarm_only_by_the_sizes(self) -> None:
        """F30: an alarm disarmed before space is freed is raised again at once, whoever raised
        it."""
        seen = full(3).observe()

        assert alarms.disarm(replace(seen, alarms=(Alarm("NOSPACE", 0x77),))) is None

    def test_no_other_alarm_while_the_data_differs(self) -> None:
        """etcd 3.5 accepts writes again once any alarm is disarmed; see test_etcd_space.py."""
        world = corrupt(4, 0, 1, blamed=0)
        world.etcd.alarms.insert(0, Alarm("NOSPACE", min(world.etcd.members)))

        drive(world)

        assert world.history == []
        world.etcd.differing.clear()
        assert drive(world) == Settled()
        assert [one.alarm.kind for one in world.history] == ["CORRUPT", "NOSPACE"]

    def test_not_without_a_member_list(self) -> None:
        seen = corrupt(3, blamed=0).observe()

        assert alarms.disarm(replace(seen, etcd=None)) is None

    def test_an_absent_leader_is_waited_for(self) -> None:
        seen = corrupt(3, blamed=0).observe()
        leader = next(one for one in range(3) if seat(seen, one).leads)
        gone = replace(seen, alarms=(Alarm("CORRUPT", 0x77),))

        assert alarms.disarm(without_status(gone, leader)) == Wait(
            f"the leader, c-{leader}, to answer", soon=True
        )

    def test_one_at_a_time(self) -> None:
        world = corrupt(3, blamed=0)
        world.etcd.alarms = [Alarm("CORRUPT", 0x77), Alarm("CORRUPT", 0x78)]

        assert drive(world) == Settled()
        assert labels(world.history) == ["DisarmAlarm", "DisarmAlarm"]


def test_a_learner_that_could_not_vote_held_up_the_end_of_the_tie() -> None:
    """A lost member counted among the voters, so that two of four agreed. It was not removed before
    the learner had a vote or was ten minutes old, and nobody was served meanwhile."""
    world = formed(3)
    world.edit(size=5)
    until(world, "promote c-4")
    seats = {world.seat(one): one for one in world.etcd.voters}
    world.empty(0)
    world.turn()
    world.etcd.differing = {seats[1]: 7}
    world.etcd.alarms = [Alarm("CORRUPT", seats[0])]

    assert drive(world) == Settled()

    assert world.etcd.alarms == []
    assert len(world.etcd.voters) == 5
    assert seats[1] not in world.etcd.members
