"""Defragmentation, one member at a time, and disarming the alarm NOSPACE."""

from __future__ import annotations

from dataclasses import replace

import pytest
from space_world import full, sized
from views import DOWN, seat, with_pod, without_status
from worlds import Conflict, World, body, drive, labels, until

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.start_settings import quota_in
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Defragment, DisarmAlarm, Hold, MoveLeader, Settled, Wait
from etcd_stateful.membership.upkeep import alarms, space
from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.members import Alarm

WASTEFUL = (1000, 300)
TIDY = (300, 290)


def leader(world: World) -> int:
    seen = world.observe()
    return next(one for one in range(world.cluster.size) if seat(seen, one).leads)


def defragmented(world: World) -> list[str]:
    return [step.name for step in world.history if isinstance(step, Defragment)]


def test_each_member_is_defragmented_once_the_leader_last_and_after_it_has_handed_over() -> None:
    world = sized(3, WASTEFUL, WASTEFUL, WASTEFUL)
    led = leader(world)

    assert drive(world) == Settled()

    assert defragmented(world) == [*(f"c-{one}" for one in range(3) if one != led), f"c-{led}"]
    assert labels(world.history)[2].startswith("lead c-")
    assert [file for file, _ in world.etcd.sizes.values()] == [300 * MIB] * 3


@pytest.mark.parametrize(
    ("file", "worth"),
    [
        ((100, 55), True),
        ((99, 10), False),
        ((1000, 550), True),
        ((1000, 551), False),
        ((20_000, 4096), True),
        ((20_000, 4097), False),
        ((1000, 0), False),
    ],
    ids=str,
)
def test_which_files_are_defragmented(file: tuple[int, int], worth: bool) -> None:
    """Neither small nor full ones, and none that would take longer than the kubelet waits. A member
    that does not report how much it uses is left alone."""
    world = sized(3, TIDY, file, TIDY)

    drive(world)

    assert defragmented(world) == (["c-1"] if worth else [])


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_three_are_left_alone_as_it_would_be_an_outage(size: int) -> None:
    world = sized(size, *[WASTEFUL] * size)

    assert drive(world) == Settled()
    assert world.history == []


def test_never_if_the_spec_says_never() -> None:
    world = sized(3, WASTEFUL, WASTEFUL, WASTEFUL, defragmentation="Never")

    assert drive(world) == Settled()
    assert world.history == []


def test_not_while_a_member_is_away() -> None:
    world = sized(3, WASTEFUL, WASTEFUL, WASTEFUL)
    seen = world.observe()

    assert space.reclaim(without_status(seen, 2)) is None
    assert isinstance(decide(without_status(seen, 2)), Wait)


def test_other_changes_come_first() -> None:
    world = sized(3, WASTEFUL, WASTEFUL, WASTEFUL)
    world.edit(size=5)

    drive(world)

    first = next(n for n, step in enumerate(world.history) if isinstance(step, Defragment))
    assert len(world.etcd.voters) == 5
    assert "promote c-4" in labels(world.history[:first])


def test_a_running_backup_is_waited_for() -> None:
    """bbolt, and with it the member, waits for every reader before it closes the old file."""
    world = sized(3, WASTEFUL, TIDY, TIDY)
    world.snapshots = ("nightly-backup-x",)

    rest = drive(world)

    assert isinstance(rest, Wait)
    assert "nightly-backup-x" in rest.reason
    assert world.history == []
    world.snapshots = ()
    assert drive(world) == Settled()
    assert defragmented(world) == ["c-0"]


def test_a_running_backup_hides_nothing_that_needs_a_human() -> None:
    """It may run for hours, and `Blocked` would be gone for as long."""
    world = sized(3, WASTEFUL, TIDY, TIDY, version="3.5.35")
    world.edit(version="3.7.3")
    world.snapshots = ("nightly-backup-x",)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "VersionJump"


def test_the_leader_hands_over_even_if_only_it_is_defragmented() -> None:
    """I8: nobody can write while the leader does not answer."""
    world = sized(3, TIDY, TIDY, TIDY)
    world.etcd.sizes[world.etcd.leader] = (1000 * MIB, 300 * MIB)
    led = leader(world)

    assert isinstance(decide(world.observe()), MoveLeader)
    assert drive(world) == Settled()
    assert defragmented(world) == [f"c-{led}"]


