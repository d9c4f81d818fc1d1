"""An API server that fails one kind of call, as if a webhook were down; how that is reported."""

from __future__ import annotations

from typing import Final, Protocol

import pytest
from fakes import FakeKube

from etcd_operator.kube.api import Json, Unavailable
from etcd_operator.kube.failed_passes import REASON, UNANSWERED_PASSES

WEBHOOK: Final = Unavailable("Internal error occurred: failed calling webhook", status=500)


class World(Protocol):
    """Of an object that the operator makes passes over."""

    kube: FakeKube

    @property
    def status(self) -> Json: ...

    async def settle(self) -> float | None: ...

    def condition(self) -> Json: ...


async def fail(world: World, times: int) -> None:
    """Passes that come to nothing."""
    for _ in range(times):
        with pytest.raises(Unavailable):
            await world.settle()


async def end_in_a_bug(world: World, call: str) -> None:
    """A call has an answer that nobody thought of."""
    world.kube.failures[call] = [LookupError("a case nobody thought of")]
    with pytest.raises(LookupError):
        await world.settle()

    assert world.condition()["reason"] == REASON
    assert "a case nobody thought of" in world.condition()["message"]


async def fail_until_reported(world: World, call: str) -> None:
    """A webhook for this call is down. Not the first such pass is reported."""
    world.kube.failures[call] = [WEBHOOK] * UNANSWERED_PASSES
    for passes in range(UNANSWERED_PASSES):
        told = [one["reason"] for one in world.status.get("conditions", ())]
        assert REASON not in told, passes
        await fail(world, 1)

    assert world.condition()["reason"] == REASON
    assert str(WEBHOOK) in world.condition()["message"]
