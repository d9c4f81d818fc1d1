"""Without a quorum nothing destructive is done, the cause is reported, and the cluster recovers
alone if it can."""

from __future__ import annotations

from dataclasses import replace

import pytest
import recovery_world
from recovery_world import RecoveryWorld
from views import with_pod
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.membership.epochs import quorum, survivor
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Wait
from etcd_stateful.observed.members import Member
from etcd_stateful.start.ticket import Finding
from etcd_stateful.versions import Version
from model.world.told import recovery_in

BY_HAND = 0xBAD
STATIC = {"static": {"member": {"serverSecret": "s"}, "operatorSecret": "o"}}
EMPTY_DIR = {"pod": {"emptyDir": {}}}


def down(size: int, *ordinals: int, **spec: object) -> World:
    world = formed(size, **spec)
    for ordinal in ordinals:
        world.pods[ordinal].silent = True
    world.history.clear()
    return world


def wiped(size: int, *ordinals: int, **spec: object) -> World:
    world = formed(size, **spec)
    for ordinal in ordinals:
        world.empty(ordinal)
    world.turn()
    world.history.clear()
    return world


class TestMayComeBack:
    def test_nothing_was_said_of_members_whose_disks_hang(self) -> None:
        """As when the storage of all is away: each answers from memory, and names a leader."""
        world = formed(3)
        for pod in world.pods.values():
            pod.hangs = (world.etcd.leader, world.etcd.term)

        rest = drive(world)

        assert isinstance(rest, Wait)
        for name in ("c-0", "c-1", "c-2"):
            assert (
                f"{name} names a leader and is not Ready: its disk may hang, or it lacks CPU"
                in rest.reason
            )

    @pytest.mark.parametrize(
        ("size", "ordinals"), [(1, [0]), (2, [1]), (3, [0, 2]), (5, [0, 1, 2])]
    )
    def test_is_waited_for_and_named(self, size: int, ordinals: list[int]) -> None:
        """F14"""
        world = down(size, *ordinals)

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert rest.soon
        assert rest.reason.startswith("a quorum to answer: ")
        assert all(f"c-{ordinal} does not answer" in rest.reason for ordinal in ordinals)
        assert world.history == []

    def test_is_said_to_be_kept_from_the_operator(self) -> None:
        world = down(3, 0, 2)
        drive(world)
        seen = with_pod(world.observe(), 0, unanswered="10.0.0.1:2378: Connection refused", age=60)

        rest = decide(seen)

        assert isinstance(rest, Wait)
        assert "c-0 does not answer (10.0.0.1:2378: Connection refused; nothing" in rest.reason

    @pytest.mark.parametrize(("links", "told"), [(STATIC, True), ({}, False)])
    def test_after_a_swap_of_the_authority_nothing_said_why_members_refuse_the_operator(
        self, links: dict[str, object], told: bool
    ) -> None:
        """etcd reads its certificate for each handshake, but its authorities only at its start."""
        seen = down(3, 0, 2).observe()
        cluster = parse_cluster(body(3, TLS=links))
        links = cluster.requested_links.over(seen.cluster.links)
        seen = replace(seen, cluster=replace(seen.cluster, links=links))

        rest = quorum.missing(with_pod(seen, 0, no_handshake="10.0.0.1:2379 ended it"))

        assert isinstance(rest, Wait)
        assert "c-0 does not answer (10.0.0.1:2379 ended it); c-1" in rest.reason
        assert ("put the previous content of Secrets s and o back" in rest.reason) is told

    @pytest.mark.parametrize(
        ("size", "ordinals"), [(1, [0]), (2, [1]), (3, [0, 2]), (5, [0, 1, 2])]
    )
    def test_ends_by_itself(self, size: int, ordinals: list[int]) -> None:
        world = down(size, *ordinals)
        drive(world)
        for pod in world.pods.values():
            pod.silent = False

        assert drive(world) == Settled()
        assert world.history == []

    def test_members_without_a_leader_are_named_too(self) -> None:
        rest = drive(down(3, 0, 1))

        assert "c-2 runs without a leader" in rest.reason

    @pytest.mark.parametrize(("size", "grown"), [(1, 2), (1, 3), (2, 5), (3, 7)])
    def test_a_moment_of_silence_during_growth_is_not_a_lost_quorum(
        self, size: int, grown: int
    ) -> None:
        """Ordinals that wait for growth have empty volumes, and the quorum was reported as lost."""
        world = formed(size)
        world.edit(size=grown)
        until(world, f"add c-{size}")
        seen = replace(world.observe(), etcd=None, statuses={})

        assert isinstance(decide(seen), Wait)

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(("size", "grown"), [(1, 2), (1, 3), (2, 5), (3, 7)])
    def test_members_that_were_down_during_growth_were_called_lost(
        self, size: int, grown: int, storage: dict
    ) -> None:
        """A recovery was suggested. It would have given up writes that only the other members
        had."""
        world = formed(size, **storage)
        world.edit(size=grown)
        until(world, f"add c-{size}")
        for ordinal in range(size):
            world.pods[ordinal].silent = world.pods[ordinal].crashing = True

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert rest.reason.startswith("a quorum to answer: c-0 does not answer")
        assert f"c-{grown - 1}" not in rest.reason

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(("size", "grown"), [(1, 2), (1, 3), (2, 3), (2, 5), (3, 4)])
    def test_a_learner_without_its_ticket_was_called_lost_while_the_others_were_down(
        self, size: int, grown: int, storage: dict
    ) -> None:
        """The disruption budget already counted it, and a recovery was suggested."""
        world = formed(size, **storage)
        world.edit(size=grown)
        world.apply(until(world, f"add c-{size}"))
        until(world, f"ledger {size + 1}")
        for ordinal in range(size):
            world.pods[ordinal].silent = world.pods[ordinal].crashing = True

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert rest.reason.startswith("a quorum to answer: c-0 does not answer")

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize("size", [2, 3])
    def test_a_lost_member_with_a_new_claim_is_not_taken_for_a_learner_without_a_ticket(
        self, size: int, storage: dict
    ) -> None:
        """The ledger has its ticket, whether it was a first member or joined later."""
        world = formed(1, **storage)
        world.edit(size=size)
        drive(world)
        for ordinal in range(1, size):
            world.claims.pop(ordinal, None)
            world.empty(ordinal)
        world.pods[0].silent = world.pods[0].crashing = True
        world.turn()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"

    def test_lost_members_are_distinguished_from_those_that_wait_for_growth(self) -> None:
        world = formed(3)
        world.edit(size=7)
        until(world, "add c-3")
        for ordinal in (0, 2):
            world.empty(ordinal)
        world.turn()

        rest = decide(world.observe())

        assert isinstance(rest, Hold)
        assert rest.message.startswith("the data of c-0, c-2 is lost")

    def test_a_ready_pod_without_a_leader_proves_nothing(self) -> None:
        world = wiped(3, 0, 1)
        seen = with_pod(world.observe(), 2, ready=True)
        assert seen.statuses[2].leader_id == 0

        step = decide(seen)

        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"

    def test_one_lost_volume_of_three_is_not_a_lost_quorum(self) -> None:
        world = wiped(3, 1)
        world.pods[0].silent = True

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert "c-1: its volume is empty" in rest.reason

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"deleting": True}, "c-0 is stopping"),
            (
                {"deleting": True, "overdue": True},
                "c-0 (its node does not confirm that it has stopped; if the node is off for good, ",
            ),
            ({"trouble": "image x cannot be pulled"}, "c-0: image x cannot be pulled"),
        ],
    )
    def test_each_with_its_cause(self, change: dict, words: str) -> None:
        seen = down(3, 0, 1).observe()

        assert words in decide(with_pod(seen, 0, **change)).reason

    def test_a_member_without_a_pod(self) -> None:
        """A quota may keep it away, and nothing said where to look."""
        seen = down(3, 0, 1).observe()

        step = quorum.missing(replace(seen, pods=seen.pods[1:]))

        assert "c-0 has no pod" in step.reason
        assert "the Events of StatefulSet c say what keeps it" in step.reason
        assert "the Events of" not in quorum.missing(seen).reason

    def test_a_member_that_has_its_ticket_is_starting(self) -> None:
        world = wiped(3, 0, 1)
        seen = world.observe()
        answer = replace(seen.pods[0].answer, finding=Finding("ticketed"))

        assert "c-0: is starting" in quorum.missing(with_pod(seen, 0, answer=answer)).reason

    def test_unreadable_volumes_are_not_lost(self) -> None:
        world = formed(3)
        for ordinal in (0, 1):
            world.claims[ordinal].unreadable = "I/O error"
            world.restart_pod(ordinal)
        world.turn()

        rest = quorum.missing(world.observe())

        assert isinstance(rest, Wait)
        assert "c-0: its volume cannot be read (I/O error)" in rest.reason

    def test_all_members_answer_but_the_list_could_not_be_read(self) -> None:
        seen = replace(formed(3).observe(), etcd=None)

        assert quorum.missing(seen) == Wait("a quorum to answer", soon=True)


