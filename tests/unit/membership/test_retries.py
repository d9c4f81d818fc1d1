"""What keeps failing is tried again less and less often, by the times in the conditions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from views import with_pod
from world_api import Json
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import retries
from etcd_stateful.membership.rolling.retries import AT_ONCE_SECONDS, LONGEST
from etcd_stateful.membership.steps import DeletePod, MemberAddLearner, Settled, Wait

HOUR = 3600
WHILE = 900
EMPTY_DIR = {"pod": {"emptyDir": {}}}


class Failing(World):
    """A world in which etcd fails whenever it starts at one ordinal."""

    def __init__(self, resource: Json) -> None:
        super().__init__(resource)
        self.bad: int | None = None
        self.seconds = 0

    def observe(self) -> Observation:
        pod = None if self.bad is None else self.pods.get(self.bad)
        if pod and pod.where == "etcd":
            pod.crashing = True
        lasts = {} if self.bad is None else {"Degraded": self.seconds, "Recovering": self.seconds}
        return replace(super().observe(), true_for=lasts)

    def writes_of(self, seconds: int) -> Counter[str]:
        self.history.clear()
        for _ in range(seconds):
            while is_write(step := decide(self.observe())):
                self.apply(step)
            self.turn()
            self.seconds += 1
        return Counter(labels(self.history))


def failing(ordinal: int, **spec: object) -> Failing:
    world = Failing(body(3, **spec))
    assert drive(world) == Settled()
    world.bad = ordinal
    world.edit(size=max(3, ordinal + 1))
    return world


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_a_learner_that_failed_was_added_again_twice_a_minute_without_end(storage: dict) -> None:
    """Each time with a new claim: 116 volumes and 1000 writes an hour."""
    world = failing(3, **storage)

    first = world.writes_of(WHILE)
    world.seconds = HOUR
    later = world.writes_of(WHILE)

    assert 5 <= first["add c-3"] < 20
    assert later["add c-3"] <= 1 + WHILE / LONGEST  # the first may be due at once
    assert later["remove c-3"] <= 1 + WHILE / LONGEST  # the first may be due at once


def test_a_voter_that_failed_was_restarted_twice_a_minute_without_end() -> None:
    world = failing(2)

    first = world.writes_of(WHILE)
    world.seconds = HOUR
    later = world.writes_of(WHILE)

    assert 5 <= first["restart c-2"] < 20
    assert set(later) == {"restart c-2"}
    assert later["restart c-2"] <= 1 + WHILE / LONGEST  # the first may be due at once


def test_a_member_that_has_recovered_is_added_without_delay() -> None:
    world = failing(3)
    world.seconds = HOUR
    world.writes_of(WHILE)

    world.bad = None

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == 4


@pytest.fixture(scope="module")
def grows() -> Observation:
    world = formed(3)
    world.edit(size=4)
    until(world, "add c-3")
    return with_pod(world.observe(), 3, age=5.0)


class TestPause:
    @pytest.mark.parametrize("lasted", [0.0, AT_ONCE_SECONDS - 1])
    def test_is_zero_at_first(self, grows: Observation, lasted: float) -> None:
        seen = replace(grows, true_for={"Scaling": lasted})

        assert isinstance(decide(seen), MemberAddLearner)

    @pytest.mark.parametrize("condition", ["Scaling", "Recovering"])
    def test_is_reported(self, grows: Observation, condition: str) -> None:
        step = decide(replace(grows, true_for={condition: 800.0}))

        assert isinstance(step, Wait)
        assert step.reason.startswith("the back-off to pass before c-3 is added, 120 s")

    def test_is_zero_for_a_pod_that_has_only_waited(self, grows: Observation) -> None:
        """Growth by several members takes long if there is much data to copy. Nothing has
        failed."""
        seen = replace(with_pod(grows, 3, age=800.0), true_for={"Scaling": 800.0})

        assert isinstance(decide(seen), MemberAddLearner)

    def test_is_zero_if_only_another_member_is_down(self, grows: Observation) -> None:
        seen = replace(grows, true_for={"Degraded": 9999.0})

        assert isinstance(decide(seen), MemberAddLearner)

    def test_for_a_voter_depends_on_the_age_of_its_pod(self) -> None:
        world = formed(3)
        world.pods[2].crashing = True
        seen = replace(with_pod(world.observe(), 2, age=99.0), true_for={"Degraded": 800.0})

        assert not is_write(decide(seen))
        assert isinstance(decide(with_pod(seen, 2, age=101.0)), DeletePod)

    def test_has_a_limit(self, grows: Observation) -> None:
        assert retries.pause(replace(grows, true_for={"Degraded": 1e6}), "Degraded") == LONGEST
