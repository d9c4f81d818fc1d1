"""TLS turned on and off with etcd of each minor, as the planner does it, while a client writes.

The steps rely on this: a member may have two peer URLs, and etcd tries the other one if one does
not answer; with certificates and an `http` URL it listens in plaintext; and it serves clients with
and without TLS on one port.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from start_pods import PATIENCE, NoReply, Pod, World, eventually
from start_tls import Tls

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful import identity
from etcd_stateful.observed.members import EtcdView

pytestmark = pytest.mark.integration

T = TypeVar("T")

LONGEST_GAP = 20.0
"""Seconds without an acknowledged put: a member that stays away makes it longer, a machine that is
full of other tests does not. How long clients really wait is measured by `make bench`, not here."""

TRY_SECONDS = 1.0
"""Then a client asks another member: what a follower has passed on to a leader that is just handing
over is dropped in silence, and etcd itself gives it up after 7 s, with TLS or without."""

OFF: dict[str, Any] = {"peer_scheme": "http", "client_scheme": "http", "plaintext_clients": False}
BETWEEN: dict[str, Any] = {**OFF, "client_scheme": "https", "plaintext_clients": True}
ON: dict[str, Any] = {**BETWEEN, "peer_scheme": "https", "plaintext_clients": False}


class Switch:
    """Three members in plaintext, whose certificates are there for when they are needed."""

    def __init__(self, world: World) -> None:
        self.pods = world.bootstrap(3)
        self.ids = {pod.settings.member: 0 for pod in self.pods}
        for pod in self.pods:
            self.ids[pod.settings.member] = identity.member_id([pod.peer_url], world.token)
        self.plain = dict(self.pods[0].settings.options)
        self.tls = world.tls = Tls(world.root)
        for pod in self.pods:
            self.tls.mount(pod.volume.parent, pod.settings.host)
        self.etcd = GrpcEtcd()

    def at(self, pod: Pod) -> Endpoint:
        shown = self.tls.identity if pod.settings.client_scheme == "https" else None
        return Endpoint(pod.settings.host, port=pod.settings.client_port, tls=shown)

    async def update(self, *schemes: str) -> None:
        """Each member gets the URLs of these schemes."""
        for pod in self.pods:
            urls = [f"{scheme}://{pod.peer_url.partition('://')[2]}" for scheme in schemes]
            await insisted(NoAnswer, lambda pod=pod, urls=urls: self._update(pod, urls))

    async def _update(self, pod: Pod, urls: list[str]) -> None:
        leads = self.at(await self.leader())
        await self.etcd.member_update(leads, self.ids[pod.settings.member], *urls)

    async def roll(self, how: dict[str, Any]) -> None:
        """Restarts each member with these settings, the leader after it has handed over."""
        for pod in self.pods:
            await insisted(NoAnswer, lambda pod=pod: self._hand_over(pod))
            pod.stop(signal.SIGTERM)
            options = self.plain | (self.tls.options(pod.volume.parent) if how != OFF else {})
            pod.runs(**how, options=options)
            pod.restart_container()
            await self.serve()

    async def _hand_over(self, pod: Pod) -> None:
        if await self.leader() is pod:
            heir = next(one for one in self.pods if one is not pod)
            await self.etcd.move_leader(self.at(pod), self.ids[heir.settings.member])

    async def serve(self) -> None:
        """Every member knows a leader, and has applied what it has."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if await self._has_one_leader():
                return
            await asyncio.sleep(0.05)
        pytest.fail("a member does not come back: " + self.pods[0].log.read_text()[-2000:])

    async def _has_one_leader(self) -> bool:
        try:
            said = [await self.etcd.status(self.at(pod)) for pod in self.pods]
        except NoAnswer:
            return False
        return len({one.leader_id for one in said} - {0}) == 1 and all(s.leader_id for s in said)

    async def leader(self) -> Pod:
        await self.serve()
        status = await self.etcd.status(self.at(self.pods[0]))
        return next(pod for pod in self.pods if self.ids[pod.settings.member] == status.leader_id)

    async def listed(self) -> EtcdView:
        return await insisted(NoAnswer, lambda: self.etcd.member_list(self.at(self.pods[0])))

    async def schemes(self) -> set[tuple[str, ...]]:
        view = await self.listed()
        return {
            tuple(sorted(url.partition(":")[0] for url in one.peer_urls)) for one in view.members
        }


