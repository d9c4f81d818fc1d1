"""Leader election with an API server that is slow, down or contended, on a simulated clock."""

import asyncio
import copy
import time

import pytest
from shell_clock import jumping

from etcd_operator.kube import lease
from etcd_operator.kube.api import LEASES, Conflict, Rejected, Unavailable
from etcd_operator.tasks import cancel

NAME = {"name": "etcd-operator", "namespace": "system"}


class Leases:
    """One Lease. Its resourceVersion is checked as the API server does."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.trouble = None
        self.refuse_writes = None
        self.delay = 0.0
        self.writes = []

    async def _answer(self):
        await asyncio.sleep(self.delay)
        if self.trouble is not None:
            raise self.trouble

    def _refuse(self):
        if self.refuse_writes is not None:
            raise self.refuse_writes

    async def get(self, resource, namespace, name):
        assert (resource, namespace, name) == (LEASES, "system", "etcd-operator")
        await self._answer()
        return copy.deepcopy(self.lease)

    async def create(self, resource, manifest):
        assert (resource, manifest["metadata"]) == (LEASES, NAME)
        await self._answer()
        self._refuse()
        if self.lease is not None:
            raise Conflict("exists", status=409, reason="AlreadyExists")
        return self._store(manifest)

    async def merge_patch(self, _resource, _namespace, _name, patch):
        await self._answer()
        self._refuse()
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict("the object has been modified", status=409, reason="Conflict")
        return self._store(
            {"metadata": self.lease["metadata"], "spec": self.lease["spec"] | patch["spec"]}
        )

    def _store(self, manifest):
        self.version += 1
        metadata = manifest["metadata"] | {"resourceVersion": str(self.version)}
        self.lease = {"metadata": metadata, "spec": dict(manifest["spec"])}
        self.writes.append((asyncio.get_running_loop().time(), self.lease["spec"]))
        return copy.deepcopy(self.lease)

    @property
    def spec(self):
        return self.lease["spec"]


class Candidate:
    def __init__(self, leases, identity):
        self.lock = lease.Lock(leases, identity=identity, **NAME)
        self.acquired = None
        self.lost = None
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await lease.hold(self.lock, lambda: setattr(self, "acquired", loop.time() - began))
        self.lost = loop.time() - began

    @property
    def leads(self):
        return self.acquired is not None and self.lost is None


@pytest.fixture
def leases():
    return Leases()


@pytest.fixture
def candidate(leases):
    return lambda identity: Candidate(leases, identity)


@jumping
async def test_the_first_candidate_creates_the_lease_and_leads_at_once(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(0.1)

    assert one.leads
    assert one.lock.held
    assert leases.spec["holderIdentity"] == "one"
    assert leases.spec["leaseDurationSeconds"] == lease.DURATION
    for when in ("acquireTime", "renewTime"):
        # metav1.MicroTime: exactly six digits, and UTC.
        assert len(leases.spec[when]) == len("2026-11-21T06:04:46.395839Z")
        assert leases.spec[when].endswith("Z")


@jumping
async def test_renewing_the_lease_keeps_its_acquire_time(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(20.5)

    assert one.leads
    specs = [spec for _, spec in leases.writes]
    assert len(specs) == 11
    assert len({spec["acquireTime"] for spec in specs}) == 1
    assert len({spec["renewTime"] for spec in specs}) == 11
    assert {spec["leaseTransitions"] for spec in specs} == {0}


@jumping
async def test_another_candidate_waits_while_the_lease_is_held(candidate):
    one, two = candidate("one"), candidate("two")
    await asyncio.sleep(600)

    assert one.leads
    assert not two.leads


@jumping
async def test_a_note_on_the_lease_of_a_killed_leader_does_not_prolong_it(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    one.task.cancel()
    two = candidate("two")
    for _ in range(int(lease.DURATION + lease.RETRY_PERIOD) + 1):
        leases.version += 1
        leases.lease["metadata"] |= {"resourceVersion": str(leases.version)}
        await asyncio.sleep(1)

    assert two.leads


@jumping
async def test_another_candidate_takes_over_from_a_killed_leader(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    one.task.cancel()
    two = candidate("two")
    await asyncio.sleep(60)

    assert two.leads
    assert lease.DURATION <= two.acquired <= lease.DURATION + 2 * lease.RETRY_PERIOD
    assert leases.spec["holderIdentity"] == "two"
    assert leases.spec["leaseTransitions"] == 1


@pytest.mark.parametrize("set_by", [-3600, 3600])
@jumping
async def test_the_time_of_day_has_no_say_in_who_leads(candidate, monkeypatch, set_by):
    one, two = candidate("one"), candidate("two")
    await asyncio.sleep(3)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + set_by)
    await asyncio.sleep(10)
    assert one.leads
    assert not two.leads

    one.task.cancel()
    await asyncio.sleep(lease.DURATION + 2 * lease.RETRY_PERIOD)
    assert two.leads


@jumping
async def test_after_a_graceful_stop_the_successor_does_not_wait(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    one.task.cancel()

    assert await one.lock.release()
    assert leases.spec["holderIdentity"] == ""
    assert not one.lock.held
    two = candidate("two")
    await asyncio.sleep(0.1)
    assert two.leads


@jumping
async def test_a_container_restarted_in_the_same_pod_does_not_wait(leases, candidate):
    one = candidate("pod_uid")
    await asyncio.sleep(1)
    one.task.cancel()
    again = candidate("pod_uid")
    await asyncio.sleep(0.1)

    assert again.leads
    assert leases.spec["leaseTransitions"] == 0


@jumping
async def test_only_one_of_two_candidates_gets_the_lease(leases, candidate):
    leases.delay = 0.1
    one, two = candidate("one"), candidate("two")
    await asyncio.sleep(1)

    assert one.leads != two.leads
    leader = one if one.leads else two
    leader.task.cancel()
    leases.lease["spec"] |= {"holderIdentity": "gone"}
    three = candidate("three")
    await asyncio.sleep(60)
    rest = [each for each in (one, two, three) if each is not leader]
    assert sum(each.leads for each in rest) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        Unavailable("connection refused"),
        Unavailable("slow down", status=429),
        Rejected("forbidden for a moment", status=403),
        Conflict("somebody annotated it"),
    ],
)
@jumping
async def test_a_short_outage_does_not_end_leadership(leases, candidate, trouble):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.trouble = trouble
    await asyncio.sleep(lease.EXPIRY_SECONDS - 3)
    leases.trouble = None
    await asyncio.sleep(60)

    assert one.leads


@jumping
async def test_a_long_outage_ends_leadership_before_another_may_lead(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.trouble = Unavailable("connection refused")
    renewed = leases.writes[-1][0]
    await asyncio.wait([one.task], timeout=60)

    assert one.lost is not None
    assert asyncio.get_running_loop().time() - renewed <= lease.DURATION


@jumping
async def test_a_hanging_api_server_ends_leadership_before_another_may_lead(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.delay = 1e6
    renewed = leases.writes[-1][0]
    await asyncio.wait([one.task], timeout=60)

    assert one.lost is not None
    assert asyncio.get_running_loop().time() - renewed <= lease.DURATION


@jumping
async def test_a_renewal_counts_from_when_it_was_sent(leases, candidate):
    """Others count from when it was stored, which may be long before its answer comes."""
    one = candidate("one")
    await asyncio.sleep(1)
    patch = leases.merge_patch

    async def answers_late(*words):
        answer = await patch(*words)
        await asyncio.sleep(lease.CALL_SECONDS - 0.1)
        return answer

    leases.merge_patch = answers_late
    await asyncio.sleep(lease.RETRY_PERIOD + lease.CALL_SECONDS - 1)
    leases.trouble = Unavailable("connection refused")
    assert len(leases.writes) == 2
    await asyncio.wait([one.task], timeout=60)

    assert one.lost is not None
    assert asyncio.get_running_loop().time() - leases.writes[-1][0] <= lease.DURATION


@jumping
async def test_a_lease_that_names_another_holder_is_lost(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.lease["spec"]["holderIdentity"] = "usurper"
    await asyncio.wait([one.task], timeout=60)

    assert one.lost <= 1 + lease.RETRY_PERIOD
    assert leases.spec["holderIdentity"] == "usurper"


@jumping
async def test_a_candidate_waits_for_an_unreachable_api_server_and_logs_it_once(
    leases, candidate, caplog
):
    leases.trouble = Unavailable("connection refused")
    one = candidate("one")
    await asyncio.sleep(600)
    assert not one.leads
    leases.trouble = None
    await asyncio.sleep(3)

    assert one.leads
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == ["the Lease system/etcd-operator cannot be read: connection refused"]


@jumping
async def test_an_error_that_recurs_is_logged_again(leases, candidate, caplog):
    one = candidate("one")
    for _ in range(3):
        await asyncio.sleep(10)
        leases.trouble = Unavailable("connection refused")
        await asyncio.sleep(3)
        leases.trouble = None

    assert one.leads
    assert caplog.text.count("connection refused") == 3


@jumping
async def test_a_failed_write_of_the_lease_is_logged(leases, candidate, caplog):
    candidate("one")
    await asyncio.sleep(1)
    leases.refuse_writes = Rejected("forbidden", status=403)
    await asyncio.sleep(5)

    assert "the Lease system/etcd-operator cannot be written: forbidden" in caplog.text


@jumping
async def test_the_leader_is_logged_once(candidate, caplog):
    caplog.set_level("INFO")
    candidate("one")
    await asyncio.sleep(1)
    candidate("two")
    await asyncio.sleep(60)

    lines = [record.getMessage() for record in caplog.records]
    assert lines.count("this is the leader: one") == 1
    assert lines.count("the Lease system/etcd-operator is held by one") == 1
    assert len(lines) == 2


@jumping
async def test_a_programming_error_is_not_swallowed(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.trouble = ZeroDivisionError("a fault")

    with pytest.raises(ZeroDivisionError):
        await one.task


@jumping
async def test_a_deleted_lease_is_recreated_by_its_holder(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    since = leases.spec["acquireTime"]
    leases.lease = None
    await asyncio.sleep(5)

    assert one.leads
    assert (leases.spec["holderIdentity"], leases.spec["acquireTime"]) == ("one", since)


@jumping
async def test_only_the_holder_releases_the_lease(leases, candidate):
    candidate("one")
    await asyncio.sleep(1)
    two = candidate("two")
    await asyncio.sleep(1)

    assert not await two.lock.release()
    assert leases.spec["holderIdentity"] == "one"


@jumping
async def test_a_failed_release_raises_no_error(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    leases.trouble = Unavailable("connection refused")

    assert not await one.lock.release()


@jumping
async def test_a_renewal_cut_short_by_the_stop_kept_the_lease_from_being_released(
    leases, candidate
):
    """It had been carried out, so the version that the release named was an old one."""
    one = candidate("one")
    await asyncio.sleep(1)
    patch = leases.merge_patch

    async def slow(*words):
        answer = await patch(*words)
        await asyncio.sleep(0.5)
        return answer

    leases.merge_patch = slow
    await asyncio.sleep(1.2)
    assert len(leases.writes) == 2
    await cancel(one.task)

    assert await one.lock.release()
    assert leases.spec["holderIdentity"] == ""


@jumping
async def test_a_release_does_not_take_the_lease_from_a_successor(leases, candidate):
    one = candidate("one")
    await asyncio.sleep(1)
    one.task.cancel()
    leases._store({**leases.lease, "spec": {**leases.spec, "holderIdentity": "two"}})

    assert not await one.lock.release()
    assert leases.spec["holderIdentity"] == "two"
