"""Passes over a cluster whose members can be defragmented: which are queried, and how often."""

from __future__ import annotations

import itertools

import pytest
from reconcile_bench import KEY, Bench

from etcd_operator.cluster.defrag_backoff import LONGEST_SECONDS, PAUSE_SECONDS
from etcd_operator.etcd.api import Endpoint, NoAnswer
from etcd_operator.kube.api import PODS
from etcd_stateful import naming
from etcd_stateful.manifests.backup_job import LABEL
from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.members import Alarm, MemberStatus

WASTEFUL = (1000 * MIB, 300 * MIB)


@pytest.fixture
async def bench() -> Bench:
    """A formed cluster of three that has long been settled."""
    bench = Bench()
    bench.declare()
    await bench.run()
    await bench.rest(60)
    bench.forget()
    return bench


def waste(bench: Bench) -> None:
    bench.etcd.files = dict.fromkeys(bench.etcd.members, WASTEFUL)


def asked(bench: Bench) -> list[str]:
    return [change for change in bench.etcd.changes if change.startswith("defragment")]


async def test_each_member_is_defragmented_once_with_an_event(bench):
    waste(bench)

    await bench.rest(120)

    assert len(asked(bench)) == len(set(asked(bench))) == 3
    assert bench.events.reasons().count("Defragmented") == 3
    assert bench.condition("Progressing")["reason"] == "AsDeclared"


async def test_members_that_were_written_to_were_never_defragmented(bench, monkeypatch):
    """How much of a file is in use had changed at the second look, which then counted as another
    step."""
    bench.etcd.files = dict.fromkeys(sorted(bench.etcd.members)[-1:], WASTEFUL)
    status = bench.etcd.status

    async def grows(at: Endpoint, seconds: float = 1.0) -> MemberStatus:
        if at.address in bench.etcd.files:
            size, used = bench.etcd.files[at.address]
            bench.etcd.files[at.address] = (size, used + 4096)
        return await status(at, seconds)

    monkeypatch.setattr(bench.etcd, "status", grows)

    await bench.rest(60)

    assert len(asked(bench)) == 1


async def test_a_defragmentation_longer_than_the_deadline_has_one_event(bench, monkeypatch):
    async def late(at: Endpoint) -> None:
        bench.etcd.silent.add(at.address)
        raise NoAnswer("deadline")

    monkeypatch.setattr(bench.etcd, "defragment", late)
    bench.etcd.files = dict.fromkeys(sorted(bench.etcd.members)[-1:], WASTEFUL)
    await bench.rest(30)
    assert "Defragmented" not in bench.events.reasons()

    bench.etcd.silent.clear()
    bench.etcd.files = dict.fromkeys(bench.etcd.files, (300 * MIB, 300 * MIB))
    await bench.rest(PAUSE_SECONDS)

    assert bench.events.reasons().count("Defragmented") == 1


async def test_a_full_disk_is_not_filled_again_by_each_attempt(bench, monkeypatch):
    """etcd writes a second file before it deletes the first."""
    tried = list[str]()

    async def fails(at: Endpoint) -> None:
        tried.append(at.address)
        raise NoAnswer(f"{at.target}: UNKNOWN: write: no space left on device")

    monkeypatch.setattr(bench.etcd, "defragment", fails)
    waste(bench)

    await bench.rest(PAUSE_SECONDS - 60)

    assert sorted(tried) == sorted(bench.etcd.members)
    assert "Defragmented" not in bench.events.reasons()


async def test_a_failed_defragmentation_is_retried_later(bench):
    bench.etcd.files = dict.fromkeys(sorted(bench.etcd.members)[-1:], WASTEFUL)
    bench.etcd.answers = [NoAnswer("deadline")]

    await bench.rest(PAUSE_SECONDS + 120)

    assert len(asked(bench)) == 2
    assert bench.condition("Progressing")["reason"] == "AsDeclared"


async def test_repeated_failures_are_retried_less_and_less_often(bench, monkeypatch):
    """As long as the disk was full, leadership moved every ten minutes for it."""
    tried = list[float]()

    async def fails(at: Endpoint) -> None:
        tried.append(bench.clock())
        raise NoAnswer(f"{at.target}: UNKNOWN: write: no space left on device")

    monkeypatch.setattr(bench.etcd, "defragment", fails)
    bench.etcd.files = dict.fromkeys(sorted(bench.etcd.members)[-1:], WASTEFUL)

    await bench.rest(5 * LONGEST_SECONDS)

    apart = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert [round(one / 60, -1) for one in apart[:5]] == [10, 20, 40, 60, 60]
    assert len(tried) == 7


