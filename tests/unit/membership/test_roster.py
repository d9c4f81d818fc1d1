"""The roster: which member is at which ordinal, by its URLs, and which of them count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from views import seat, with_claim, with_members, with_pod, with_status, without_status
from worlds import World, body, drive, formed, until

from etcd_stateful.membership import roster
from etcd_stateful.membership.members.loss import why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, DeletePod, Hold, Settled, Wait
from etcd_stateful.membership.tls import links
from etcd_stateful.observed.members import EtcdView, Member
from etcd_stateful.observed.objects import Foreign

EMPTY_DIR = {"pod": {"emptyDir": {}}}


@pytest.fixture(scope="module")
def seen() -> Observation:
    return formed(3).observe()


def member(number: int, url: str, name: str = "", *, learner: bool = False) -> Member:
    return Member(number, name, (url,), learner=learner)


def url(ordinal: int) -> str:
    return f"https://c-{ordinal}.c.ns.svc:2380"


class TestByUrl:
    def test_names_on_the_list_mean_nothing(self, seen: Observation) -> None:
        first, second, third = seen.etcd.members
        swapped = with_members(seen, replace(first, name="c-2"), second, replace(third, name=""))

        assert [seat(swapped, one).member.member_id for one in range(3)] == [
            seat(seen, one).member.member_id for one in range(3)
        ]

    @pytest.mark.parametrize(
        ("text", "ordinal"),
        [
            ("http://c-0.c.ns.svc:2380", 0),
            ("https://c-6.c.ns.svc.cluster.local:2380", 6),
            ("http://c-7.c.ns.svc:2380", None),
            ("http://c-10.c.ns.svc:2380", None),
            ("http://c-01.c.ns.svc:2380", None),
            ("http://c.c.ns.svc:2380", None),
            ("http://d-1.d.ns.svc:2380", None),
            ("http://cc-1.c.ns.svc:2380", None),
            ("http://10.0.0.1:2380", None),
            ("http://x", None),
            ("", None),
            ("http://C-1.c.ns.svc:2380/", 1),
            ("http://c-1:2380", 1),
            ("http://c-1.c.ns.svc", 1),
            ("http://c-1.c.ns2.svc:2380", None),
            ("http://c-1.old.ns.svc:2380", None),
            ("http://c-1.example.com:2380", None),
        ],
    )
    def test_the_ordinal_of_a_url(self, seen: Observation, text: str, ordinal: int | None) -> None:
        assert roster.ordinal_of(seen, member(1, text)) == ordinal

    @pytest.mark.parametrize("text", ["http://[c-0]:2380", "http://c]0:2380", "http://\u2100:2380"])
    def test_a_url_that_etcd_accepts_and_python_does_not_ended_each_pass(
        self, seen: Observation, text: str
    ) -> None:
        """It was added by hand. Nothing was done for the cluster any more, and its status reported
        an internal error."""
        odd = with_members(seen, *seen.etcd.members, member(9, text))

        assert isinstance(decide(odd), ApplyChild), "its budget follows the list first"
        assert roster.unknown_members(odd) == (member(9, text),)
        assert links.schemes_listed(odd) >= {"http"}
        assert links.with_schemes([text], ["https"]) == {text.replace("http:", "https:")}

    def test_any_of_several_urls_counts(self, seen: Observation) -> None:
        several = Member(1, "", ("http://10.0.0.1:2380", url(2)), learner=False)

        assert roster.ordinal_of(seen, several) == 2

    def test_seats_are_in_the_order_of_numbers(self) -> None:
        """F10: as text, c-10 would come before c-2. The limit is 7, so this compares the sort
        itself."""
        world = formed(7)

        assert [one.ordinal for one in roster.seats(world.observe())] == list(range(7))

    def test_a_declared_ordinal_has_a_seat_even_if_it_does_not_exist_yet(self) -> None:
        world = formed(1)
        world.edit(size=3)

        assert [one.ordinal for one in roster.seats(world.observe())] == [0, 1, 2]


class TestUnknownMembers:
    def test_a_member_at_no_ordinal(self, seen: Observation) -> None:
        stranger = member(9, "http://10.1.2.3:2380", "c-1")

        assert roster.unknown_members(with_members(seen, *seen.etcd.members, stranger)) == (
            stranger,
        )

    def test_all_but_the_first_of_two_at_one_ordinal(self, seen: Observation) -> None:
        twin = member(9, url(1))

        assert roster.unknown_members(with_members(seen, *seen.etcd.members, twin)) == (twin,)

    def test_none_without_a_member_list(self, seen: Observation) -> None:
        assert roster.unknown_members(replace(seen, etcd=None)) == ()

    @pytest.mark.parametrize("answers", [True, False], ids=["by its answer", "by its claim"])
    @pytest.mark.parametrize("number", [1, 2**64 - 1], ids=["listed first", "listed last"])
    def test_the_pods_own_member_was_to_be_removed_for_one_that_was_added_at_its_host(
        self, seen: Observation, number: int, answers: bool
    ) -> None:
        """By hand, with another scheme. Listed first, it took the place of the member that runs;
        listed last, the running member was reported as lost."""
        added = member(number, "http://c-1.c.ns.svc:2380")
        listed = sorted((*seen.etcd.members, added), key=lambda one: one.member_id)
        if not answers:
            seen = without_status(seen, 1)

        twins = with_members(seen, *listed)

        assert roster.unknown_members(twins) == (added,)
        assert roster.member_at(twins, 1) == roster.member_at(seen, 1)
        assert why_lost(twins, seat(twins, 1)) == ""

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(("before", "after"), [(3, 1), (5, 3), (2, 1)])
    def test_pods_of_members_with_other_peer_urls_were_stopped_when_the_size_was_lowered(
        self, before: int, after: int, storage: dict
    ) -> None:
        """I5: the list names none of their ordinals, and they are members all the same. Three that
        became one had no quorum any more."""
        world = formed(before, **storage)
        for number, one in world.etcd.members.items():
            elsewhere = replace(one, peer_urls=(f"https://lb-{number}.example.com:2380",))
            world.etcd.members[number] = elsewhere
        world.edit(size=after)

        rest = drive(world)

        assert rest.reason == "UnknownMember"
        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == before
        assert len(world.alive()) == before

    def test_one_of_them_that_was_silent_for_a_moment_was_restarted_for_an_edit(self) -> None:
        """I1: the node of c-0 is down, so the quorum needs it."""
        world = formed(3)
        for number, one in world.etcd.members.items():
            elsewhere = replace(one, peer_urls=(f"https://lb-{number}.example.com:2380",))
            world.etcd.members[number] = elsewhere
        world.edit(pod={"annotations": {"a": "b"}})
        drive(world)
        seen = with_pod(world.observe(), 0, ready=False, deleting=True, overdue=True)
        silent = without_status(with_pod(seen, 1, ready=False), 0, 1)

        assert "c-1" in silent.outdated
        assert not isinstance(decide(silent), DeletePod)

    def test_a_member_whose_peer_url_was_changed_by_hand_was_to_be_removed(self) -> None:
        """It serves, and gets its place back with its URL."""
        world = formed(3)
        number = roster.member_at(world.observe(), 2).member_id
        moved = replace(world.etcd.members[number], peer_urls=("https://10.0.0.9:2380",))
        world.etcd.members[number] = moved

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "which runs in pod c-2: somebody has changed its peer URLs" in rest.message
        assert f"etcdctl member update {number:016x} --peer-urls={url(2)}" in rest.message
        assert "member remove" not in rest.message

        world.etcd.members[number] = replace(moved, peer_urls=(url(2),))
        assert drive(world) == Settled()

    @pytest.mark.parametrize("ordinal", [1, 3])
    def test_a_member_of_a_similar_name_elsewhere_was_taken_for_one_of_ours(
        self, ordinal: int
    ) -> None:
        """It was removed as a surplus member, or our own member was reported as the unknown one to
        remove."""
        world, where = formed(3), f"https://c-{ordinal}.c.elsewhere.svc:2380"
        stranger = member(1, where, f"c-{ordinal}")
        world.etcd.members = {1: stranger, **world.etcd.members}

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.message.startswith(f"the member list has 0000000000000001 at {where}, which")
        assert 1 in world.etcd.members
        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3

    @pytest.mark.parametrize("where", ["http://10.1.2.3:2380", "http://c-1.c.ns.svc:2380"])
    def test_hold_the_membership_and_are_named(self, where: str) -> None:
        world = formed(3)
        world.etcd.members[0x63] = member(0x63, where, learner=True)
        world.edit(size=5)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "UnknownMember"
        assert f"0000000000000063 at {where}" in rest.message
        assert len(world.etcd.members) == 4

    def test_do_not_keep_children_from_being_put_back(self) -> None:
        world = formed(3)
        world.etcd.members[0x63] = member(0x63, "http://x:2380", learner=True)
        del world.objects["Service", "c-client"]

        assert drive(world).reason == "UnknownMember"
        assert ("Service", "c-client") in world.objects

    def test_are_forgotten_once_they_are_off_the_list(self) -> None:
        world = formed(1)
        world.etcd.members[0x63] = member(0x63, "http://x:2380", learner=True)
        assert isinstance(drive(world), Hold)
        del world.etcd.members[0x63]

        assert not isinstance(decide(world.observe()), Hold)


class TestWhoServes:
    def test_a_voter_that_answers_for_itself_and_hears_a_leader(self, seen: Observation) -> None:
        assert all(seat(seen, one).serves for one in range(3))

    def test_not_one_that_does_not_answer(self, seen: Observation) -> None:
        assert not seat(without_status(seen, 1), 1).serves

    def test_not_one_whose_address_another_member_has(self, seen: Observation) -> None:
        """Addresses are reused."""
        assert not seat(with_status(seen, 1, member_id=9), 1).serves

    def test_not_one_without_a_leader(self, seen: Observation) -> None:
        assert not seat(with_status(seen, 1, leader_id=0), 1).serves

    def test_not_a_learner(self, seen: Observation) -> None:
        first, second, third = seen.etcd.members
        found = with_members(seen, first, replace(second, learner=True), third)

        assert not seat(found, 1).serves
        assert seat(found, 1).is_learner
        assert [one.ordinal for one in roster.voters(found)] == [0, 2]
        assert roster.learner(found) == seat(found, 1)

    def test_none_without_a_member_list(self, seen: Observation) -> None:
        assert not any(one.serves for one in roster.seats(replace(seen, etcd=None)))

    def test_one_that_is_ready_and_does_not_answer_is_waited_for(self, seen: Observation) -> None:
        silent = without_status(seen, 1)
        assert decide(silent) == Wait("etcd in c-1 to answer", soon=True)
        refusing = with_pod(silent, 1, no_handshake="it ended the TLS connection")
        said = "etcd in c-1 (it ended the TLS connection) to answer"
        assert decide(refusing) == Wait(said, soon=True)

    def test_only_one_leads(self, seen: Observation) -> None:
        assert sum(one.leads for one in roster.seats(seen)) == 1


@pytest.mark.parametrize(
    ("size", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)]
)
def test_a_quorum(size: int, quorum: int) -> None:
    assert roster.quorum(size) == quorum


class TestRestHolds:
    @pytest.mark.parametrize(
        ("size", "down", "without", "holds"),
        [
            (1, [], 0, False),
            (2, [], 0, True),
            (2, [0], 0, True),
            (2, [1], 0, False),
            (3, [], 0, True),
            (3, [0], 0, True),
            (3, [1], 0, False),
            (5, [0, 1], 0, True),
            (5, [1], 0, True),
            (5, [1, 2], 0, False),
            (4, [1], 0, True),
        ],
    )
    def test_a_quorum_of_the_remaining_members_serves(
        self, size: int, down: list[int], without: int, *, holds: bool
    ) -> None:
        seen = without_status(formed(size).observe(), *down)

        assert roster.keeps_quorum_without(seen, seat(seen, without)) is holds

    def test_a_learner_does_not_count(self, seen: Observation) -> None:
        first, second, third = seen.etcd.members
        found = with_members(seen, first, second, replace(third, learner=True))

        assert not roster.keeps_quorum_without(without_status(found, 1), seat(found, 0))

    def test_a_pod_that_is_stopping_does_not_count(self, seen: Observation) -> None:
        """I1: it still answers, but not for long."""
        assert not roster.keeps_quorum_without(with_pod(seen, 1, deleting=True), seat(seen, 0))

    def test_a_member_whose_disk_hangs_does_not_count(self, seen: Observation) -> None:
        """I1: its etcd answers from memory."""
        assert not roster.keeps_quorum_without(with_pod(seen, 1, ready=False), seat(seen, 0))


class TestLeader:
    def test_a_leader_of_the_past_goes_on_naming_itself(self, seen: Observation) -> None:
        """Its disk hangs."""
        leads = [one for one in roster.voters(seen) if one.leads]
        assert len(leads) == 1
        other = next(one for one in roster.voters(seen) if not one.leads)
        term, itself = other.status.term - 1, other.status.member_id

        found = with_status(seen, other.ordinal, term=term, leader_id=itself)

        assert [one.name for one in roster.voters(found) if one.leads] == [leads[0].name]
        assert roster.leader_id(found) == leads[0].status.member_id


class TestCaughtUp:
    @pytest.mark.parametrize(("applied", "enough"), [(0, False), (89, False), (90, True)])
    def test_close_to_the_highest_index(
        self, seen: Observation, applied: int, *, enough: bool
    ) -> None:
        found = with_status(seen, 2, applied_index=applied)

        assert roster.has_caught_up(found, seat(found, 2)) is enough

    def test_not_by_the_status_of_another_member(self, seen: Observation) -> None:
        found = with_status(seen, 2, member_id=9)

        assert not roster.has_caught_up(found, seat(found, 2))

    def test_not_without_its_own_status(self, seen: Observation) -> None:
        found = without_status(seen, 2)

        assert not roster.has_caught_up(found, seat(found, 2))


class TestHadTicket:
    """I3: a member that had a ticket never gets another."""

    def test_another_run_than_the_one_in_the_ledger_waits(self) -> None:
        world = formed(3)
        world.empty(1)
        world.turn()
        seen = world.observe()

        assert seat(seen, 1).volume_is_empty
        assert roster.had_ticket(seen, seat(seen, 1))

    def test_not_for_the_run_in_the_ledger(self) -> None:
        world = formed(3)
        world.edit(size=4)
        until(world, "push c-3 existing")
        seen = world.observe()

        assert not roster.had_ticket(seen, seat(seen, 3))

    def test_not_for_a_member_that_never_had_one(self) -> None:
        world = formed(3)
        world.edit(size=4)
        until(world, "ledger 4")
        seen = world.observe()

        assert seat(seen, 3).is_learner
        assert not roster.had_ticket(seen, seat(seen, 3))

    def test_not_for_a_first_member_that_was_listed_before_it_started(self) -> None:
        """The others have formed the cluster without it."""
        world = formed(3)
        first = world.record.members[2].member_id
        issued = tuple(one for one in world.record.issued if one[0] != first)
        world.secret = (world.secret[0], replace(world.record, issued=issued))
        world.empty(2)
        for _ in range(2):
            world.turn()
        seen = world.observe()

        assert seat(seen, 2).volume_is_empty
        assert seat(seen, 2).member.name
        assert not roster.had_ticket(seen, seat(seen, 2))

    @pytest.mark.parametrize("known_by", ["name", "claim"])
    def test_other_traces_replace_a_lost_ledger(self, known_by: str) -> None:
        world = formed(3)
        world.lose_secret()
        until(world, "CreateSecret")
        world.apply(decide(world.observe()))
        world.empty(1)
        for _ in range(2):
            world.turn()
        seen = world.observe()
        first, second, third = seen.etcd.members
        if known_by == "claim":
            record = replace(seen.claims[0].record, member_id=second.member_id)
            seen = with_members(seen, first, replace(second, name=""), third)
            assert not roster.had_ticket(seen, seat(seen, 1))
            seen = with_claim(seen, 1, record=record)

        assert seat(seen, 1).volume_is_empty
        assert roster.had_ticket(seen, seat(seen, 1))

    def test_not_where_there_is_no_member(self, seen: Observation) -> None:
        found = with_members(seen, *seen.etcd.members[:2])

        assert not roster.had_ticket(found, seat(found, 2))


class TestRecord:
    def test_the_claim_names_the_member(self, seen: Observation) -> None:
        assert seat(seen, 0).record == seen.claims[0].record is not None

    def test_with_an_empty_dir_the_pod_names_it(self) -> None:
        seen = formed(1, **EMPTY_DIR).observe()

        assert seat(seen, 0).record == seen.pods[0].record is not None

    def test_nothing_without_either(self, seen: Observation) -> None:
        assert seat(replace(seen, claims=()), 0).record is None
        assert seat(replace(formed(1, **EMPTY_DIR).observe(), pods=()), 0).record is None


class TestFound:
    def waiting(self) -> World:
        world = World(body(1))
        while not world.pods:
            world.apply(decide(world.observe()))
            world.turn()
        return world

    def test_what_start_reports(self) -> None:
        seen = self.waiting().observe()

        assert seat(seen, 0).found == "no-data"
        assert seat(seen, 0).volume_is_empty

    @pytest.mark.parametrize("change", [{"deleting": True}, {"in_start": False}, {"answer": None}])
    def test_an_outdated_answer_is_ignored(self, change: dict) -> None:
        seen = with_pod(self.waiting().observe(), 0, **change)

        assert seat(seen, 0).found == ""
        assert not seat(seen, 0).volume_is_empty

    def test_nothing_without_a_pod(self) -> None:
        assert seat(replace(self.waiting().observe(), pods=()), 0).found == ""


def test_without_a_member_list_no_ordinal_has_a_member(seen: Observation) -> None:
    assert roster.member_at(seen, 1).peer_urls == (url(1),)
    assert roster.member_at(replace(seen, etcd=EtcdView(1, ())), 1) is None
    assert roster.member_at(replace(seen, etcd=None), 1) is None


class TestATakenName:
    """The StatefulSet controller lets go of a pod whose labels somebody has removed, and cannot
    create its own. Each wait went on for ever without saying so."""

    def without_labels(self, *ordinals: int, **spec: Any) -> World:
        world = formed(3, **spec)
        for ordinal in ordinals:
            world.pods[ordinal].hidden = True
        return world

    def leader(self) -> int:
        seen = formed(3).observe()
        return next(one for one in range(3) if seat(seen, one).leads)

    def waits(self, seen: Observation, *words: str) -> None:
        step = decide(seen)
        assert isinstance(step, Wait)
        assert not [one for one in words if one not in step.reason]

    def test_of_a_member(self) -> None:
        follower = (self.leader() + 1) % 3
        seen = self.without_labels(follower).observe()

        self.waits(
            seen,
            f"pod c-{follower} to be created; there is a pod of this name without the labels",
            f"(kubectl label pod c-{follower} --overwrite app.kubernetes.io/name=etcd ",
            "or delete that pod",
        )
        assert "with its data" not in decide(seen).reason

    def test_of_a_member_whose_data_would_go_with_the_pod(self) -> None:
        follower = (self.leader() + 1) % 3
        world = self.without_labels(follower, pod={"emptyDir": {}})

        self.waits(world.observe(), "or delete that pod with its data")

    def test_of_a_quorum(self) -> None:
        seen = self.without_labels(0, 1, 2).observe()

        self.waits(seen, "c-0 has no pod (there is a pod of", "kubectl label pod c-1")

    def test_of_the_leader_that_is_to_be_asked(self) -> None:
        world = formed(5)
        world.edit(size=3)
        leader = next(one for one in range(3) if seat(world.observe(), one).leads)
        world.pods[leader].hidden = True

        self.waits(world.observe(), f"pod c-{leader} to be created; there is a pod of this name")

    @pytest.mark.parametrize(
        ("passing", "words"),
        [
            (True, "is being deleted (if its node is off"),
            (False, "belongs to Deployment x: delete"),
        ],
    )
    def test_by_another_pod(self, passing: bool, words: str) -> None:
        seen = formed(3).observe()
        other = Foreign("Pod", "c-2", "Deployment x", passing=passing)

        self.waits(replace(seen, pods=seen.pods[:2], namesakes=(other,)), words)
