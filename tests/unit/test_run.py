"""The process as a whole: the order of start-up, and every way to end."""

import asyncio
import contextlib
import json
import resource
import socket

import pytest
from shell_clock import jumping

from etcd_operator import run
from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_CLUSTERS, ETCD_RESTORES, ETCD_SCHEDULES
from etcd_operator.kube.watches import scopes
from etcd_operator.settings import Settings
from etcd_operator.telemetry.metrics import Metrics
from localkube.server import free_port

KEY = ("ns", "a")

pytestmark = pytest.mark.usefixtures("own_limits")


class Parts:
    """Stands in for the informer, the election and the passes; the tests play them."""

    def __init__(self, monkeypatch):
        self.log = []
        self.synced = asyncio.Event()
        self.acquire = asyncio.Event()
        self.lose = asyncio.Event()
        self.die = asyncio.Event()
        self.pass_seconds = 0.0
        self.drain_seconds = 0.0
        self.end_seconds = 0.0
        self.writing = None
        self.fault = RuntimeError("the watches can neither be used nor ended")
        self.held = False
        monkeypatch.setattr(run, "Informer", self.informer)
        monkeypatch.setattr(run.lease, "Lock", lambda *_, **__: self)
        monkeypatch.setattr(run.lease, "hold", self.hold)

    def informer(self, *_, enqueue, first_round, **__):
        self.enqueue, self.first_round = enqueue, first_round
        return self

    def not_ready(self):
        return []

    async def run(self):
        try:
            await self.die.wait()
            raise self.fault
        finally:
            await asyncio.sleep(self.end_seconds)
            self.log.append("informer ended")

    async def hold(self, _lock, acquired):
        await self.acquire.wait()
        self.held = True
        acquired()
        await self.lose.wait()
        self.held = False

    async def release(self):
        self.log.append("released")
        return self.held

    async def one_pass(self, key):
        self.log.append(f"pass over {key[1]}")
        try:
            await asyncio.sleep(self.pass_seconds)
        except asyncio.CancelledError:
            self.log.append("pass cut short")
            raise
        self.log.append("pass done")

    async def write_late(self):
        """An Event or a label, which a pass does not wait for."""
        await asyncio.sleep(1)
        self.log.append("late write")

    async def drain(self):
        await asyncio.sleep(self.drain_seconds)
        self.log.append("drained")

    async def abandon(self):
        if self.writing is not None:
            self.writing.cancel()

    def make(self, *_):
        resources = (ETCD_CLUSTERS, ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES)
        return run.Work(dict.fromkeys(resources, self.one_pass), self.drain, self.abandon)


async def ended_by_loss(parts, task):
    """The exit code, after the Lease is lost; nothing may take time any more."""
    parts.lose.set()
    began = asyncio.get_running_loop().time()
    code = await task
    assert asyncio.get_running_loop().time() == began
    return code


def put(task, resource, name):
    """Puts it into the store as a watch does, and enqueues its key."""
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"}
    task.operator.store.put(resource, {"metadata": metadata})


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


@contextlib.asynccontextmanager
async def operating(parts, *, lead=True):
    operator = run.Operator(Connected(), Settings(), Metrics())
    stop = asyncio.Event()
    task = asyncio.create_task(operator.run(parts.make, stop))
    task.operator, task.stop = operator, stop.set
    if lead:
        parts.synced.set()
        parts.acquire.set()
    await asyncio.sleep(1)
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@jumping
async def test_passes_start_once_everything_is_listed_and_the_lease_is_held(parts):
    async with operating(parts, lead=False) as task:
        put(task, ETCD_CLUSTERS, "a")
        await asyncio.sleep(10)
        parts.acquire.set()
        await asyncio.sleep(10)
        assert parts.log == []
        assert leader(task) == 0
        parts.synced.set()
        await asyncio.sleep(0.1)
        assert parts.log == ["pass over a", "pass done"]
        assert leader(task) == 1