async def test_an_old_attempt_does_not_extend_the_pause(bench):
    wasteful = dict.fromkeys(sorted(bench.etcd.members)[-1:], WASTEFUL)
    bench.etcd.files = dict(wasteful)
    await bench.rest(60)
    await bench.rest(PAUSE_SECONDS + LONGEST_SECONDS)
    bench.etcd.files = dict(wasteful)
    bench.etcd.answers = [NoAnswer("deadline")]

    await bench.rest(PAUSE_SECONDS + 120)

    assert len(asked(bench)) == 3


async def test_defragmentation_waits_for_a_running_backup(bench):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "nightly-backup-1-x",
            "namespace": KEY[0],
            "labels": naming.ours(KEY[1]) | {naming.LABEL_NAME: LABEL},
            "annotations": {naming.BACKUP: "nightly"},
        },
        "status": {"phase": "Running"},
    }
    bench.kube.put(PODS, pod)
    waste(bench)

    await bench.rest(60)

    assert not asked(bench)
    assert "nightly-backup-1-x" in bench.status["plan"]
    live = bench.kube.live(PODS, "nightly-backup-1-x")
    bench.kube.put(PODS, live | {"status": {"phase": "Succeeded"}})
    await bench.rest(60)
    assert len(asked(bench)) == 3


async def test_at_the_quota_writes_are_enabled_again_once_space_is_reclaimed(bench):
    waste(bench)
    bench.etcd.raised = (Alarm("NOSPACE", min(bench.etcd.listed)),)

    await bench.rest(120)

    assert not bench.etcd.raised
    assert len(asked(bench)) == 3
    assert "AlarmDisarmed" in bench.events.reasons()
    assert bench.condition("Degraded")["reason"] == "AllMembersServe"


async def test_at_the_quota_without_reclaimable_space_a_human_is_needed(bench):
    bench.etcd.files = dict.fromkeys(bench.etcd.members, (2048 * MIB, 2000 * MIB))
    bench.etcd.raised = (Alarm("NOSPACE", min(bench.etcd.listed)),)

    await bench.rest(120)

    assert bench.etcd.raised
    assert not asked(bench)
    assert bench.condition("Blocked")["reason"] == "NoSpace"
    assert bench.events.reasons().count("NoSpace") == 1


class TestFull:
    """etcd refuses writes. In each file, a part has never been used, and the rest is history."""

    @pytest.fixture
    async def bench(self, bench: Bench) -> Bench:
        bench.etcd.raised = (Alarm("NOSPACE", 1),)
        bench.etcd.files = dict.fromkeys(bench.etcd.members, (2100 * MIB, 1880 * MIB))
        await bench.rest(120)
        return bench

    async def test_space_freed_by_a_later_compaction_was_not_reclaimed_for_ten_minutes(self, bench):
        """Members that were not queried again reported for good that all of it is in use."""
        assert len(asked(bench)) == 3
        assert bench.condition("Blocked")["reason"] == "NoSpace"

        bench.etcd.uncounted = dict.fromkeys(bench.etcd.members, 300 * MIB)
        await bench.rest(120)

        assert len(asked(bench)) == 6
        assert bench.etcd.raised == ()
        assert bench.condition("Progressing")["reason"] == "AsDeclared"

    async def test_a_member_whose_file_does_not_shrink_is_not_defragmented_again(self, bench):
        bench.etcd.files = dict.fromkeys(bench.etcd.members, (2100 * MIB, 1880 * MIB))

        await bench.rest(120)

        assert len(asked(bench)) == 3

    async def test_no_recount_is_requested_if_the_spec_disables_defragmentation(self, bench):
        bench.declare(defragmentation="Never")
        bench.etcd.calls.clear()

        await bench.rest(120)

        assert any(call.startswith("alarms") for call in bench.etcd.calls)
        assert not any(call.startswith("recount") for call in bench.etcd.calls)

    async def test_no_recount_is_requested_during_a_pause(self, bench):
        bench.declare(paused=True)
        bench.etcd.calls.clear()

        for _ in range(3):  # for any reason that leads to a pass
            await bench.once()
            bench.clock.now += 120

        assert not any(call.startswith("recount") for call in bench.etcd.calls)