def test_another_member_at_the_same_address_is_not_defragmented() -> None:
    """The step names the member that it is meant for."""
    world = sized(3, TIDY, WASTEFUL, TIDY)
    step = decide(world.observe())
    assert isinstance(step, Defragment)

    with pytest.raises(Conflict, match="another member"):
        world.apply(replace(step, member=replace(step.member, member_id=0x77)))


class TestAtTheQuota:
    @pytest.mark.parametrize("size", [1, 2, 3, 5])
    def test_members_are_defragmented_and_then_take_writes_again(self, size: int) -> None:
        world = full(size)

        assert drive(world) == Settled()

        assert sorted(set(defragmented(world))) == [f"c-{one}" for one in range(size)]
        assert world.etcd.alarms == []
        assert isinstance(world.history[-1], DisarmAlarm)
        assert "NOSPACE" in world.history[-1].reason

    def test_a_running_backup_is_waited_for(self) -> None:
        world = full(3)
        world.snapshots = ("nightly-backup-x",)

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert "nightly-backup-x" in rest.reason

    @pytest.mark.parametrize(
        ("file", "tried"),
        [((2048, 1843), True), ((2048, 1844), False), ((2048, 2048), False)],
        ids=str,
    )
    def test_a_tenth_is_enough(self, file: tuple[int, int], tried: bool) -> None:
        world = full(3, file, (1000, 990), (1000, 990))

        drive(world)

        assert defragmented(world) == (["c-0"] if tried else [])

    def test_with_nothing_to_free_the_message_says_what_to_do(self) -> None:
        world = full(3, *[(2048, 2000)] * 3)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "NoSpace"
        for words in ("2048 MiB", "spec.etcd.quotaBackend", "compact", "the operator defragments"):
            assert words in rest.message
        assert world.history == []
        assert len(world.etcd.alarms) == 1

    @pytest.mark.parametrize(
        "world",
        [full(3, defragmentation="Never"), full(3, *[(9000, 4097)] * 3)],
        ids=["it may not", "it would take too long"],
    )
    def test_if_the_operator_may_not_defragment_the_message_says_to_do_so(
        self, world: World
    ) -> None:
        """With the flag: etcdctl alone gives up after five seconds. The member goes on, and whoever
        began with the next one had two that do not serve."""
        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "(etcdctl defrag --command-timeout=10m)" in rest.message
        assert world.history == []

    def test_a_pod_that_no_node_had_room_for_kept_etcd_from_taking_writes(self) -> None:
        world = full(3)
        world.stuck.add(3)
        world.edit(size=4)

        rest = drive(world)

        assert rest == Wait("pod c-3 to become ready")
        assert world.etcd.alarms == []

    def with_learner(self) -> World:
        """The quota is reached when a learner has been added."""
        world = full(3)
        alarms, world.etcd.alarms = world.etcd.alarms, []
        world.edit(size=4)
        until(world, "promote c-3")
        world.etcd.alarms = alarms
        world.history.clear()
        return world

    def test_a_learner_that_no_node_had_room_for_kept_etcd_from_taking_writes(self) -> None:
        world = self.with_learner()
        world.stuck.add(3)
        world.restart_pod(3)
        world.turn()
        world.turn()

        rest = drive(world)

        assert rest == Wait("learner c-3 to start", soon=True)
        assert world.etcd.alarms == []

    def test_not_while_a_learner_copies_a_members_data(self) -> None:
        world = self.with_learner()
        seen = world.observe()
        behind = replace(seen.statuses[3], applied_index=1)

        step = decide(replace(seen, statuses={**seen.statuses, 3: behind}))

        assert step == Wait("learner c-3 to catch up", soon=True)

    def test_a_restart_that_is_held_back_kept_etcd_from_taking_writes(self) -> None:
        world = full(1, pod={"emptyDir": {}})
        alarms, world.etcd.alarms = world.etcd.alarms, []
        world.edit(pod={"emptyDir": {}, "labels": {"a": "1"}})
        assert drive(world).reason == "RestartNeedsMembers"
        world.etcd.alarms = alarms

        assert drive(world).reason == "RestartNeedsMembers"
        assert world.etcd.alarms == []

    def test_not_while_members_have_different_data(self) -> None:
        seen = full(3).observe()
        other = Alarm("CORRUPT", seen.alarms[0].member_id)

        assert isinstance(decide(seen), Defragment)
        assert space.reclaim_for_writes(replace(seen, alarms=(*seen.alarms, other))) is None

    def test_a_member_was_defragmented_beside_one_whose_disk_hangs(self) -> None:
        """I8: that one answers from memory alone."""
        seen = full(3).observe()

        assert space.reclaim_for_writes(with_pod(seen, 1, ready=False)) is None

    def test_writes_are_let_in_after_a_manual_defragmentation(self) -> None:
        world = full(3, defragmentation="Never")
        world.etcd.sizes = dict.fromkeys(world.etcd.members, (500 * MIB, 490 * MIB))

        assert drive(world) == Settled()
        assert labels(world.history) == ["DisarmAlarm"]

    @pytest.mark.parametrize(("file", "over"), [(1843, True), (1844, False)])
    def test_writes_are_not_let_in_just_below_the_quota(self, file: int, over: bool) -> None:
        world = full(3, (500, 490), (file, file), (500, 490))

        drive(world)

        assert (world.etcd.alarms == []) == over

    def test_a_member_that_does_not_report_its_size_may_be_full(self) -> None:
        seen = full(3, *[(500, 490)] * 3).observe()

        assert space.has_room(seen)
        assert not space.has_room(without_status(seen, 1))

    @pytest.mark.parametrize(
        "away", [DOWN, {"deleting": True}, {"in_start": True}, {"etcd_started": False}]
    )
    def test_writes_stayed_refused_as_long_as_one_member_was_away(self, away: dict) -> None:
        """If it is full, it raises the alarm again itself, once it is back."""
        seen = without_status(full(3, *[(500, 490)] * 3).observe(), 1)
        assert alarms.disarm(seen) is None

        assert isinstance(alarms.disarm(with_pod(seen, 1, **away)), DisarmAlarm)
        pods = tuple(one for one in seen.pods if one.ordinal != 1)
        assert isinstance(alarms.disarm(replace(seen, pods=pods)), DisarmAlarm)

    def test_a_raised_quota_counts_once_every_member_runs_with_it(self) -> None:
        world = full(3, *[(2048, 2000)] * 3)
        world.edit(etcd={"quotaBackend": "4Gi"})

        assert drive(world) == Settled()

        restarts = [n for n, one in enumerate(labels(world.history)) if one.startswith("restart")]
        disarmed = labels(world.history).index("DisarmAlarm")
        assert len(restarts) == 3
        assert disarmed > max(restarts)

    def test_a_quota_that_waits_for_a_version_counts_only_once_members_run_with_it(
        self,
    ) -> None:
        """The edit has both. Until the data has the older format, neither is in the template."""
        world = full(3, *[(2048, 2000)] * 3, version="3.6.14")
        world.edit(version="3.5.35", etcd={"quotaBackend": "4Gi"})
        world.apply(decide(world.observe()))

        step = decide(world.observe())

        assert labels(world.history) == ["EnableDowngrade"]
        assert isinstance(step, Wait)
        assert "format of etcd 3.5" in step.reason

    @pytest.mark.parametrize("size", [1, 3])
    def test_no_pod_is_evicted_because_its_empty_dir_holds_a_second_file(self, size: int) -> None:
        """The kubelet evicts a pod whose emptyDir exceeds its limit, and the data goes with the
        pod."""
        limit = {"emptyDir": {"sizeLimit": "3Gi"}}
        world = full(size, *[(2048, 1024)] * size, pod=limit)

        rest = drive(world)

        assert defragmented(world) == []
        assert isinstance(rest, Hold)
        assert f"does not fit on the volume of {', '.join(f'c-{one}' for one in range(size))}" in (
            rest.message
        )

    @pytest.mark.parametrize(
        ("capacity", "fits"), [("3199Mi", False), ("3200Mi", True), ("", True)]
    )
    def test_a_second_file_has_to_fit_on_the_volume(self, capacity: str, fits: bool) -> None:
        seen = full(1, (2048, 1024)).observe()
        claims = tuple(replace(one, capacity=capacity) for one in seen.claims)

        assert isinstance(decide(replace(seen, claims=claims)), Defragment if fits else Hold)


@pytest.mark.parametrize("said", ["", "no JSON", "[]", '{"etcd": []}', '{"etcd": {}}', "{}"])
def test_a_pod_whose_settings_do_not_contain_a_quota(said: str) -> None:
    start = {"name": "start", "env": [{"name": "START_SETTINGS", "value": said}]}

    assert quota_in({"initContainers": [start]}) == 0


def test_the_quota_that_a_pod_was_made_with() -> None:
    cluster = parse_cluster(body(3, etcd={"quotaBackend": "2304Mi"}))
    made = stateful_set(cluster, replicas=3, operator_image="operator:1", epoch=1)

    assert quota_in(made["spec"]["template"]["spec"]) == 2304 * 1024**2
