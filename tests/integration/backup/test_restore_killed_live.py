"""The containers of the restore Job are killed at any point, without any clean-up.

Kills between the effects of `fetch` and `finish` are in `test_restore_live.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from backup_orders import at_s3, order_for
from etcd_live import Cluster, fill
from faulty import Faulty, proxied
from test_restore_live import Target, etcdctl_json

from etcd_operator.backup.__main__ import back_up
from etcd_operator.restore.__main__ import run
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.jobs import restore
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

SETTINGS = {"clusterUID": "uid-new", "epoch": 1, "domain": "new.ns.svc", "clientScheme": "http",
            "peerScheme": "http", "dnsTimeoutSeconds": 0, "etcd": {}}  # fmt: skip

FETCH = """
import os, sys
from pathlib import Path
from etcd_operator.job_exit import exit_at_once
from etcd_operator.restore.__main__ import run
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.restore import parse_order
order, journal = parse_order(os.environ), Journal("/dev/stderr", "restore")
exit_at_once(run("fetch", order, Path(sys.argv[1]), journal, secret=sys.argv[2]))
"""


class FromS3(Target):
    """Each container runs to its end, unless it is killed."""

    secret = ""

    async def container(self, what: str) -> int:
        journal = Journal(str(self.said), "restore")
        work = functools.partial(run, what, self.order, self.root, journal, secret=self.secret)
        return await asyncio.to_thread(work)

    async def killed_in_fetch(self, reached: Callable[[], Awaitable[object]]) -> None:
        order = self.order
        told = restore.serialise(order.member_id, order.cluster_id, order.store, order.version)
        pod = {"POD_NAME": "new-0", "POD_UID": "pod", "POD_IP": "127.0.0.1"}
        environment = {**os.environ, **pod, "START_SETTINGS": json.dumps(SETTINGS), "RESTORE": told}
        words = (sys.executable, "-c", FETCH, str(self.root), self.secret)
        process = await asyncio.create_subprocess_exec(*words, env=environment, stderr=-1)
        try:
            async with asyncio.timeout(90):
                await reached()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            _, said = await process.communicate()
        assert process.returncode == -9, said.decode()

    def etcdutl_that_dies(self, at: int) -> None:
        """As it is about to write that byte of a file."""
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (at, at))
        with pytest.raises(subprocess.CalledProcessError):
            self.etcdutl(before=limit)

    @property
    def database(self) -> str:
        """SHA-256 of what `start` would run, where all of it is there."""
        assert not restore.why_not_restored(self.order, volume.look(str(self.root)))
        return hashlib.sha256((self.root / "data/member/snap/db").read_bytes()).hexdigest()


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[Faulty]:
    async with proxied(s3.endpoint) as found:
        yield found


@pytest.fixture
async def target(
    one_member: Cluster,
    s3: S3Server,
    bucket: tuple[str, Path],
    secret: str,
    proxy: Faulty,
    tmp_path: Path,
) -> FromS3:
    """Filled by a pod that died before it was observed."""
    await fill(one_member.first[0], 8, 1_000_000)
    store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
    assert isinstance(await back_up(order_for(one_member, store), secret=secret), Stored)
    found = FromS3(one_member, tmp_path / "new", tmp_path)
    found.order, found.secret = replace(found.order, store=store), secret
    assert await found.job() == 0, found.said.read_text()
    return found


async def serves(target: FromS3, keys: int) -> None:
    target.cluster.first[0].kill()
    await target.start()
    assert len(etcdctl_json(target.cluster, "get", "", "--prefix", "--keys-only")["kvs"]) == keys


async def test_a_restore_killed_during_the_download_is_done_by_the_next_pod(
    target: FromS3, proxy: Faulty
) -> None:
    before = target.database
    for at, verdict in ((0, "held"), (1, "held"), (2, "held"), (2, "half")):
        proxy.begin_anew()
        proxy.judge = lambda number, _, at=at, verdict=verdict: verdict if number == at else None
        await target.killed_in_fetch(proxy.waits.wait)
        assert len(proxy.seen) == at + 1

        assert target.marked, "what is in place is all of it"
        assert target.database == before
        assert await target.container("finish") == 1
        assert target.database == before

    proxy.judge = lambda *_: None
    assert await target.job() == 0, target.said.read_text()
    assert target.marked
    await serves(target, 50)


async def test_a_restore_whose_etcdutl_dies_is_done_by_the_next_pod(
    target: FromS3,
) -> None:
    """While it copies the snapshot, while it writes into the copy, and as it makes a log."""
    before = target.database
    assert await target.container("fetch") == 0
    size = (target.root / restore.SNAPSHOT).stat().st_size
    for at in (size // 2, size - 100, 2 * size):
        target.etcdutl_that_dies(at)

        assert await target.container("finish") == 1
        assert target.marked
        assert target.database == before
        assert await target.container("fetch") == 0

    assert await target.job() == 0, target.said.read_text()
    assert target.marked
    await serves(target, 50)
