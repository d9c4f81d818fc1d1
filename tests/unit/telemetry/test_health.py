"""Liveness depends on the resync and the loop, readiness on what is known."""

import asyncio
import socket
import time
from itertools import count

import aiohttp
import pytest

from etcd_operator.telemetry.health import (
    BEAT_SECONDS,
    MOST_CONNECTIONS,
    OUTAGE_SECONDS,
    PAGE_SECONDS,
    Health,
    health_app,
    metrics_app,
    serve,
)
from etcd_operator.telemetry.metrics import Metrics


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def health(now):
    return Health(600, clock=lambda: now[0])


def pass_time(health, now, seconds):
    now[0] += seconds
    health.beaten = now[0]


def test_alive_from_the_start_and_through_an_outage(health, now):
    assert health.problems() == []
    pass_time(health, now, 1800)
    assert health.problems() == []


def test_not_alive_after_three_failed_resyncs(health, now):
    pass_time(health, now, 1801)
    assert health.problems() == ["the last resync is 1801 s old"]

    health.resynced = now[0]
    assert health.problems() == []


def test_a_short_resync_interval_made_the_kubelet_kill_the_operator_in_an_outage(now):
    """Then it was in a back-off of the kubelet's when the API server came back."""
    health = Health(10, clock=lambda: now[0])
    pass_time(health, now, OUTAGE_SECONDS)
    assert health.problems() == []

    pass_time(health, now, 1)
    assert health.problems() == [f"the last resync is {OUTAGE_SECONDS + 1:.0f} s old"]


def test_not_alive_when_the_event_loop_stalls(health, now):
    now[0] += 16

    assert health.problems() == ["the event loop has been late for 16 s"]


async def test_the_heartbeat_measures_a_blocked_event_loop(caplog):
    metrics = Metrics()
    health = Health(600)
    task = asyncio.create_task(health.beat(metrics))
    await asyncio.sleep(0.05)
    time.sleep(BEAT_SECONDS + 1.2)  # noqa: ASYNC251 - this is the fault
    await asyncio.sleep(0.05)
    task.cancel()

    assert metrics.registry.get_sample_value("etcd_operator_event_loop_lag_seconds_sum") > 1
    assert "the event loop was late by" in caplog.text


def port_of(runner):
    [port] = (address[1] for address in runner.addresses if len(address) == 2)  # IPv4
    return port


async def get(runner, path):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port_of(runner)}{path}") as response,
    ):
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_the_health_endpoints(health, now):
    missing = ["no watch yet: /api/v1/pods"]
    health.ready = lambda: missing
    runner = await serve(health_app(health), 0)
    try:
        assert (await get(runner, "/healthz"))[:2] == (200, "ok\n")
        assert (await get(runner, "/readyz"))[:2] == (503, "no watch yet: /api/v1/pods\n")
        missing.clear()
        now[0] += 5000
        assert (await get(runner, "/readyz"))[:2] == (200, "ok\n")
        status, text, _ = await get(runner, "/healthz")
        assert (status, text.count("\n")) == (503, 2)
    finally:
        await runner.cleanup()


async def test_idle_connections_of_anybody_used_up_the_operators_file_descriptors(health):
    """Then it could reach neither the API server nor members, and lost its Lease."""
    runner = await serve(health_app(health), 0)
    place = ("127.0.0.1", port_of(runner))
    try:
        idle = [await asyncio.open_connection(*place) for _ in range(3 * MOST_CONNECTIONS)]
        await asyncio.sleep(0.01)
        assert len(runner.server.connections) == MOST_CONNECTIONS
        assert (await get(runner, "/healthz"))[:2] == (200, "ok\n")
        for _, writer in idle:
            writer.close()
    finally:
        await runner.cleanup()


async def test_many_connections_at_the_same_moment_are_too_many_as_well(health):
    runner = await serve(health_app(health), 0)
    idle = [socket.socket() for _ in range(3 * MOST_CONNECTIONS)]
    try:
        for one in idle:
            one.setblocking(False)  # noqa: FBT003
            one.connect_ex(("127.0.0.1", port_of(runner)))
        await asyncio.sleep(0.05)
        assert 0 < len(runner.server.connections) <= MOST_CONNECTIONS
    finally:
        for one in idle:
            one.close()
        await runner.cleanup()


async def test_the_metrics_endpoint():
    metrics = Metrics()
    metrics.leader.set(1)
    runner = await serve(metrics_app(metrics), 0)
    try:
        status, text, kind = await get(runner, "/metrics")
    finally:
        await runner.cleanup()

    assert status == 200
    assert "\netcd_operator_leader 1.0\n" in text
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


async def test_anybody_who_asked_for_the_metrics_all_the_time_kept_the_event_loop_busy(now):
    """Each page was made anew, which takes long for a fleet, and the Lease was not renewed."""
    metrics, pages = Metrics(), count(1)
    metrics.cluster_size.labels("ns", "a").set_function(lambda: next(pages))
    runner = await serve(metrics_app(metrics, lambda: now[0]), 0)
    try:
        first = (await get(runner, "/metrics"))[1]
        assert (await get(runner, "/metrics"))[1] == first
        now[0] += PAGE_SECONDS
        assert (await get(runner, "/metrics"))[1] != first
        assert next(pages) == 3
    finally:
        await runner.cleanup()
