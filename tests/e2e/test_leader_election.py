"""Two operators with one Lease: one works, and when it stops the other one takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harness.api import PODS
from harness.operator import Operator
from harness.place import Place
from harness.waiting import eventually

pytestmark = pytest.mark.alone


@pytest.fixture
def two_operators(operator: Operator, place: Place) -> Iterator[Place]:
    place.operator_may_restart = True
    try:
        operator.scale(2)
        yield place
    finally:
        operator.scale(1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.verify, id="stopped"),
        pytest.param({"gracePeriodSeconds": 0}, id="killed"),
    ],
)
def test_the_other_operator_takes_over(two_operators: Place, options: dict[str, Any]):
    place, operator = two_operators, two_operators.operator
    first = eventually("a leader", operator.leader, seconds=30)
    place.declare(size=1, name="before").comes_up()

    place.kube.delete(PODS, operator.namespace, first, **options)
    cluster = place.declare(size=1, name="after")

    second = eventually(
        "another leader", operator.leader, lambda name: name and name != first, seconds=30
    )
    cluster.comes_up()
    assert second != first
