"""Leader election through the real API server, in real time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from harness.slow import SLOW

from etcd_operator.kube import lease
from etcd_operator.kube.api import LEASES

pytestmark = pytest.mark.integration


class Candidate:
    def __init__(self, client, namespace, identity):
        self.lock = lease.Lock(client, name="operator", namespace=namespace, identity=identity)
        self.leads = asyncio.Event()
        self.task = asyncio.create_task(lease.hold(self.lock, self.leads.set))

    async def took(self, seconds):
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(self.leads.wait(), seconds)
        return asyncio.get_running_loop().time() - began

    async def die(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def candidate(client, namespace):
    candidates = []

    def make(identity):
        candidates.append(Candidate(client, namespace, identity))
        return candidates[-1]

    yield make
    for each in candidates:
        await each.die()


async def spec(client, namespace):
    return (await client.get(LEASES, namespace, "operator"))["spec"]


async def eventually(client, namespace, good):
    """Until the Lease is one that is good."""
    async with asyncio.timeout(SLOW * 10):
        while not ((found := await client.get(LEASES, namespace, "operator")) and good(found)):
            await asyncio.sleep(0.1)


FIRST = SLOW * 5
EARLY = lease.DURATION - 1
"""Less than it takes whoever has to wait until the Lease expires."""


async def test_leadership_passes_on_after_a_release_and_after_a_kill(client, namespace, candidate):
    one = candidate("one")
    await one.took(FIRST)
    first = await spec(client, namespace)
    assert (first["holderIdentity"], first["leaseDurationSeconds"]) == ("one", lease.DURATION)

    two = candidate("two")
    await asyncio.sleep(lease.RETRY_PERIOD + 1)
    before = first["renewTime"]
    await eventually(client, namespace, lambda found: found["spec"]["renewTime"] > before)
    assert not two.leads.is_set()

    await one.die()
    assert await one.lock.release()
    graceful = await two.took(EARLY)
    held = await spec(client, namespace)
    assert (held["holderIdentity"], held["leaseTransitions"]) == ("two", 1)

    await two.die()  # killed: nothing is released
    same = candidate("two")
    restarted = await same.took(EARLY)

    await same.die()
    three = candidate("three")
    killed = await three.took(SLOW * (lease.DURATION + 2 * lease.RETRY_PERIOD))
    assert (await spec(client, namespace))["leaseTransitions"] == 2
    print(
        f"taken over {graceful:.1f} s after a release, {restarted:.2f} s by a restarted container,"
        f" {killed:.1f} s after a kill"
    )


async def test_only_one_of_many_racing_candidates_leads(client, namespace, candidate):
    many = [candidate(f"candidate-{number}") for number in range(8)]
    leading = [asyncio.create_task(each.leads.wait()) for each in many]
    done, _ = await asyncio.wait(leading, timeout=FIRST, return_when=asyncio.FIRST_COMPLETED)
    for each in leading:
        each.cancel()
    assert done, "nobody leads"
    await asyncio.sleep(lease.RETRY_PERIOD + 1)  # all others have tried again

    assert [each.leads.is_set() for each in many].count(True) == 1


async def test_a_deleted_lease_is_recreated_by_its_holder(client, namespace, candidate):
    one = candidate("one")
    await one.took(FIRST)
    lost = await client.get(LEASES, namespace, "operator")
    uid = lost["metadata"]["uid"]
    await client.delete(LEASES, namespace, "operator", uid=uid)
    await eventually(client, namespace, lambda found: found["metadata"]["uid"] != uid)

    assert (await spec(client, namespace))["holderIdentity"] == "one"
    assert not one.task.done()
