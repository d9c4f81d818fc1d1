"""An etcd older than the supported ones moves in by a backup and a new cluster."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backup_orders import endpoint, etcdctl, order_for
from etcd_live import Cluster, started
from minors import BEFORE, NEWEST, OLDEST
from test_members_die_live import stopped
from test_restore_live import RAISED, STORE, TOKEN, Target, etcdctl_json, fill_with_history

from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.backup.outcome import Failure, Stored
from etcd_stateful.jobs.restore import REFUSED_EXIT

pytestmark = pytest.mark.integration

SECRET = ("--user=root:secret",)


@pytest.fixture
def old(data: Path) -> Iterator[Cluster]:
    with started(BEFORE, folder(data, "old"), "token-old") as found:
        yield found


@pytest.fixture
def new(data: Path) -> Iterator[Cluster]:
    with started(OLDEST, folder(data, "new"), TOKEN) as found:
        yield found


@pytest.fixture
def newest(data: Path) -> Iterator[Cluster]:
    with started(NEWEST, folder(data, "newest"), TOKEN) as found:
        yield found


def folder(data: Path, name: str) -> Path:
    """Two clusters have members of the same names."""
    (data / name).mkdir()
    return data / name


async def stored(old: Cluster, stores: Path) -> Path:
    """Keys, a lease and a root that is not asked for yet, in the folder."""
    await fill_with_history(old)
    lease = etcdctl_json(old, "lease", "grant", "3600")["ID"]
    etcdctl_json(old, "put", "leased", "value", f"--lease={lease:x}")
    for words in ("user add root:secret", "user grant-role root root"):
        etcdctl_json(old, *words.split())
    stores.mkdir()
    done = await back_up(order_for(old, STORE), root=str(stores))
    assert isinstance(done, Stored)
    assert done.version.startswith(f"{BEFORE}.")
    return stores


async def test_keys_leases_and_users_of_3_4_are_restored_with_3_5(
    old: Cluster, new: Cluster, tmp_path: Path
) -> None:
    stores = await stored(old, tmp_path / "stores")
    before = etcdctl_json(old, "get", "", "--prefix")
    target = Target(new, tmp_path / "target", stores)

    assert await target.job() == 0, target.said.read_text()
    await target.start()

    after = etcdctl_json(new, "get", "", "--prefix")
    assert after["kvs"] == before["kvs"]
    assert after["header"]["revision"] >= before["header"]["revision"] + RAISED
    lease = next(one["lease"] for one in before["kvs"] if "lease" in one)
    assert etcdctl_json(new, "lease", "timetolive", f"{lease:x}", "--keys")["keys"]
    await asyncio.to_thread(
        subprocess.run, etcdctl(new, "auth", "enable"), check=True, capture_output=True
    )
    assert etcdctl_json(new, *SECRET, "get", "", "--prefix")["kvs"] == before["kvs"]
    with pytest.raises(subprocess.CalledProcessError):
        etcdctl_json(new, "get", "", "--prefix")


async def test_data_of_3_4_is_refused_for_a_minor_that_cannot_read_it(
    old: Cluster, newest: Cluster, tmp_path: Path
) -> None:
    stores = await stored(old, tmp_path / "stores")
    target = Target(newest, tmp_path / "target", stores)

    assert await target.container("fetch") == REFUSED_EXIT

    assert "etcd 3.4 or 3.5" in target.said.read_text()
    assert not target.marked


async def test_what_a_quorum_had_was_not_in_the_backup_of_a_member_that_was_cut_off(
    old: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job made sure that a member has all writes by a linearizable list of members, which 3.4
    answers like any other."""
    monkeypatch.setattr(sources, "CATCH_UP_SECONDS", 4.0)
    old.begin(3)
    leader = await old.leader(await old.ready())
    follower = next(one for one in old.first if one is not leader)
    with contextlib.ExitStack() as others:
        for member in old.first:
            if member is not follower:
                others.enter_context(stopped(member))
        order = replace(order_for(old, STORE), endpoints=(endpoint(follower),))
        done = await back_up(order, root=str(tmp_path))

    assert isinstance(done, Failure), done
    assert done.reason in ("EtcdUnreachable", "EtcdRefused")
