"""From nothing to a settled cluster, with the operator killed at every point.

The operator keeps no state: `decide` is called again with whatever exists. A crash before a step
therefore repeats the same call, and a crash after it, or a lost answer, leaves a stale view.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace

import pytest
from views import DOWN, TRIED_AGAIN, with_pod
from worlds import (
    Conflict,
    Data,
    World,
    body,
    cluster,
    drive,
    formed,
    is_write,
    labels,
    until,
)

from etcd_stateful import identity
from etcd_stateful.membership import blocked
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    Hold,
    PushTicket,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding

SIZES = range(1, 8)
STORAGE = pytest.mark.parametrize(
    "storage", [{}, {"pod": {"emptyDir": {}}}], ids=["claims", "emptyDir"]
)


@STORAGE
@pytest.mark.parametrize("size", SIZES)
def test_a_cluster_of_any_size_settles_with_its_members_recorded(size: int, storage: dict) -> None:
    world = formed(size, **storage)

    assert world.record.latched
    assert len(world.members[world.record.cluster_id]) == size
    assert [member.member_id for member in world.record.members] == [
        world.data(ordinal).member_id for ordinal in range(size)
    ]


def test_the_whole_chain_of_a_cluster_of_three() -> None:
    assert labels(formed(3).history) == [
        "CreateSecret",
        "Service c",
        "StatefulSet c",
        "ledger 3",
        "record data-c-0",
        "record data-c-1",
        "record data-c-2",
        "push c-0 new",
        "push c-1 new",
        "latch",
        "Service c-client",
        "PodDisruptionBudget c",
        "push c-2 existing",
    ]


def test_with_an_empty_dir_the_member_is_recorded_on_the_pod() -> None:
    assert labels(formed(1, pod={"emptyDir": {}}).history) == [
        "CreateSecret",
        "Service c",
        "StatefulSet c",
        "ledger 1",
        "record c-0",
        "push c-0 new",
        "latch",
        "Service c-client",
        "PodDisruptionBudget c",
    ]


@STORAGE
@pytest.mark.parametrize("size", SIZES)
def test_steps_that_depend_on_each_other_are_in_order(size: int, storage: dict) -> None:
    history = formed(size, **storage).history
    at = {label: index for index, label in reversed(list(enumerate(labels(history))))}

    order = ["CreateSecret", "Service c", "StatefulSet c", f"ledger {size}", "latch"]
    assert [at[label] for label in order] == sorted(at[label] for label in order)
    assert at["Service c-client"] == at["latch"] + 1
    for index, step in enumerate(history):
        if isinstance(step, PushTicket):
            before = history[:index]
            assert any(_is_ledger_of(one, step) for one in before)
            assert any(_is_record_of(one, step) for one in before)


def _is_ledger_of(step: Step, push: PushTicket) -> bool:
    ticket = push.ticket
    return isinstance(step, WriteBootstrap) and (
        step.record.challenge(ticket.member_id) == ticket.challenge
    )


def _is_record_of(step: Step, push: PushTicket) -> bool:
    return isinstance(step, RecordMember) and step.record.member_id == push.ticket.member_id


@STORAGE
def test_the_same_view_always_leads_to_the_same_step(storage: dict) -> None:
    world = World(body(3, **storage))

    def again(step: Step) -> None:
        assert decide(world.observe()) == step

    assert drive(world, idle=2, each=again) == Settled()


@STORAGE
@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_step_whose_answer_was_lost_conflicts_or_changes_nothing(
    size: int, storage: dict
) -> None:
    """The operator is killed after the write, and its successor decides from the view before it."""
    world = World(body(size, **storage))
    for _ in range(60):
        stale = world.observe()
        step = decide(stale)
        if not is_write(step):
            world.turn()
            continue
        world.apply(step)
        repeated = decide(stale)
        assert repeated == step
        _apply_again(world, repeated)

    assert decide(world.observe()) == Settled()


def _apply_again(world: World, step: Step) -> None:
    before = _state(world)
    try:
        world.apply(step)
    except Conflict:
        pass
    else:
        assert isinstance(step, ApplyChild), f"{step} was done twice"
    assert _state(world) == before


def _state(world: World) -> object:
    """The state without the versions, which a repeated server-side apply may increase."""
    objects = copy.deepcopy(world.objects)
    for one in objects.values():
        del one["metadata"]["resourceVersion"]
    return repr((world.secret, objects, world.claims, world.pods, world.members))


@STORAGE
def test_two_operators_with_old_views_still_form_one_cluster(
    storage: dict,
) -> None:
    """There is no Lease and no order: each acts on what it saw one step before the other's
    write."""
    world = World(body(3, **storage))
    views = [world.observe(), world.observe()]
    for turn in range(200):
        step = decide(views[turn % 2])
        if is_write(step):
            with contextlib.suppress(Conflict):
                world.apply(step)
        else:
            world.turn()
        views[turn % 2] = world.observe()

    assert drive(world) == Settled()
    assert len(world.members) == 1


def test_the_operator_may_die_at_any_step_and_stay_away_for_a_while() -> None:
    for point in range(1, 13):
        world = World(body(3))
        for _ in range(40):
            if len(world.history) == point:
                break
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        for _ in range(5):
            world.turn()

        assert drive(world) == Settled(), f"killed after step {point}"


@pytest.mark.parametrize("point", range(12))
def test_all_pods_may_restart_at_any_point_and_the_cluster_forms_or_says_why_not(
    point: int,
) -> None:
    world = World(body(3))
    while len(world.history) < point:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    for ordinal in list(world.pods):
        world.restart_pod(ordinal)

    rest = drive(world)

    if any(world.data(ordinal) is None for ordinal in range(3)):
        assert getattr(rest, "reason", "") == "QuorumLost", rest
        assert not world.record.latched
    else:
        assert rest == Settled()


def test_members_get_what_is_in_the_record() -> None:
    world = formed(3)
    pushes = [step for step in world.history if isinstance(step, PushTicket)]

    assert {push.ticket.token for push in pushes} == {world.record.token}
    assert {push.ticket.cluster_id for push in pushes} == {world.record.cluster_id}
    assert pushes[0].ticket.initial_cluster == (
        "c-0=https://c-0.c.ns.svc:2380,c-1=https://c-1.c.ns.svc:2380,c-2=https://c-2.c.ns.svc:2380"
    )


def test_a_cluster_that_is_created_again_has_another_token() -> None:
    first, second = formed(3).record, formed(3, uid="another-uid").record

    assert first.token.startswith("4be0f3a2-")
    assert first.cluster_id != second.cluster_id
    assert not {one.member_id for one in first.members} & {one.member_id for one in second.members}


def test_a_size_that_is_edited_after_the_first_tickets_does_not_change_the_record() -> None:
    world = World(body(3))
    world.apply(until(world, "ledger 3"))
    world.edit(size=5)

    assert drive(world) == Settled()

    assert len(world.record.members) == 3
    steps = labels(world.history)
    assert steps.index("latch") < steps.index("add c-3") < steps.index("add c-4")


def test_why_start_does_not_answer_is_said_once_it_had_time_to_listen() -> None:
    """A service mesh or a policy that kept the operator away was in the log alone."""
    world = World(body(1))
    while not world.pods:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    world.pods[0].silent = True
    seen, why = world.observe(), "10.0.0.1:2378: no answer in time"

    young, old = (decide(with_pod(seen, 0, unanswered=why, age=age)) for age in (29.0, 30.0))

    assert young == Wait("pod c-0 to answer from its init container start")
    assert old == Wait(
        f"pod c-0 to answer from its init container start ({why}; nothing may keep the operator "
        "from that port, such as a network policy or a service mesh)"
    )


def test_a_pod_that_had_its_ticket_and_waited_for_its_name_seemed_to_wait_for_a_ticket() -> None:
    """If DNS fails, it waits for up to an hour, and nobody looked at DNS."""
    world = World(body(1, pod={"DNSTimeoutInSecond": 600}))
    until(world, "push c-0 new")
    seen = world.observe()
    answer = replace(seen.pods[0].answer, finding=Finding("ticketed"))

    step = decide(with_pod(seen, 0, answer=answer))

    assert step == Wait("DNS to resolve c-0.c.ns.svc to pod c-0, for at most 600 s")


class TestGathering:
    """Members that start together resolve each other's names at the first try."""

    def world(self) -> World:
        world = World(body(3))
        while not world.pods:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        return world

    def test_no_ticket_is_pushed_before_every_pod_waits(self) -> None:
        world = self.world()
        world.pods[2].silent = True

        step = decide(world.observe())

        assert step == Wait("pod c-2 to answer from its init container start")

    def test_a_pod_that_does_not_exist_yet_is_waited_for(self) -> None:
        world = self.world()
        del world.pods[1]

        assert decide(world.observe()) == Wait(
            "pod c-1 to be created; the Events of StatefulSet c say what keeps it"
        )

    def test_all_tickets_are_due_once_every_pod_waits(self) -> None:
        step = decide(self.world().observe())

        assert isinstance(step, WriteBootstrap)
        assert len(step.record.issued) == 3
        assert step.reason == "start tickets are entered in the ledger for c-0, c-1, c-2"

    def test_a_pod_that_has_taken_its_ticket_is_not_waited_for(self) -> None:
        """Its `start` no longer answers and its etcd does not run yet, so the others' tickets were
        late."""
        world = self.world()
        while labels(world.history)[-1:] != ["push c-0 new"]:
            world.apply(decide(world.observe()))
        world.pods[0].silent = True

        step = decide(world.observe())

        assert isinstance(step, PushTicket)
        assert step.pod == "c-1"

    @pytest.mark.parametrize(("age", "given"), [(9.0, False), (10.0, False), (10.1, True)])
    def test_the_slowest_pod_is_waited_for_ten_seconds(self, age: float, given: bool) -> None:
        world = self.world()
        world.pods[2].silent = True
        world.pods[0].age = age

        assert isinstance(decide(world.observe()), WriteBootstrap) is given

    @pytest.mark.parametrize("wrong", ["unreadable", "foreign"])
    def test_a_volume_that_is_not_known_to_be_empty_gets_no_ticket(self, wrong: str) -> None:
        world = self.world()
        if wrong == "unreadable":
            world.claims[1].unreadable = "I/O error"
        else:
            world.claims[1].data = Data("another-uid", "c-1", 7, 8)

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.reason == "start tickets are entered in the ledger for c-0, c-2"
        assert len(step.record.issued) == 2

    def test_a_pod_with_trouble_is_not_waited_for(self) -> None:
        world = self.world()
        world.pods[2].silent = True
        world.pods[2].trouble = "image x cannot be pulled"

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert len(step.record.issued) == 2

    def test_a_pod_that_already_runs_ends_the_gathering(self) -> None:
        world = World(body(3))
        world.stuck = {1, 2}
        drive(world)
        assert labels(world.history)[-1] == "push c-0 new"
        world.stuck = {2}
        for pod in world.pods.values():
            pod.age = 1.0
        world.turn()

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.reason == "start tickets are entered in the ledger for c-1"

    def test_a_pod_that_is_being_deleted_gets_no_ticket(self) -> None:
        world = self.world()
        world.pods[0].deleting = True
        for pod in world.pods.values():
            pod.age = 60.0

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert len(step.record.issued) == 2