@jumping
async def test_a_replica_that_could_list_nothing_took_the_lease_from_a_working_one(parts):
    """As during an upgrade whose Role or CRDs are missing: it held it for as long as it waited."""
    parts.acquire.set()
    async with operating(parts, lead=False):
        await asyncio.sleep(3600)
        assert not parts.held
        parts.synced.set()
        await asyncio.sleep(1)
        assert parts.held


@jumping
async def test_a_standby_runs_no_passes_and_does_not_release_the_lease_of_another(parts):
    async with operating(parts, lead=False) as task:
        parts.synced.set()
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(100)
        task.stop()
        assert await task == 0
        assert "pass over a" not in parts.log
        assert "drained" not in parts.log


@jumping
async def test_a_standby_keeps_no_keys_of_deleted_objects(parts):
    """It grew by the keys of all backups there ever were, and went through each when it took
    over."""
    async with operating(parts, lead=False) as task:
        parts.synced.set()
        for number in range(1000):
            parts.enqueue(ETCD_BACKUPS, ("ns", str(number)))
        task.operator.name_changes._look(("ns", "gone"))
        await asyncio.sleep(1)
        assert not any(queue._waiting for queue in task.operator.queues.values())

        parts.acquire.set()
        await asyncio.sleep(1)
        assert parts.log == []


@jumping
async def test_a_new_leader_queues_all_existing_objects(parts):
    resources = (ETCD_CLUSTERS, ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES)
    async with operating(parts, lead=False) as task:
        parts.synced.set()
        for resource in resources:
            put(task, resource, resource.plural)
        await asyncio.sleep(1)
        parts.acquire.set()
        await asyncio.sleep(1)

    assert sorted(line for line in parts.log if "over" in line) == sorted(
        f"pass over {resource.plural}" for resource in resources
    )


@jumping
async def test_an_object_that_a_pass_reads_before_its_event_is_queued(parts):
    async with operating(parts) as task:
        made = {"namespace": "ns", "name": "b", "uid": "b", "resourceVersion": "1"}
        task.operator.store.put_read(ETCD_BACKUPS, {"metadata": made})
        await asyncio.sleep(1)

    assert parts.log == ["pass over b", "pass done"]


@jumping
async def test_no_event_is_lost_while_the_lease_is_acquired(parts):
    """One more event at each turn of the loop, as long as it takes."""
    async with operating(parts, lead=False) as task:
        parts.synced.set()
        await asyncio.sleep(1)
        parts.acquire.set()
        for number in range(50):
            put(task, ETCD_CLUSTERS, str(number))
            parts.enqueue(ETCD_CLUSTERS, ("ns", str(number)))
            await asyncio.sleep(0)
        await asyncio.sleep(1)

    assert {line for line in parts.log if "over" in line} == {
        f"pass over {number}" for number in range(50)
    }


@jumping
async def test_the_watches_of_the_leader_wait_for_its_first_passes(parts):
    async with operating(parts, lead=False) as task:
        waiting = asyncio.create_task(parts.first_round())
        put(task, ETCD_CLUSTERS, "a")
        await asyncio.sleep(1)
        assert not waiting.done(), "nobody leads yet"
        parts.synced.set()
        parts.acquire.set()
        await asyncio.sleep(1)
        assert waiting.done()


@jumping
async def test_each_kind_has_its_own_queue(parts):
    async with operating(parts) as task:
        seen = {name: [] for name in ("clusters", "backups", "restores", "schedules")}
        for queue in task.operator.queues.values():
            queue.add = seen[queue.name].append
        for resource in (ETCD_CLUSTERS, ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES):
            parts.enqueue(resource, ("ns", resource.plural))

    assert seen == {
        "clusters": [("ns", "etcdclusters")],
        "backups": [("ns", "etcdbackups")],
        "restores": [("ns", "etcdrestores")],
        "schedules": [("ns", "etcdbackupschedules")],
    }


