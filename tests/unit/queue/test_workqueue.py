"""The work queue on a simulated clock, on which seconds pass at once and exactly."""

import asyncio
import contextlib
import logging

import pytest
from shell_clock import jumping

from etcd_operator.kube.api import Rejected, Unavailable
from etcd_operator.queue.workqueue import LAST_DELAY, LONGEST_PATIENCE, WorkQueue
from etcd_operator.telemetry import logs
from etcd_operator.telemetry.metrics import Metrics, asked_at

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


class Passes:
    """A worker that records when each pass began, and does what a test says."""

    def __init__(self, *, seconds=0.0, answers=()):
        self.log = []
        self.running = set()
        self.most = 0
        self.seconds = seconds
        self.answers = list(answers)

    async def __call__(self, key):
        assert key not in self.running, f"two passes over {key} at the same time"
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        self.log.append((round(asyncio.get_running_loop().time() - self.began, 3), key))
        try:
            await asyncio.sleep(self.seconds)
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, BaseException):
                raise answer
            return answer
        finally:
            self.running.discard(key)

    @property
    def times(self):
        return [when for when, _ in self.log]


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def queue(metrics):
    return WorkQueue("clusters", metrics, workers=2, jitter=lambda: 0.5)


@contextlib.asynccontextmanager
async def working(queue, passes):
    passes.began = asyncio.get_running_loop().time()
    task = asyncio.create_task(queue.run(passes))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@jumping
async def test_many_events_are_one_pass(queue):
    passes = Passes()
    for _ in range(100):
        queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(1)

    assert passes.log == [(0, A)]


@jumping
async def test_an_event_during_a_pass_is_one_more_pass_after_it(queue, metrics):
    passes = Passes(seconds=10)
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(1)
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(50)

    assert passes.times == [0, 10]
    assert sample(metrics, "workqueue_adds_total") == 2


@jumping
async def test_a_key_waits_for_slow_keys_only_when_all_workers_are_busy(queue):
    passes = Passes(seconds=10)
    for key in (A, B, C):
        queue.add(key)
    async with working(queue, passes):
        await asyncio.sleep(50)

    assert passes.log == [(0, A), (0, B), (10, C)]
    assert passes.most == 2


@jumping
async def test_a_key_that_is_always_queued_again_does_not_starve_the_others(metrics):
    queue = WorkQueue("clusters", metrics, workers=1)
    passes = Passes(seconds=1, answers=[0.0] * 100)
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(0.5)
        queue.add(B)
        await asyncio.sleep(2)

    assert passes.log[:3] == [(0, A), (1, B), (2, A)]


@jumping
async def test_many_failing_clusters_of_one_namespace_do_not_keep_another_waiting(metrics):
    passes = Passes(seconds=3, answers=[1.0] * 1000)
    queue = WorkQueue("clusters", metrics, workers=8)
    async with working(queue, passes):
        for number in range(200):
            queue.add(("crowded", f"cluster-{number}"))
        await asyncio.sleep(10)
        queue.add(("quiet", "a"))
        queue.add(("quiet", "b"))
        await asyncio.sleep(90)

    first = {name: when for when, (where, name) in reversed(passes.log) if where == "quiet"}
    assert first == {"a": 12, "b": 12}
    assert {name for _, (where, name) in passes.log if where == "crowded"} == {
        f"cluster-{number}" for number in range(200)
    }


@jumping
async def test_the_keys_of_one_namespace_keep_their_order(metrics):
    passes = Passes()
    queue = WorkQueue("clusters", metrics, workers=1)
    keys = [A, ("other", "x"), B, C, ("other", "y")]
    for key in keys:
        queue.add(key)
    async with working(queue, passes):
        await asyncio.sleep(1)

    assert [key for _, key in passes.log] == [A, ("other", "x"), B, ("other", "y"), C]


@jumping
async def test_a_pass_is_repeated_when_it_asks_for_it(queue):
    passes = Passes(answers=[7.0, 0.0, None])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(100)

    assert passes.times == [0, 7, 7]


@jumping
async def test_an_event_cancels_the_timer(queue):
    passes = Passes(answers=[60.0])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(5)
        queue.add(A)
        await asyncio.sleep(200)

    assert passes.times == [0, 5]


