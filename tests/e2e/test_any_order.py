"""Users and machines do whatever they do, in any order, while clients write.

What other tests look at one by one meets here: a size edited while a member is replaced, the
operator dead when the StatefulSet goes, a version that turns back while a claim is deleted. No
acknowledged write is lost, no read goes back, and in the end the cluster is as declared last.
"""

from __future__ import annotations

import random

import pytest
from harness.deeds import VERSIONS, Life
from harness.load import under_load
from harness.operator import Operator
from harness.place import Place

pytestmark = pytest.mark.alone

DEEDS = 30
RATE = 8
"""Operations per second and client: this lasts for minutes."""


@pytest.mark.verify
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 13))
def test_a_cluster_outlives_any_order_of_deeds(
    place: Place, operator: Operator, three_nodes: None, seed: int
):
    place.operator_may_restart = True
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(7)}
    chance = random.Random(seed)
    size, version = chance.choice((1, 3, 5)), chance.choice(VERSIONS)
    cluster = place.declare(size=size, version=version).comes_up()

    with under_load(cluster, rate=RATE):
        Life(cluster, operator, chance, size, version).live(DEEDS)