def test_a_pod_that_never_starts_does_not_keep_the_others_from_forming() -> None:
    world = World(body(3))
    world.stuck = {1}

    rest = drive(world)

    assert world.record.latched
    assert rest == Wait("pod c-1 to become ready"), rest
    assert "Service c-client" in labels(world.history)


def test_a_late_first_member_joins_as_existing_with_the_id_it_was_given_in_advance() -> None:
    world = World(body(3))
    world.stuck = {2}
    drive(world)
    late = world.record.members[2]

    world.stuck = set()
    assert drive(world) == Settled()

    push = world.history[-1]
    assert isinstance(push, PushTicket)
    assert push.ticket.state == "existing"
    assert push.ticket.member_id == late.member_id
    assert push.ticket.initial_cluster == world.record.initial_cluster


def test_a_late_first_member_that_was_removed_joins_as_a_new_member() -> None:
    world = World(body(3))
    world.stuck = {2}
    drive(world)
    late = world.record.members[2].member_id
    del world.members[world.record.cluster_id][late]
    world.stuck = set()

    assert drive(world) == Settled()

    assert world.data(2).member_id != late
    assert labels(world.history)[-5:] == [
        "add c-2",
        "ledger 3",
        "record data-c-2",
        "push c-2 existing",
        "promote c-2",
    ]