@jumping
async def test_failures_back_off_exponentially_up_to_a_limit(queue):
    passes = Passes(answers=[Unavailable("away")] * 12)
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(1000)

    gaps = [round(b - a, 3) for a, b in zip(passes.times, passes.times[1:], strict=False)]
    assert gaps[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
    assert max(gaps) == LAST_DELAY
    assert len(passes.times) == 13


@jumping
async def test_delays_of_many_clusters_are_spread(metrics):
    spread = iter([0.0, 1.0])
    queue = WorkQueue("clusters", metrics, workers=2, jitter=lambda: next(spread))
    passes = Passes(answers=[Unavailable("away")] * 2)
    queue.add(A)
    queue.add(B)
    async with working(queue, passes):
        await asyncio.sleep(10)

    assert passes.times == [0, 0, pytest.approx(0.16), pytest.approx(0.24)]


@jumping
async def test_a_success_resets_the_back_off(queue):
    passes = Passes(answers=[*[Unavailable("away")] * 4, None, Unavailable("away"), None])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(50)
        queue.add(A)
        await asyncio.sleep(50)

    assert passes.times[-1] - passes.times[-2] == pytest.approx(0.2)


@jumping
async def test_an_event_ends_the_back_off(queue):
    passes = Passes(answers=[Unavailable("away")] * 8)
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(13)  # the next one would be at 25.4
        assert len(passes.times) == 7
        queue.add(A)
        await asyncio.sleep(0.1)

        assert passes.times[-1] == 13


@jumping
async def test_a_failing_pass_that_causes_events_still_backs_off(queue):
    passes = Passes(answers=[Rejected("no")] * 5)

    async def worker(key):
        queue.add(key)
        return await passes(key)

    queue.add(A)
    passes.began = asyncio.get_running_loop().time()
    task = asyncio.create_task(queue.run(worker))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert passes.times == [0, 0.2, 0.6]


@jumping
async def test_retry_after_extends_the_delay(queue):
    passes = Passes(answers=[Unavailable("busy", status=429, retry_after=17)])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(60)

    assert passes.times == [0, 17]


@jumping
async def test_a_retry_after_of_a_proxy_delayed_a_pass_by_a_day(queue):
    passes = Passes(answers=[Unavailable("maintenance", status=503, retry_after=86400)])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(3600)

    assert passes.times == [0, LONGEST_PATIENCE]


@jumping
async def test_the_queue_survives_any_exception_of_a_pass(queue, caplog):
    passes = Passes(answers=[ZeroDivisionError("oops"), KeyError("x")])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(5)
        queue.add(B)
        await asyncio.sleep(5)

    assert [key for _, key in passes.log] == [A, A, A, B]
    assert caplog.records[0].exc_info is not None


@jumping
async def test_the_same_bug_logged_a_traceback_at_each_try(queue, caplog):
    bugs = [KeyError("x"), KeyError("x"), Unavailable("away"), KeyError("x"), KeyError("y")]
    passes = Passes(answers=[*bugs, None, KeyError("y")])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(100)
        queue.add(A)
        await asyncio.sleep(100)

    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert told == ["'x'", "'y'", "'y'"]


@jumping
async def test_a_cancelled_call_in_a_pass_ended_its_worker_silently(metrics, caplog):
    queue = WorkQueue("clusters", metrics, workers=1)
    passes = Passes(answers=[asyncio.CancelledError()])
    queue.add(A)
    queue.add(B)
    async with working(queue, passes):
        await asyncio.sleep(1)

    assert [key for _, key in passes.log] == [A, B, A]
    assert "cancelled" in caplog.text
    assert sample(metrics, "etcd_operator_reconciles_total", result="error") == 1


@jumping
async def test_an_expected_failure_is_logged_in_one_line_with_the_cluster(queue, caplog):
    caplog.handler.addFilter(logs._add_context)
    passes = Passes(answers=[Rejected("pods is forbidden", status=403)])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(5)

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.cluster == "ns/a"
    assert "pods is forbidden" in record.getMessage()
    assert record.exc_info is None


@jumping
async def test_a_pass_that_hangs_is_ended_and_counted(metrics):
    queue = WorkQueue("clusters", metrics, workers=1, pass_seconds=30, jitter=lambda: 0.5)
    passes = Passes(seconds=1e6)
    queue.add(A)
    queue.add(B)
    async with working(queue, passes):
        await asyncio.sleep(61)

    assert passes.log == [(0, A), (30, B), (60, A)]
    assert sample(metrics, "etcd_operator_reconciles_total", result="timeout") == 2


@jumping
async def test_a_timeout_of_a_call_is_not_a_timeout_of_the_pass(queue, metrics):
    passes = Passes(answers=[TimeoutError("a call")])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(1)

    assert sample(metrics, "etcd_operator_reconciles_total", result="error") == 1
    assert sample(metrics, "etcd_operator_reconciles_total", result="timeout") is None


@jumping
async def test_stop_lets_running_passes_finish_and_starts_no_other(queue):
    passes = Passes(seconds=10, answers=[0.0, Unavailable("away")])
    for key in (A, B, C):
        queue.add(key)
    async with working(queue, passes) as task:
        await asyncio.sleep(1)
        queue.add(A)
        queue.stop()
        await asyncio.wait([task], timeout=100)

        assert task.done()
        assert task.exception() is None
    assert passes.log == [(0, A), (0, B)]


@jumping
async def test_stop_ends_an_idle_queue(queue):
    queue.add(A)
    task = asyncio.create_task(queue.run(Passes(answers=[5.0])))
    await asyncio.sleep(1)
    queue.stop()
    await asyncio.wait_for(task, 1)
    await asyncio.sleep(10)

    assert not queue._waiting


@jumping
async def test_a_timer_can_be_set_again_after_it_fired(queue):
    passes = Passes(answers=[5.0, 5.0, 5.0])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(100)

    assert passes.times == [0, 5, 10, 15]


@jumping
async def test_a_pass_knows_since_when_it_was_queued(metrics):
    queue, known = WorkQueue("clusters", metrics, workers=1), []

    async def worker(key):
        known.append((key[1], asked_at.get() - began))
        if len(known) == 1:
            await asyncio.sleep(2)
            queue.add(key)
        await asyncio.sleep(8)

    began = asyncio.get_running_loop().time()
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run(worker))
    await asyncio.sleep(60)
    queue.stop()
    await task

    assert known == [("a", 0), ("b", 0), ("a", 2)]


