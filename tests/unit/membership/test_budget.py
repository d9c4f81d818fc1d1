"""The disruption budget: never below a quorum of the voters, and no higher than necessary.

The tiny world checks each write of a budget, and each promotion, against the rule (`world_rules`).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import World, body, drive, formed, labels, until

from etcd_stateful import naming
from etcd_stateful.manifests import volume_job
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.members import budget
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, Hold, Settled
from etcd_stateful.observed.members import EtcdView
from etcd_stateful.observed.objects import Foreign
from unit.membership.test_grow import grown
from unit.membership.test_shrink import shrunk

LABEL = "PodDisruptionBudget c"


def least(world: World) -> int:
    found: int = world.objects["PodDisruptionBudget", "c"]["spec"]["minAvailable"]
    return found


@pytest.mark.parametrize(
    ("size", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)]
)
def test_a_cluster_at_rest_can_spare_all_but_a_quorum(size: int, quorum: int) -> None:
    assert least(formed(size)) == quorum


@pytest.mark.parametrize("before", range(1, 7))
def test_it_is_raised_before_the_promotion_that_needs_it(before: int) -> None:
    world = grown(before, 7)

    assert drive(world) == Settled()

    assert least(world) == 4


def test_it_is_lowered_only_once_the_member_is_off_the_list() -> None:
    world = shrunk(5, 3)
    until(world, LABEL)

    assert len(world.etcd.voters) == 3
    assert least(world) == 3
    assert drive(world) == Settled()
    assert least(world) == 2


def test_lowering_it_is_decided_twice() -> None:
    """With an old member list it would let a pod be evicted that the quorum needs."""
    world = shrunk(5, 3)
    until(world, LABEL)
    lowering = decide(world.observe())

    growing = grown(3, 5)
    until(growing, LABEL)
    raising = decide(growing.observe())

    assert (lowering.kind, raising.kind) == ("PodDisruptionBudget", "PodDisruptionBudget")
    assert is_final(lowering)
    assert not is_final(raising)


def test_there_is_none_before_clients_are_let_in() -> None:
    """A cluster whose etcd keeps failing while it forms is never healthy. A budget would block
    drains for good."""
    world = World(body(3))
    world.cut_off = True

    drive(world)

    assert not world.record.latched
    assert ("PodDisruptionBudget", "c") not in world.objects


class TestWithoutAMemberList:
    def test_it_stays_as_it_is(self) -> None:
        world = formed(5)
        world.edit(size=3)
        world.cut_off = True

        drive(world)

        assert least(world) == 3

    def test_a_deleted_one_is_recreated_for_all_possible_voters(self) -> None:
        world = formed(5)
        world.edit(size=3)
        world.cut_off = True
        del world.objects["PodDisruptionBudget", "c"]

        drive(world)

        assert least(world) == 3

    def test_a_percentage_is_replaced_by_a_number(self) -> None:
        world = formed(3)
        world.objects["PodDisruptionBudget", "c"]["spec"]["minAvailable"] = "50%"
        world.cut_off = True

        drive(world)

        assert least(world) == 2

    def test_a_list_of_another_cluster_lowers_nothing(self) -> None:
        seen = formed(5).observe()
        assert seen.etcd

        assert budget.min_available(replace(seen, etcd=EtcdView(77, seen.etcd.members[:1]))) == 3


class TestAltered:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("minAvailable", 0),
            ("minAvailable", 3),
            ("unhealthyPodEvictionPolicy", "AlwaysAllow"),
            ("selector", {"matchLabels": {"app": "other"}}),
        ],
    )
    def test_it_is_put_back(self, field: str, value: object) -> None:
        world = formed(3)
        before = world.objects["PodDisruptionBudget", "c"]["spec"][field]
        world.objects["PodDisruptionBudget", "c"]["spec"][field] = value

        assert drive(world) == Settled()

        assert world.objects["PodDisruptionBudget", "c"]["spec"][field] == before

    def test_one_of_another_owner_is_left_alone_and_blocks_nothing(self) -> None:
        world = World(body(3))
        world.foreign = (Foreign("PodDisruptionBudget", "c", "nobody (it has no owner)"),)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "NameTaken"
        assert "PodDisruptionBudget c belongs to nobody" in rest.message
        assert world.record.latched
        assert LABEL not in labels(world.history)


def test_only_pods_of_members_count() -> None:
    """Otherwise pods of a recovery Job or of another cluster would count as serving members."""
    seen = formed(3).observe()
    selector = budget.manifest(seen)["spec"]["selector"]["matchLabels"]

    assert selector.items() <= naming.labels("c").items()
    assert not selector.items() <= volume_job.labels("c").items()
    assert not selector.items() <= naming.labels("d").items()


def test_in_a_settled_cluster_it_is_not_written_again() -> None:
    seen: Observation = formed(3).observe()

    assert not isinstance(decide(seen), ApplyChild)


def test_unready_pods_may_be_evicted_only_while_a_quorum_is_ready() -> None:
    """During an election no pod is Ready for a moment. A drain must not evict all of them then."""
    spec = budget.manifest(formed(3).observe())["spec"]

    assert spec["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