class TestAVoterAddedByHandToTheOnlyMember:
    """etcd accepts it, and has no leader until that voter runs. The status only said that there was
    none."""

    def added(self, **spec: object) -> RecoveryWorld:
        world = recovery_world.formed(1, **spec)
        world.etcd.members[BY_HAND] = Member(BY_HAND, "", ("http://elsewhere:2380",), learner=False)
        return world

    def test_there_was_no_way_out_in_the_status(self) -> None:
        world = self.added()
        rest = decide(with_pod(world.observe(), 0, age=quorum.START_SECONDS))

        assert isinstance(rest, Wait)
        assert "c-0 runs without a leader. A member that is alone leads itself" in rest.reason
        assert "c-0 has all the data. To continue with it alone, set spec.recovery" in rest.reason

        world.edit(recovery=recovery_in(rest.reason))
        assert drive(world) == Settled()
        assert BY_HAND not in world.etcd.members

    def test_an_empty_dir_is_not_recovered(self) -> None:
        seen = self.added(**EMPTY_DIR).observe()
        rest = decide(with_pod(seen, 0, age=quorum.START_SECONDS))

        assert isinstance(rest, Wait)
        assert "c-0 has all the data. There is data in c-0" in rest.reason
        assert "spec.recovery" not in rest.reason

    def test_nobody_is_blamed_while_it_may_still_start(self) -> None:
        seen = with_pod(self.added().observe(), 0, age=quorum.START_SECONDS - 1)

        assert decide(seen) == Wait("a quorum to answer: c-0 runs without a leader", soon=True)


