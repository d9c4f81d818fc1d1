"""Watches of names: when a mark can be relied on, and when an object has to be read instead."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from shell_clock import jumping

from etcd_operator.kube import name_changes
from etcd_operator.kube.api import CERTIFICATES, SECRETS, Rejected, Unavailable
from etcd_operator.kube.name_changes import NameChanges
from etcd_operator.kube.tables import Change

A, B = ("ns", "a"), ("ns", "b")
OTHER = ("other", "a")


class FakeTables:
    """Watches that a test feeds, ends and refuses."""

    def __init__(self):
        self.now = 10
        self.begun = []
        self.open = {}
        self.refusals = []
        self.refused_watch = None
        self.lists = 0

    async def version(self, resource, namespace):
        assert resource.namespaced
        assert namespace
        self.lists += 1
        if self.refusals:
            raise self.refusals.pop(0)
        return self.now

    async def changes(self, resource, namespace, since):
        self.begun.append((namespace, since))
        if self.refused_watch:
            raise self.refused_watch
        if self.refusals:
            raise self.refusals.pop(0)
        queue = self.open[namespace, resource] = asyncio.Queue()
        while (change := await queue.get()) is not None:
            if isinstance(change, Exception):
                raise change
            yield change

    async def tell(self, namespace, what, resource=SECRETS):
        self.open[namespace, resource].put_nowait(what)
        await asyncio.sleep(0.01)


@pytest.fixture
def tables():
    return FakeTables()


@contextlib.asynccontextmanager
async def listening(tables):
    looked = []
    changes = NameChanges(tables, looked.append, asyncio.get_running_loop().time)
    changes.looked = looked
    task = asyncio.create_task(changes.run())
    yield changes
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def heard(changes, *clusters):
    """The marks of Secret `s` once there is a watch, and nothing is left to reconcile."""
    for cluster in clusters:
        changes.mark(SECRETS, cluster, "s")
    await asyncio.sleep(0.01)
    changes.looked.clear()
    return [changes.mark(SECRETS, cluster, "s") for cluster in clusters]


@jumping
async def test_what_was_read_before_the_watch_began_has_no_mark(tables):
    async with listening(tables) as changes:
        assert changes.mark(SECRETS, A, "s") is None
        await asyncio.sleep(0.01)
        assert changes.looked == [A]
        assert changes.mark(SECRETS, A, "s") is not None


@jumping
async def test_a_changed_secret_has_another_mark_and_its_clusters_are_reconciled(tables):
    async with listening(tables) as changes:
        [before, same] = await heard(changes, A, B)
        assert before == same
        await tables.tell("ns", Change("s", 11))
        assert sorted(changes.looked) == [A, B]
        assert changes.mark(SECRETS, A, "s") not in (None, before)


@jumping
async def test_another_secret_or_a_bookmark_triggers_no_pass(tables):
    async with listening(tables) as changes:
        [before] = await heard(changes, A)
        for name in ("of-somebody-else", ""):
            await tables.tell("ns", Change(name, 12))
        assert changes.looked == []
        assert changes.mark(SECRETS, A, "s") == before


@jumping
async def test_a_namespace_has_one_watch_only_while_a_cluster_names_a_secret_there(tables):
    async with listening(tables) as changes:
        await heard(changes, A, B, OTHER)
        changes.mark(SECRETS, A, "t")
        await asyncio.sleep(0.01)
        assert sorted(tables.begun) == [("ns", 10), ("other", 10)]
        await tables.tell("other", Change("s", 11))
        assert changes.looked == [OTHER]


@jumping
async def test_a_certificate_is_not_mistaken_for_a_secret_of_the_same_name(tables):
    async with listening(tables) as changes:
        [before] = await heard(changes, A)
        changes.mark(CERTIFICATES, B, "s")
        await asyncio.sleep(0.01)
        assert tables.begun == [("ns", 10), ("ns", 10)]
        changes.looked.clear()
        changes.mark(CERTIFICATES, B, "s")
        await tables.tell("ns", Change("s", 11), CERTIFICATES)
        assert changes.looked == [B]
        assert changes.mark(SECRETS, A, "s") == before


@jumping
async def test_a_resource_that_is_not_served_yet_is_watched_once_it_is(tables, caplog):
    caplog.set_level(logging.INFO)
    tables.refusals = [Rejected("the server could not find the resource", status=404)] * 3
    async with listening(tables) as changes:
        assert changes.mark(CERTIFICATES, A, "s") is None
        await asyncio.sleep(60)
        assert changes.mark(CERTIFICATES, A, "s") is not None
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@jumping
async def test_a_watch_continues_where_it_ended_and_nothing_is_read_again(tables):
    async with listening(tables) as changes:
        before = await heard(changes, A)
        await tables.tell("ns", Change("", 17))
        await tables.tell("ns", None)
        await asyncio.sleep(5)
        assert tables.begun == [("ns", 10), ("ns", 17)]
        assert [changes.mark(SECRETS, A, "s")] == before
        assert changes.looked == []


@jumping
async def test_after_a_gap_nothing_counts_as_unchanged(tables):
    async with listening(tables) as changes:
        [before] = await heard(changes, A)
        tables.now = 50
        await tables.tell("ns", Rejected("too old", status=410))
        assert changes.mark(SECRETS, A, "s") is None
        await asyncio.sleep(5)
        assert tables.begun[-1] == ("ns", 50)
        assert changes.looked == [A]
        assert changes.mark(SECRETS, A, "s") not in (None, before)


@jumping
async def test_while_the_api_server_is_away_there_is_no_mark(tables):
    async with listening(tables) as changes:
        await heard(changes, A)
        tables.refusals = [Unavailable("away")] * 4
        await tables.tell("ns", None)
        await asyncio.sleep(name_changes.AGAIN_SECONDS + 0.1)
        assert changes.mark(SECRETS, A, "s") is None
        await asyncio.sleep(120)
        assert changes.mark(SECRETS, A, "s") is not None


@jumping
async def test_a_missing_right_is_logged_once_and_not_retried_in_a_loop(tables, caplog):
    caplog.set_level(logging.INFO)
    tables.refusals = [Rejected("secrets is forbidden", status=403)] * 100
    async with listening(tables) as changes:
        for _ in range(60):
            assert changes.mark(SECRETS, A, "s") is None
            await asyncio.sleep(10)
        assert tables.lists <= 20
    [said] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "secrets in namespace ns are read at intervals" in said.getMessage()
    assert "forbidden" in said.getMessage()


@jumping
async def test_the_watch_of_an_unused_namespace_ends_and_can_begin_again(tables):
    async with listening(tables) as changes:
        await heard(changes, A)
        await asyncio.sleep(name_changes.IDLE_SECONDS)
        await tables.tell("ns", None)
        await asyncio.sleep(5)
        assert len(tables.begun) == 1
        assert not changes._places
        assert changes.mark(SECRETS, A, "s") is None
        await asyncio.sleep(0.01)
        assert changes.mark(SECRETS, A, "s") is not None


@jumping
async def test_a_list_that_is_allowed_and_a_watch_that_is_not_were_requested_every_second(tables):
    tables.refused_watch = Rejected("may not watch secrets", status=403)
    async with listening(tables) as changes:
        for _ in range(60):
            changes.mark(SECRETS, A, "s")
            await asyncio.sleep(10)
        assert len(tables.begun) <= 20
        assert tables.lists <= 20
        assert len(changes.looked) <= 20


@jumping
@pytest.mark.parametrize("refused", [False, True])
async def test_secrets_of_clusters_that_are_gone_were_kept_while_another_used_the_namespace(
    tables, refused
):
    if refused:
        tables.refusals = [Rejected("secrets is forbidden", status=403)] * 10000
    async with listening(tables) as changes:
        [before] = await heard(changes, A)
        for number in range(100):
            changes.mark(SECRETS, ("ns", f"gone-{number}"), f"of-gone-{number}")
        for _ in range(3 * int(name_changes.FORGET_SECONDS / 100)):
            assert changes.mark(SECRETS, A, "s") == before
            await asyncio.sleep(100)

        [place] = changes._places.values()
        assert {*place.waiting, *place.marks} == {"s"}
