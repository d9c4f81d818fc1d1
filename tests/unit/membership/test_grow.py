"""Scale-up: members are added at vacant ordinals, lowest first, one by one, if they can start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import seat, with_claim, with_pod, without_status
from worlds import World, claim_gone, drive, formed, is_write, labels, until

from etcd_stateful.membership import awaited
from etcd_stateful.membership.members import changes, grow
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import MemberAddLearner, Settled, Step, Wait

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def grown(before: int, after: int, **spec: object) -> World:
    world = formed(before, **spec)
    world.history.clear()
    world.edit(size=after)
    return world


def test_the_whole_chain() -> None:
    """All new pods are created at once and wait. Then one after the other joins as a learner and is
    promoted."""
    world = grown(3, 5)

    assert drive(world) == Settled()

    assert labels(world.history) == [
        "size 5",
        "StatefulSet c",
        "add c-3",
        "PodDisruptionBudget c",
        "ledger 4",
        "record data-c-3",
        "push c-3 existing",
        "promote c-3",
        "add c-4",
        "ledger 5",
        "record data-c-4",
        "push c-4 existing",
        "promote c-4",
    ]


def test_every_other_serving_member_is_named_as_a_substitute_for_the_leader() -> None:
    """etcd issue 14523: the leader may believe for good that a peer which restarted is
    unreachable."""
    world = grown(4, 5)
    until(world, "add c-4")
    seen = world.observe()
    leads, leaves, *rest = sorted(range(4), key=lambda one: not seat(seen, one).leads)

    asked = changes.leader(with_pod(seen, leaves, deleting=True))

    assert asked is not None
    assert asked.member_id == world.data(leads).member_id
    assert [one.member_id for one in asked.others] == [world.data(one).member_id for one in rest]


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
@pytest.mark.parametrize(
    ("before", "after"), [(one, other) for one in range(1, 7) for other in range(one + 1, 8)]
)
def test_from_any_size_to_any_above(before: int, after: int, storage: dict) -> None:
    world = grown(before, after, **storage)

    assert drive(world) == Settled()
    added = [one for one in labels(world.history) if one.startswith("add")]
    assert added == [f"add c-{one}" for one in range(before, after)]
    assert len(world.etcd.voters) == after


def test_never_a_voter_straight_away() -> None:
    """F8: at 1 -> 2 a second voter that never starts costs the quorum."""
    world = grown(1, 2)
    world.stuck = {1}
    drive(world)
    assert len(world.etcd.voters) == 1
    world.stuck = set()
    until(world, "push c-1 existing")

    assert (len(world.etcd.voters), len(world.etcd.learners)) == (1, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_another_size_half_way(size: int) -> None:
    """F11"""
    world = grown(3, 7)
    until(world, "add c-5")
    world.edit(size=size)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == size


def test_the_lowest_vacant_ordinal_comes_first() -> None:
    world = formed(5)
    for ordinal in (1, 3):
        world.claims[ordinal].data = None
        world.restart_pod(ordinal)
    until(world, "add c-1")
    world.apply(decide(world.observe()))

    assert [world.seat(one) for one in world.etcd.learners] == [1]


@pytest.fixture(scope="module")
def seen() -> Observation:
    """A cluster to which c-3 is about to be added."""
    world = grown(3, 4)
    until(world, "add c-3")
    return world.observe()


class TestWhoMayJoin:
    def test_a_pod_that_waits_with_an_empty_volume(self, seen: Observation) -> None:
        step = decide(seen)

        assert isinstance(step, MemberAddLearner)
        assert step.peer_url == "https://c-3.c.ns.svc:2380"
        assert step.leader.address == f"10.0.0.{next(o for o in range(3) if seat(seen, o).leads)}"

    @pytest.mark.parametrize(
        "change",
        [
            {"answer": None},
            {"deleting": True},
            {"in_start": False},
            {"image": "registry.example/etcd:v3.7.3", "spec_hash": "of an edit"},
        ],
        ids=["silent", "stopping", "not in start", "an image that nobody runs"],
    )
    def test_no_pod_that_cannot_start(self, seen: Observation, change: dict) -> None:
        assert not is_write(decide(with_pod(seen, 3, **change)))

    def test_no_pod_whose_claim_is_being_deleted(self, seen: Observation) -> None:
        going = with_claim(seen, 3, deleting=True)

        assert not isinstance(decide(going), MemberAddLearner)
        assert grow.add_lowest(going) is None

    def test_no_pod_whose_claim_is_not_seen(self, seen: Observation) -> None:
        assert not isinstance(decide(replace(seen, claims=seen.claims[:3])), MemberAddLearner)

    @pytest.mark.parametrize("found", ["unreadable", "foreign-data", "damaged"])
    def test_no_pod_whose_volume_is_not_known_to_be_empty(
        self, seen: Observation, found: str
    ) -> None:
        answer = seen.pods[3].answer
        finding = replace(answer.finding, found=found)
        other = with_pod(seen, 3, answer=replace(answer, finding=finding))

        assert not is_write(decide(other))

    def test_no_pod_beyond_the_size(self, seen: Observation) -> None:
        smaller = replace(seen, cluster=replace(seen.cluster, size=3))

        assert not isinstance(decide(smaller), MemberAddLearner)

    def test_an_image_that_no_serving_member_runs_is_not_proven(self) -> None:
        """The only member that runs it does not serve."""
        world = grown(5, 6)
        until(world, "add c-5")
        seen = world.observe()
        follower = next(one for one in range(5) if not seat(seen, one).leads)
        new = {"image": "new", "spec_hash": "of an edit"}
        other = with_pod(with_pod(seen, 5, **new), follower, **new)
        assert isinstance(grow.add_lowest(other), MemberAddLearner)

        assert grow.add_lowest(without_status(other, follower)) is None


class TestWhatEtcdWouldRefuse:
    """etcd counts as if the new member were there: of 3 voters all must serve, of 5 one may be
    down."""

    @pytest.mark.parametrize(
        ("size", "down", "added"),
        [(1, 0, True), (2, 1, False), (3, 1, False), (4, 1, True), (5, 1, True), (5, 2, False)],
    )
    def test_is_not_requested(self, size: int, down: int, *, added: bool) -> None:
        world = grown(size, size + 1)
        until(world, f"add c-{size}")
        seen = world.observe()
        followers = [one for one in range(size) if not seat(seen, one).leads]

        step = decide(without_status(seen, *followers[:down]))

        assert isinstance(step, MemberAddLearner) is added
        if not added:
            assert isinstance(step, Wait)
            assert step.reason.endswith(f"to serve, so that c-{size} can be added")

    def test_is_requested_once_they_serve(self) -> None:
        world = grown(3, 4)
        world.pods[1].silent = True
        assert drive(world) == Wait("c-1 to serve, so that c-3 can be added", soon=True)
        world.pods[1].silent = False

        assert drive(world) == Settled()

    def test_an_absent_leader_is_waited_for(self) -> None:
        world = grown(5, 6)
        until(world, "add c-5")
        seen = world.observe()
        leader = next(one for one in range(5) if seat(seen, one).leads)

        assert decide(without_status(seen, leader)) == Wait(
            f"the leader, c-{leader}, to answer", soon=True
        )


class TestImages:
    def test_growth_and_a_new_image_in_one_edit(self) -> None:
        """A pod that cannot start never becomes a member, so a rolling restart proves the image
        first."""
        world = grown(3, 5)
        world.edit(repository="registry.example/etcd")

        assert drive(world) == Settled()

        steps = labels(world.history)
        first = next(one for one in steps if one.startswith("restart"))
        assert steps.index(first) < steps.index("add c-3")
        assert {pod.image for pod in world.pods.values()} == {"registry.example/etcd:v3.7.3"}

    @pytest.mark.parametrize("size", [1, 2])
    def test_with_no_member_to_spare_the_learner_proves_the_image(self, size: int) -> None:
        """No quorum depends on a learner. Restarting a voter would leave no serving member."""
        world = grown(size, 5)
        world.edit(repository="registry.example/etcd")
        world.bad_images = {"3.7.3"}
        drive(world)
        assert len(world.etcd.voters) == size
        world.bad_images = set()

        assert drive(world) == Settled()

        steps = labels(world.history)
        first = next(one for one in steps if one.startswith("restart"))
        assert steps.index(f"promote c-{size}") < steps.index(first)
        assert {pod.image for pod in world.pods.values()} == {"registry.example/etcd:v3.7.3"}

    def test_growth_with_an_image_that_cannot_be_pulled_adds_nobody(self) -> None:
        world = formed(3, version="3.7.1")
        world.bad_images = {"3.7.3"}
        world.edit(version="3.7.3")
        until(world, "restart c-2")
        world.edit(size=5)

        drive(world)

        assert len(world.etcd.members) == 3

    @pytest.mark.parametrize("lost", [None, 1])
    def test_an_image_that_admission_rewrites_in_new_pods_kept_them_waiting(
        self, lost: int | None
    ) -> None:
        """No member ran that image, and no restart was due that could have proved it."""
        world = formed(5)
        world.mirror = "mirror.example"
        if lost is None:
            world.edit(size=6)
        else:
            world.empty(lost)

        assert drive(world) == Settled()
        assert "mirror.example/etcd:v3.7.3" in {pod.image for pod in world.pods.values()}

    def test_the_first_pod_with_a_new_image_loses_its_volume(self) -> None:
        """No member runs that image yet, and the pod cannot be a member before one does."""
        world = formed(3)
        world.edit(repository="registry.example/etcd")
        step = until(world, "restart c-2")
        world.apply(step)
        world.claims[2].deleting = True

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 3


class TestClaimsLeftBehind:
    def test_a_removed_members_claim_in_the_way_goes_first(self) -> None:
        world = grown(3, 2)
        until(world, "delete data-c-2")
        world.edit(size=3)

        step = decide(world.observe())

        assert labels([step]) == ["delete data-c-2"]

    def test_one_that_is_being_deleted_is_waited_for(self) -> None:
        world = grown(3, 2)
        world.apply(until(world, "delete data-c-2"))
        world.edit(size=3)

        assert decide(world.observe()) == claim_gone(2)

    def stuck(self) -> World:
        """A cluster that is to grow again, and a finalizer keeps the old claim."""
        world = grown(5, 4)
        world.apply(until(world, "delete data-c-4"))
        world.stuck_claims.add(4)
        world.edit(size=5)
        return world

    def test_one_that_stayed_kept_a_lost_member_from_being_replaced(self) -> None:
        """Everything waited for the claim."""
        world = self.stuck()
        world.empty(1)

        assert drive(world) == claim_gone(4)
        assert len(world.etcd.voters) == 4
        assert world.serving() == {0, 1, 2, 3}

    def test_a_pod_that_does_not_serve_is_reported_before_it(self) -> None:
        world = self.stuck()
        world.stuck.add(1)
        world.restart_pod(1)

        assert drive(world) == Wait("pod c-1 to become ready")

    def test_the_ordinals_below_it_grow(self) -> None:
        world = self.stuck()
        world.edit(size=3)
        drive(world)
        world.edit(size=5)

        assert drive(world) == claim_gone(4)
        assert len(world.etcd.voters) == 4
        world.stuck_claims.clear()
        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 5

    @pytest.mark.parametrize(
        "edit", [{"version": "3.7.2"}, {"pod": {"labels": {"a": "1"}}}], ids=["version", "pod"]
    )
    def test_one_that_stayed_kept_every_other_edit_away(self, edit: dict) -> None:
        world = self.stuck()
        before = {one.uid for one in world.pods.values()}
        world.edit(**edit)

        assert drive(world) == claim_gone(4)

        assert not before & {one.uid for one in world.pods.values()}
        assert world.record.before == ""

    def test_it_is_waited_for_if_no_member_can_be_spared(self) -> None:
        """A restart would be an outage, which the third member spares the clients."""
        world = grown(3, 2)
        world.apply(until(world, "delete data-c-2"))
        world.stuck_claims.add(2)
        world.edit(size=3, pod={"labels": {"a": "1"}})

        assert drive(world) == claim_gone(2)
        world.stuck_claims.clear()
        assert drive(world) == Settled()

    def test_one_that_stayed_kept_a_deleted_stateful_set_away(self) -> None:
        """The node of its pod was off, so the pod stayed too, of a StatefulSet that was gone. The
        other members had all their data, and no pods."""
        world = formed(3)
        world.delete_stateful_set(with_pods=True)
        world.turn()
        world.stuck_claims.add(2)
        world.claims[2].deleting = True

        assert drive(world) == Wait(f"pod c-2 to be created; it waits for {claim_gone(2).reason}")
        assert world.serving() == {0, 1}

    def test_one_without_a_record_and_empty_is_used(self) -> None:
        """A pod that was scaled up by hand waited in `start` and was deleted again."""
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 4
        world.turn()
        drive(world)
        assert 3 in world.claims
        world.edit(size=4)

        assert drive(world) == Settled()

    def test_a_claim_with_the_data_of_another_cluster_holds(self) -> None:
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 4
        world.turn()
        drive(world)
        world.claims[3].data = replace(world.claims[0].data, member="c-3", cluster_uid="other")
        world.edit(size=4)

        rest = drive(world)

        assert rest.reason == "ForeignData"
        assert len(world.etcd.members) == 3


def test_one_down_among_four_does_not_stop_growth_to_five() -> None:
    """F24"""
    world = grown(4, 5)
    world.pods[0].silent = True

    drive(world)

    assert len(world.etcd.voters) == 5


@pytest.mark.parametrize("point", range(1, 12))
def test_the_operator_may_die_between_any_two_steps_of_a_resize(point: int) -> None:
    """F9"""
    world = grown(3, 5)
    while len(world.history) < point:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    for _ in range(5):
        world.turn()

    assert drive(world) == Settled()
    added = [one for one in labels(world.history) if one.startswith("add")]
    assert added == ["add c-3", "add c-4"]


class TestTiedToAFullNode:
    """A volume lies where its pod was placed first. That pod may have given way since."""

    def seen(self) -> Observation:
        world = grown(3, 4)
        world.stuck = {3}
        drive(world, idle=3)
        tied = {"crowded_out": True, "trouble": "cannot be scheduled"}
        return with_pod(world.observe(), 3, **tied)

    def test_nothing_said_that_the_claim_of_a_pod_that_is_no_member_yet_can_be_deleted(
        self,
    ) -> None:
        assert decide(self.seen()) == Wait(
            "pod c-3: cannot be scheduled. No member has used claim data-c-3 yet: if its volume "
            "ties the pod to a node without room, delete the claim, and the pod gets another"
        )

    def test_a_claim_that_may_have_data_or_has_no_volume_is_not_to_be_deleted(self) -> None:
        seen, bare = self.seen(), Wait("pod c-3: cannot be scheduled")
        held = seen.claims[0].record

        for claim in ({"record": held}, {"damage": "x"}, {"phase": "Pending"}, {"deleting": True}):
            assert awaited.unserving_pod(with_claim(seen, 3, **claim)) == bare
        assert awaited.unserving_pod(with_pod(seen, 3, crowded_out=False)) == bare
        without = awaited.unserving_pod(replace(seen, etcd=None))
        assert isinstance(without, Wait)
        assert without.reason.endswith("; also pod c-3: cannot be scheduled")

    def test_nor_is_that_of_a_member_whose_record_was_removed(self) -> None:
        seen = with_claim(formed(3).observe(), 1, record=None)
        crowded = {"ready": False, "crowded_out": True, "trouble": "no room"}

        assert decide(with_pod(seen, 1, **crowded)) == Wait("pod c-1: no room")


def test_there_are_never_two_learners() -> None:
    world = grown(1, 7)
    most: list[int] = []

    def note(_: Step) -> None:
        most.append(len(world.etcd.learners))

    assert drive(world, each=note) == Settled()
    assert max(most) == 1
