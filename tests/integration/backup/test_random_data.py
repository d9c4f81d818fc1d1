"""Random data sets, stored and restored: key for key, at the same revisions, leases too."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from etcd_live import BINARIES, Cluster, compact
from test_backup_live import endpoint, told
from test_restore_live import STORE, Target

from etcd_operator.backup.__main__ import back_up
from etcd_stateful.backup.outcome import Stored

pytestmark = pytest.mark.integration

STEPS = 40


async def ctl(cluster: Cluster, *words: str) -> Any:
    tool = str(BINARIES / cluster.binary.name.replace("etcd", "etcdctl", 1))
    run = await asyncio.create_subprocess_exec(
        tool,
        f"--endpoints={endpoint(cluster.first[0])}",
        *words,
        "-w",
        "json",
        stdout=-1,
        stderr=-1,
    )
    out, errors = await run.communicate()
    assert run.returncode == 0, errors.decode()
    return json.loads(out)


async def write(cluster: Cluster, chance: random.Random) -> None:
    """Puts of any size, some under a lease, deletions and compactions, in any order."""
    compacted = 1
    lease = f"{(await ctl(cluster, 'lease', 'grant', '3600'))['ID']:x}"
    for _ in range(STEPS):
        key = f"key-{chance.randrange(12)}"
        match chance.randrange(6):
            case 0:
                await ctl(cluster, "del", key, "--prefix")
            case 1:
                await ctl(cluster, "put", key, "leased", f"--lease={lease}")
            case 2:
                found = await ctl(cluster, "get", "", "--prefix", "--limit=1")
                now = found["header"]["revision"]
                if now - 2 > compacted:
                    compacted = now - chance.randrange(1, 3)
                    await compact(cluster.first[0], compacted)
            case _:
                size = chance.choice((0, 1, 100, 5000, 60000))
                await ctl(cluster, "put", key, "v" * size)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.timeout(180)
async def test_what_was_there_is_there_again(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    cluster.begin(1)
    await cluster.ready()
    old = cluster.first[0]
    await write(cluster, random.Random(seed))
    before = await ctl(cluster, "get", "", "--prefix")
    leases = (await ctl(cluster, "lease", "list"))["leases"]
    stores = tmp_path / "stores"
    stores.mkdir()
    done = await back_up(told(cluster, STORE), root=str(stores))
    assert isinstance(done, Stored)
    assert done.revision == before["header"]["revision"]

    new = Target(cluster, tmp_path / "new", stores)
    assert await new.job() == 0, new.said.read_text()
    old.kill()
    await new.start()

    after = await ctl(cluster, "get", "", "--prefix")
    assert after.get("kvs") == before.get("kvs")
    assert after["header"]["revision"] > before["header"]["revision"]
    assert (await ctl(cluster, "lease", "list"))["leases"] == leases