class TestLost:
    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(
        ("size", "ordinals"), [(1, [0]), (2, [0]), (3, [0, 1]), (3, [0, 1, 2]), (5, [1, 2, 4])]
    )
    def test_lost_members_are_named_with_the_cause_and_nothing_is_touched(
        self, size: int, ordinals: list[int], storage: dict
    ) -> None:
        """F13: even a total loss never leads to an empty cluster."""
        world = wiped(size, *ordinals, **storage)
        members = dict(world.etcd.members)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        names = ", ".join(f"c-{ordinal}" for ordinal in ordinals)
        assert rest.message.startswith(f"the data of {names} is lost")
        assert f"c-{ordinals[0]}: its volume is empty" in rest.message
        assert world.etcd.members == members
        assert not [one for one in labels(world.history) if one.startswith(("remove", "delete"))]

    @pytest.mark.parametrize("lost", [[1, 2], [0, 1, 2]])
    def test_a_way_out_was_suggested_that_an_empty_dir_does_not_have(self, lost: list[int]) -> None:
        """The message said that no data was left, though a member had its own. It suggested to
        bring a volume back, and to restore a backup in place, which need claims."""
        rest = drive(wiped(3, *lost, **EMPTY_DIR))

        assert isinstance(rest, Hold)
        assert "No member's data is left" not in rest.message
        assert "bring a volume back" not in rest.message
        assert ("There is data in c-0:" in rest.message) is (0 not in lost)
        assert "restore a backup into a new cluster with claims" in rest.message

    def test_a_member_that_runs_on_a_deleted_claim_was_said_to_have_no_data(self) -> None:
        """It ends with its pod, and had all that the cluster has written. Then a snapshot was to be
        saved in that pod, and would have ended with it."""
        world = wiped(2, 1)
        world.claims[0].deleting = True

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "No member's data is left" not in rest.message
        assert "There is data in c-0: as long as a pod lives, etcdctl snapshot" in rest.message
        assert "by kubectl port-forward to it makes a backup" in rest.message
        assert "No volume can be recovered: bring a volume back" in rest.message

    @pytest.mark.parametrize("size", [2, 4])
    def test_a_learner_was_counted_as_a_voter_who_may_come_back(self, size: int) -> None:
        """So the loss of the quorum was never reported, nor what to do: it has no vote."""
        world = formed(size)
        world.edit(size=size + 1)
        until(world, f"promote c-{size}")
        for ordinal in range(size // 2):
            world.claims[ordinal].data = None
            world.restart_pod(ordinal)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert f"the survivor that you choose: c-{size // 2} (index" in rest.message

    def test_an_edited_size_makes_no_quorum(self) -> None:
        """Members that were never added cannot come back."""
        world = wiped(3, 0, 1)
        world.edit(size=5)

        assert drive(world).reason == "QuorumLost"

    @pytest.mark.parametrize("how", ["damaged", "Lost", "node"])
    def test_also_for_volumes_that_cannot_be_used(self, how: str) -> None:
        world = formed(3)
        for ordinal in (0, 1):
            claim, pod = world.claims[ordinal], world.pods[ordinal]
            claim.damaged = "no record" if how == "damaged" else ""
            claim.phase = "Lost" if how == "Lost" else "Bound"
            pod.node_gone = how == "node"
            pod.where = "start" if how == "damaged" else "pending"
        world.stuck = {0, 1}

        rest = decide(world.observe())

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        waits = "If the volume of c-0, c-1 still exists, such as in a zone that has no node for a w"
        assert (waits in rest.message) is (how == "node"), "a recovery would lose what it has"

    def test_ends_once_the_volume_is_returned(self) -> None:
        """An empty directory was mounted first, and the right volume later."""
        world = formed(3)
        kept = [world.claims[ordinal].data for ordinal in (0, 1)]
        for ordinal in (0, 1):
            world.claims[ordinal].data = None
            world.restart_pod(ordinal)
        world.turn()
        assert drive(world).reason == "QuorumLost"
        for ordinal in (0, 1):
            world.claims[ordinal].data = kept[ordinal]
            world.restart_pod(ordinal)
        world.history.clear()

        assert drive(world) == Settled()
        assert world.history == []

    def test_a_first_member_that_never_started_does_not_count(self) -> None:
        world = formed(3)
        never = world.record.members[2].member_id
        world.secret = (
            world.secret[0],
            replace(
                world.record,
                issued=tuple(one for one in world.record.issued if one[0] != never),
            ),
        )
        for ordinal in (1, 2):
            world.empty(ordinal)
        world.turn()

        assert drive(world).reason == "QuorumLost"


def test_children_are_put_back_without_a_quorum() -> None:
    world = down(3, 0, 1)
    del world.objects["Service", "c-client"]

    assert labels([decide(world.observe())]) == ["Service c-client"]


def test_a_quorum_is_not_reported_as_missing_before_there_was_one() -> None:
    world = formed(1)
    seen = world.observe()
    record = replace(seen.secret.bootstrap, latched=False)
    unformed = replace(seen, etcd=None, secret=replace(seen.secret, bootstrap=record))

    assert quorum.missing(unformed) is None
    assert quorum.missing(seen) is None
    assert not is_write(decide(replace(seen, etcd=None)))


class TestThereNeverWasAny:
    """The Secret is lost after claims are on record, and before any member has run."""

    def lost(self, **spec: object) -> World:
        world = World(body(3, **spec))
        world.apply(until(world, "push c-0 new"))
        for ordinal in range(3):
            world.pods[ordinal].deleting = True
            if ordinal in world.claims:
                world.claims[ordinal].data = None
        world.lose_secret()
        return world

    def test_the_message_asked_for_data_that_never_existed(self) -> None:
        rest = drive(self.lost())

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert (
            "No member's data is left here, and nothing shows that there ever was any. If the "
            "cluster has never served, delete the EtcdCluster and its claims, and create it "
            "again; otherwise bring a volume back, or restore a backup"
        ) in rest.message

    @pytest.mark.parametrize("trace", ["status", "record", "ledger", "pod"])
    def test_is_not_assumed_if_anything_shows_that_there_was_data(self, trace: str) -> None:
        world = self.lost()
        drive(world)
        seen = world.observe()
        said = "nothing shows that there ever was any"
        assert said in survivor.ways_out(seen)
        assert seen.secret is not None
        record, of_one = world.record, replace(seen.secret, bootstrap=None)
        traces = {
            "status": replace(seen, last_version=Version(3, 7, 3)),
            "record": replace(seen, secret=replace(of_one, bootstrap=replace(record, attempt=1))),
            "ledger": replace(
                seen, secret=replace(of_one, bootstrap=replace(record, issued=((5, "a run"),)))
            ),
            "pod": with_pod(seen, 1, in_start=False),
        }

        assert said not in survivor.ways_out(traces[trace])