class Writer:
    """Writes one key after the other to any member that accepts it; records what was acknowledged,
    and when."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self.acknowledged: list[str] = []
        self.gap = 0.0
        self._ends = threading.Event()

    def run(self) -> None:
        last, number = time.monotonic(), 0
        while not self._ends.is_set():
            pod = self.pods[number % len(self.pods)]
            number += 1
            try:
                replace(pod, patience=TRY_SECONDS).put(f"k{number}", str(number))
            except (NoReply, ValueError):
                continue
            now = time.monotonic()
            self.gap, last = max(self.gap, now - last), now
            self.acknowledged.append(f"k{number}")
            time.sleep(0.05)
        self.gap = max(self.gap, time.monotonic() - last)  # also one that has not ended

    def stop(self) -> None:
        self._ends.set()


@contextmanager
def writing(pods: list[Pod]) -> Iterator[Writer]:
    writer = Writer(pods)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        yield writer
    finally:
        writer.stop()
        thread.join(PATIENCE)


async def test_tls_is_turned_on_and_off_again_under_writes(world: World) -> None:
    switch = Switch(world)
    with writing(switch.pods) as writer:
        await switch.roll(BETWEEN)
        await switch.update("http", "https")
        assert await switch.schemes() == {("http", "https")}
        await switch.roll(ON)
        await switch.update("https")
        on, writer.gap = writer.gap, 0.0
        assert await switch.schemes() == {("https",)}
        with pytest.raises(NoAnswer):
            await switch.etcd.status(replace(switch.at(switch.pods[0]), tls=None))

        await switch.update("http", "https")
        await switch.roll(BETWEEN)
        await switch.roll(OFF)
        await switch.update("http")
    assert await switch.schemes() == {("http",)}
    assert {one.member_id for one in (await switch.listed()).members} == set(switch.ids.values())
    print(f"{len(writer.acknowledged)} puts, longest gaps {on:.2f} s and {writer.gap:.2f} s")
    assert max(on, writer.gap) < LONGEST_GAP
    lost = [key for key in writer.acknowledged if switch.pods[1].get(key) is None]
    assert not lost
    assert len(writer.acknowledged) > 50


async def test_half_way_through_clients_and_peers_with_and_without_tls_are_served(
    world: World,
) -> None:
    """A mixed cluster: each member finds each other one, whatever that listens with."""
    switch = Switch(world)
    await switch.roll(BETWEEN)
    await switch.update("http", "https")
    for pod in switch.pods:
        plain = replace(pod, settings=replace(pod.settings, client_scheme="http"))
        plain.put("by", "http")
        pod.put("by", "https")
        assert plain.get("by") == "https"
        assert (await switch.etcd.status(replace(switch.at(pod), tls=None))).leader_id
        assert (await switch.etcd.status(switch.at(pod))).leader_id
    stranger = replace(switch.at(switch.pods[0]), tls=Tls(world.root).identity)
    with pytest.raises(NoAnswer):
        await switch.etcd.status(stranger)

    first, second, third = switch.pods
    first.stop(signal.SIGTERM)
    first.runs(**ON)
    first.restart_container()
    await switch.serve()
    for down in (second, third):  # with each of the others gone, the rest is a quorum by itself
        down.stop(signal.SIGTERM)
        rest = next(one for one in (second, third) if one is not down)
        eventually(lambda pod=rest: took(pod, "k"), PATIENCE)
        eventually(lambda: took(first, "k"), PATIENCE)
        down.runs()
        down.restart_container()
        await switch.serve()


def took(pod: Pod, key: str) -> bool:
    try:
        pod.put(key, "v")
    except NoReply:
        return False
    return True


async def test_a_member_joining_half_way_through_has_both_urls_and_is_promoted(
    world: World,
) -> None:
    switch = Switch(world)
    await switch.roll(BETWEEN)
    await switch.update("http", "https")
    first = switch.pods[0]
    new = world.pod("c-3")
    new.settings = replace(new.settings, **BETWEEN)
    urls = [f"{scheme}://{new.peer_url.partition('://')[2]}" for scheme in ("http", "https")]
    leads = switch.at(await switch.leader())
    added = await insisted(Refused, lambda: switch.etcd.member_add_learner(leads, *urls))
    view = await switch.listed()

    waiting = new.waits()
    everybody = [f"{one.name or 'c-3'}={url}" for one in view.members for url in one.peer_urls]
    receipt = new.push(
        state="existing",
        initial_cluster=",".join(everybody),
        member_id=added,
        cluster_id=view.cluster_id,
    )
    assert receipt.refusal == ""
    assert waiting.wait(PATIENCE) == 0
    new.restart_container()

    eventually(lambda: is_up(new), PATIENCE)
    await insisted(Refused, lambda: switch.etcd.member_promote(leads, added))
    switch.pods.append(new)
    switch.ids["c-3"] = added
    await switch.roll(ON)
    await switch.update("https")
    assert await switch.schemes() == {("https",)}
    assert took(first, "after")


async def insisted(over: type[Exception], ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until that is over, as the operator does pass by pass: what is asked may be done twice.

    NoAnswer of a busy machine; Refused of an etcd to which members are healthy after five seconds
    and learners in sync.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await ask()
        except over:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)


def is_up(pod: Pod) -> bool:
    try:
        return bool(pod.status()["header"])
    except NoReply:
        return False