def test_a_late_first_member_waits_for_a_quorum_to_answer() -> None:
    world = World(body(3))
    world.stuck = {2}
    drive(world)
    world.cut_off, world.stuck = True, set()

    rest = drive(world)

    assert rest == Wait(
        "a quorum to answer: c-0 does not answer; c-1 does not answer; c-2: its volume is empty",
        soon=True,
    )
    assert world.data(2) is None


def test_a_damaged_log_before_the_latch_is_reported() -> None:
    """Its data may be the only copy, so a human has to give it up."""
    world = World(body(2))
    world.apply(until(world, "push c-0 new"))
    world.claims[0].damaged = "cut short"
    world.restart_pod(0)
    world.restart_pod(1)

    rest = drive(world)

    assert "c-0" in getattr(rest, "message", "") + getattr(rest, "reason", "")
    assert "damaged" in getattr(rest, "message", "") + getattr(rest, "reason", "")
    assert world.record.attempt == 1


def test_a_report_of_damaged_data_before_the_latch_came_and_went_with_each_crash() -> None:
    """While the kubelet started etcd again, its last error no longer counted. The Event came and
    went too."""
    world = World(body(2))
    world.stuck = {1}
    drive(world)
    seen = with_pod(world.observe(), 0, damage="wal: crc mismatch", **DOWN)
    told = decide(seen)
    assert isinstance(told, Hold)
    assert told.reason == "DataDamaged"

    again = with_pod(seen, 0, crashing=False, **TRIED_AGAIN)
    assert decide(again) == told
    assert labels([decide(with_pod(again, 1, age=99.0, **DOWN))]) == ["restart c-1"]


