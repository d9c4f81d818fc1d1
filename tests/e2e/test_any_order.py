"""Random operations of users and random failures of machines, in any order, while clients write.

This combines what other tests check one by one: a size that is edited while a member is replaced,
an operator that is down when the StatefulSet is deleted, a version that is reverted while a claim
is deleted. No acknowledged write may be lost, no read may go back in time, and in the end the
cluster is as it was last declared.
"""

from __future__ import annotations

import random

import pytest
from harness.chaos import VERSIONS, Chaos
from harness.load import under_load
from harness.operator import Operator
from harness.place import Place

pytestmark = pytest.mark.alone

ACTIONS = 30
RATE = 8
"""Operations per second and client, fewer than elsewhere: this test takes minutes."""


@pytest.mark.verify
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 13))
def test_a_cluster_survives_random_operations_and_failures(
    place: Place, operator: Operator, three_nodes: None, seed: int
):
    place.operator_may_restart = True
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(7)}
    chance = random.Random(seed)
    size, version = chance.choice((1, 3, 5)), chance.choice(VERSIONS)
    cluster = place.declare(size=size, version=version).comes_up()

    with under_load(cluster, rate=RATE):
        Chaos(cluster, operator, chance, size, version).run(ACTIONS)