@jumping
async def test_when_asked_to_stop_passes_finish_before_the_lease_is_released(parts):
    parts.pass_seconds = 5
    async with operating(parts) as task:
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(1)
        task.stop()
        await asyncio.sleep(0.1)
        parts.enqueue(ETCD_CLUSTERS, ("ns", "too-late"))

        assert await task == 0
    assert parts.log == ["pass over a", "pass done", "drained", "released", "informer ended"]


@jumping
async def test_a_hanging_pass_does_not_delay_the_stop_for_long(parts):
    parts.pass_seconds = 1e6
    async with operating(parts) as task:
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(1)
        task.stop()
        began = asyncio.get_running_loop().time()

        assert await task == 0
        assert asyncio.get_running_loop().time() - began == run.GRACE_SECONDS
    assert parts.log[-3:] == ["pass cut short", "released", "informer ended"]


@jumping
async def test_a_hanging_drain_does_not_delay_the_stop_for_long(parts):
    parts.drain_seconds = 1e6
    async with operating(parts) as task:
        task.stop()

        assert await asyncio.wait_for(task, run.GRACE_SECONDS + 1) == 0
    assert parts.log == ["released", "informer ended"]


@jumping
async def test_without_the_lease_passes_are_cancelled_and_the_process_ends(parts):
    parts.pass_seconds = 1e6
    async with operating(parts) as task:
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(1)
        assert await ended_by_loss(parts, task) == 1
    assert "pass cut short" in parts.log


@jumping
async def test_passes_continued_after_the_lease_was_lost_during_a_stop(
    parts,
):
    parts.pass_seconds = 1e6
    async with operating(parts) as task:
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(1)
        task.stop()
        await asyncio.sleep(1)

        assert await ended_by_loss(parts, task) == 0
    assert parts.log[-3:] == ["pass cut short", "released", "informer ended"]


@jumping
async def test_a_copy_that_had_released_its_lease_still_said_that_it_leads(parts):
    """For the seconds that kopf may take to end, two copies said so."""
    parts.end_seconds = 3
    async with operating(parts) as task:
        assert leader(task) == 1
        task.stop()
        await asyncio.sleep(1)
        assert parts.log[-1] == "released"
        assert leader(task) == 0


@jumping
async def test_a_lost_lease_was_called_an_unexpected_end_for_no_reason(parts, caplog):
    """As `election ended unexpectedly, so the operator ends too: None`."""
    caplog.set_level("INFO")
    async with operating(parts) as task:
        assert await ended_by_loss(parts, task) == 1
    assert "the operator ends, and waits for the Lease again when it is restarted" in caplog.text
    assert "unexpectedly" not in caplog.text


@jumping
async def test_background_writes_continued_after_the_lease_was_lost(parts):
    parts.end_seconds = 3  # as kopf may take
    async with operating(parts) as task:
        parts.writing = asyncio.create_task(parts.write_late())
        parts.lose.set()

        assert await task == 1
    assert parts.log == ["released", "informer ended"]


@jumping
async def test_background_writes_continued_after_passes_that_did_not_end_in_time(parts):
    parts.pass_seconds, parts.end_seconds = 1e6, 3
    async with operating(parts) as task:
        parts.enqueue(ETCD_CLUSTERS, KEY)
        await asyncio.sleep(1)
        task.stop()
        await asyncio.sleep(run.GRACE_SECONDS - 0.5)
        parts.writing = asyncio.create_task(parts.write_late())

        assert await task == 0
    assert parts.log[-3:] == ["pass cut short", "released", "informer ended"]


@jumping
async def test_background_writes_continued_after_the_lease_was_lost_during_a_stop(parts):
    parts.drain_seconds = 1e6  # as while a webhook for pods or Events hangs
    async with operating(parts) as task:
        parts.writing = asyncio.create_task(parts.write_late())
        task.stop()
        await asyncio.sleep(0.5)

        assert await ended_by_loss(parts, task) == 0
    assert parts.log == ["released", "informer ended"]


@jumping
async def test_a_component_that_fails_ends_the_process_and_the_reason_is_logged(parts, caplog):
    async with operating(parts) as task:
        parts.die.set()

        assert await task == 1
    assert "informer ended unexpectedly, so the operator ends too" in caplog.text
    assert "can neither be used nor ended" in caplog.text
    assert "released" in parts.log