def test_two_reports_about_two_pods_alternated_with_each_crash() -> None:
    """c-1 has an unreadable volume and c-0 damaged data. Pods were checked by ordinal, but one that
    was just being started again came last."""
    world = World(body(2))
    world.stuck = {1}
    drive(world)
    answer = StartAnswer("a-run", Finding("unreadable", "input/output error"))
    bad = {"in_start": True, "etcd_started": False, "ready": False, "answer": answer}
    seen = with_pod(world.observe(), 1, **bad)
    assert decide(seen) == Wait("pod c-1: its volume cannot be read: input/output error")
    crashes = with_pod(seen, 0, damage="wal: crc mismatch", **DOWN)
    told = decide(crashes)
    assert isinstance(told, Hold)
    assert told.reason == "DataDamaged"

    assert decide(with_pod(crashes, 0, crashing=False, **TRIED_AGAIN)) == told


def test_pods_that_block_the_cluster_are_named_before_pods_that_wait_for_them() -> None:
    """c-0 runs alone and waits for the others; c-1 cannot be scheduled."""
    world = World(body(3))
    world.stuck = {1, 2}
    drive(world, idle=12)
    world.pods[1].trouble = "cannot be scheduled: 0/1 nodes are available"

    rest = decide(world.observe())

    assert rest == Wait("pod c-1: cannot be scheduled: 0/1 nodes are available")


def test_the_first_step_is_the_secret_with_the_record() -> None:
    step = decide(World(body(3)).observe())

    assert isinstance(step, CreateSecret)
    assert step.name == "c-start"
    assert step.record.cluster_id == identity.cluster_id(
        identity.member_id([cluster().peer_url(ordinal)], step.record.token) for ordinal in range(3)
    )


def test_a_pod_that_is_being_scaled_away_is_not_reported() -> None:
    """Its volume cannot be read, and the StatefulSet no longer asks for it."""
    seen = formed(3).observe()
    answer = StartAnswer("a-run", Finding("unreadable", "input/output error"))
    found = with_pod(seen, 2, in_start=True, etcd_started=False, ready=False, answer=answer)
    assert blocked.unreadable_volume(found) is not None

    assert blocked.unreadable_volume(replace(found, stateful_set={"spec": {"replicas": 2}})) is None


@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_that_was_not_created_hid_that_the_others_reached_no_quorum(gone: bool) -> None:
    """Two of three are enough. A network policy may keep them from each other."""
    world = World(body(3))
    until(world, "push c-1 new")
    seen = world.observe()
    begun = {"in_start": False, "etcd_started": True, "answer": None}
    for ordinal in (0, 1):
        seen = with_pod(seen, ordinal, **begun)
    if gone:
        seen = replace(seen, pods=seen.pods[:2])
    else:
        seen = with_pod(seen, 2, trouble="no node has room", in_start=False, answer=None)

    step = decide(seen)

    assert isinstance(step, Wait)
    assert step.reason.startswith("etcd in pods c-0, c-1 to reach a quorum; also pod c-2")
    one = decide(with_pod(seen, 1, crashing=True, trouble="it fails"))
    assert "to reach a quorum" not in one.reason


def test_each_run_of_an_etcd_that_fails_changed_what_was_waited_for() -> None:
    """In its short runs it counts as running, and between them it does not."""
    world = World(body(3))
    until(world, "push c-1 new")
    seen = world.observe()
    for ordinal in range(3):
        seen = with_pod(seen, ordinal, in_start=False, etcd_started=True, answer=None)
    fails = "container etcd keeps failing"

    told = {decide(with_pod(seen, 0, crashing=one, trouble=fails)) for one in (True, False)}

    assert told == {Wait(f"pod c-0: {fails}")}
    beside = with_pod(seen, 0, etcd_started=False, trouble="no node has room")
    said = {decide(with_pod(beside, 2, **failing)) for failing in (DOWN, TRIED_AGAIN)}
    assert said == {Wait("pod c-0: no node has room")}