@jumping
async def test_all_keys_are_taken_up_once_the_last_pass_has_started(queue):
    for key in (A, B, C):
        queue.add(key)
    all_taken_up = asyncio.create_task(queue.all_taken_up())
    async with working(queue, Passes(seconds=10)):
        await asyncio.sleep(9)
        assert not all_taken_up.done()
        await asyncio.sleep(2)
        assert all_taken_up.done()


@jumping
async def test_many_passes_that_never_yield_do_not_block_the_loop(queue):
    """The keys of 300,000 backups that had come and gone kept the loop busy, and the Lease was
    lost."""

    async def worker(_key):
        return None

    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    for number in range(1000):
        queue.add(("ns", str(number)))
    beside = asyncio.create_task(others())
    task = asyncio.create_task(queue.run(worker))
    await queue.all_taken_up()
    for each in (beside, task):
        each.cancel()
    await asyncio.gather(beside, task, return_exceptions=True)

    assert turns >= 1000 / 2


@jumping
async def test_the_metrics_measure_what_those_of_client_go_do(metrics):
    queue = WorkQueue("clusters", metrics, workers=1, jitter=lambda: 0.5)
    passes = Passes(seconds=10, answers=[Unavailable("away")])
    for key in (A, A, B, C):
        queue.add(key)
    assert sample(metrics, "workqueue_depth") == 3
    assert sample(metrics, "workqueue_adds_total") == 3
    async with working(queue, passes):
        await asyncio.sleep(4)
        assert sample(metrics, "workqueue_depth") == 2
        assert sample(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(4)
        assert sample(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(4)
        await asyncio.sleep(46)

    assert sample(metrics, "workqueue_retries_total") == 1
    assert sample(metrics, "workqueue_work_duration_seconds_count") == 4
    assert sample(metrics, "workqueue_work_duration_seconds_sum") == pytest.approx(40)
    # B waits for A, C for both, and A's second pass waits from 10.2 for B and C.
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(10 + 20 + 19.8)
    assert sample(metrics, "workqueue_depth") == 0


@jumping
async def test_nothing_is_kept_of_finished_keys(queue):
    passes = Passes(answers=[Unavailable("away"), 5.0])
    queue.add(A)
    async with working(queue, passes):
        await asyncio.sleep(100)

    for kept in (queue._waiting, queue._running, queue._again, queue._timers, queue._failures):
        assert not kept


def sample(metrics, name, **labels):
    base = {"name": "clusters"} if name.startswith("workqueue") else {"queue": "clusters"}
    return metrics.registry.get_sample_value(name, base | labels)