@jumping
async def test_a_component_that_ended_cancelled_left_passes_running_and_the_lease_held(
    parts, caplog
):
    parts.fault = asyncio.CancelledError()
    async with operating(parts) as task:
        parts.die.set()

        assert await task == 1
    assert "informer ended unexpectedly, so the operator ends too" in caplog.text
    assert "released" in parts.log


@jumping
async def test_an_error_in_a_queue_ends_the_process(parts, caplog):
    async with operating(parts) as task:

        async def broken():
            raise ZeroDivisionError("a fault of the queue's own")

        task.operator.queues[ETCD_CLUSTERS]._ready.get = broken
        parts.enqueue(ETCD_CLUSTERS, KEY)
        parts.enqueue(ETCD_CLUSTERS, ("ns", "b"))
        for number in range(20):
            parts.enqueue(ETCD_CLUSTERS, ("ns", str(number)))

        assert await task == 1
    assert "queues ended" in caplog.text


@pytest.fixture
def port_of_another():
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))  # noqa: S104 - as the operator does
        other.listen()
        yield other.getsockname()[1]


class Connected:
    """Stands in for the client; `closed` once it was."""

    transport = None
    closed = False

    async def connect(self, **_):
        return self

    async def close(self):
        self.closed = True


@pytest.fixture
def client(monkeypatch):
    client = Connected()
    monkeypatch.setattr(run, "Client", client)
    return client


@pytest.mark.parametrize("name", ["HEALTH_PORT", "METRICS_PORT"])
async def test_a_port_in_use_is_logged_in_one_line_that_names_it(
    client, caplog, port_of_another, name
):
    ports = {"HEALTH_PORT": free_port(), "METRICS_PORT": free_port(), name: port_of_another}
    settings = Settings(health_port=ports["HEALTH_PORT"], metrics_port=ports["METRICS_PORT"])

    assert await run.operate(settings) == 2
    [line] = caplog.records
    assert line.getMessage() == (
        f"cannot listen on port {port_of_another}: address already in use. "
        f"Set {name} to a port that is free"
    )
    assert line.exc_info is None
    assert client.closed
    # The ports on which it had begun to listen are free again.
    for port in {*ports.values()} - {port_of_another}:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    "error",
    [
        run.NotConfigured("not in a pod, and: no kubeconfig"),
        OSError(2, "No such file"),
        TypeError("'NoneType' object\n is not subscriptable"),
    ],
)
async def test_a_failed_connection_to_kubernetes_is_logged_in_one_line(monkeypatch, caplog, error):
    async def connect(**_):
        raise error

    monkeypatch.setattr(run.Client, "connect", connect)

    assert await run.operate(Settings()) == 2
    [line] = caplog.records
    assert line.getMessage().startswith("cannot connect to Kubernetes: ")
    assert "\n" not in line.getMessage()
    assert line.exc_info is None


async def test_a_deeply_nested_object_could_not_be_parsed(monkeypatch):
    parsed = []

    async def connect(**_):
        text = "[" * 10_000 + "]" * 10_000
        parsed.append(json.loads(text))
        parsed.append(await asyncio.to_thread(json.loads, text))
        raise run.NotConfigured("enough")

    monkeypatch.setattr(run.Client, "connect", connect)

    assert await run.operate(Settings()) == 2
    assert len(parsed) == 2


async def test_an_operator_of_a_hundred_namespaces_ran_out_of_file_descriptors(monkeypatch):
    """Many container runtimes let a process open 1024 files until it asks for more."""
    assert len(scopes(tuple(f"ns-{number}" for number in range(100)))) > 1024
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))

    async def connect(**_):
        raise run.NotConfigured("enough")

    monkeypatch.setattr(run.Client, "connect", connect)

    assert await run.operate(Settings()) == 2
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)


def leader(task):
    return task.operator.metrics.registry.get_sample_value("etcd_operator_leader")
