"""Backs up and restores random data sets: `campaign.py [--sets N] [--report FILE]`.

Each set is a new etcd, of 3.5, 3.6 and 3.7 in turn, a third of them with users. It is filled with
random data, backed up by the entry point of the Job, every second one to an S3 server and the
others to a volume, restored by the containers of the restore Job with that minor's etcdutl, started
and compared: every key with its value, revisions, version and lease, every lease with its time and
keys, and users, roles and permissions. Then the backup is damaged in each way of `damages.py`, and
must be refused.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "etcd"), str(TESTS / "e2e")]

import memory  # noqa: E402
import random_sets  # noqa: E402
from addresses import address  # noqa: E402
from backup_orders import at_s3, certificates, encrypt, order_for  # noqa: E402
from damages import damages  # noqa: E402
from etcd_live import Cluster, binary  # noqa: E402
from harness.verdicts import commit  # noqa: E402
from minors import MINORS  # noqa: E402
from random_sets import begin, connected, difference, picture, write  # noqa: E402
from test_restore_live import STORE, TOKEN, Target  # noqa: E402

from etcd_operator.backup import __main__ as entry  # noqa: E402
from etcd_operator.backup import source as sources  # noqa: E402
from etcd_operator.start.journal import Journal  # noqa: E402
from etcd_stateful.api.stores import Store  # noqa: E402
from etcd_stateful.backup import names  # noqa: E402
from etcd_stateful.backup import order as orders  # noqa: E402
from etcd_stateful.backup.outcome import Stored  # noqa: E402
from etcd_stateful.jobs.restore import BUMP, REFUSED_EXIT  # noqa: E402
from localkube.s3 import S3Server  # noqa: E402

REPORT = HERE / "report.json"
ADDRESSES = 1000
"""Addresses in the certificate, more than one process of this script needs."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where the backup of one set is stored, and the folder that shows what is there."""

    store: Store
    folder: Path
    secret: str = orders.STORE_FOLDER


class Campaign:
    def __init__(self, root: Path, s3: S3Server) -> None:
        self.root = root
        self.s3 = s3
        self.secret = root / "secret"
        self.secret.mkdir()
        for key, content in s3.secret.items():
            (self.secret / key).write_text(content)
        self.other = b""
        """The snapshot of the previous set."""
        self.certificates = root / "certificates"
        names = ",IP:".join(address(number) for number in range(ADDRESSES))
        certificates(self.certificates, names)
        self.open_channels = functools.partial(sources.open_channels, folder=str(self.certificates))

    async def one(self, seed: int) -> Json:
        folder = self.root / str(seed)
        folder.mkdir()
        cluster = Cluster(binary(MINORS[seed % len(MINORS)]), folder, f"token-{seed}")
        place = self._place(seed, folder)
        try:
            return await self._one(seed, cluster, folder, place)
        finally:
            for member in cluster.members:
                member.kill()
            shutil.rmtree(folder)
            shutil.rmtree(place.folder, ignore_errors=True)

    async def _one(self, seed: int, cluster: Cluster, folder: Path, place: Place) -> Json:
        began = time.monotonic()
        users = seed // len(MINORS) % 3 == 2
        shown = self.certificates if users else None
        old = begin(cluster, shown)
        async with connected(old, shown) as channel:
            written = await write(channel, seed, users=users)
            before = await picture(channel, users=users)
        order = order_for(cluster, place.store)
        if users:
            url = f"https://{old.host}:{old.client_port}"
            order = replace(order, endpoints=(url,), client_secret="root")
        done = await entry.back_up(order, root=str(place.folder), secret=place.secret)
        if not isinstance(done, Stored):
            return {"seed": seed, "wrong": f"{done.reason}: {done.message}"}  # type: ignore[union-attr]
        database = (old.folder / "member" / "snap" / "db").read_bytes()
        old.kill()
        new = target(cluster, folder / "new", place)
        after = await self._restored(new, shown)
        wrong = difference(before, after, BUMP) if after else new.said.read_text()
        if not wrong and done.revision != before.revision:
            wrong = f"the backup is of revision {done.revision}, and {before.revision} was seen"
        found = asdict(written) | {
            "etcd": new.order.version,
            "store": place.store.kind,
            "keys": len(before.keys),
            "revision": before.revision,
            "live leases": len(before.leases),
            "size": done.size,
            "wrong": wrong,
        }
        tried = await self._damaged(cluster, folder, place, database, seed)
        return found | tried | {"seconds": round(time.monotonic() - began, 2)}

    def _place(self, seed: int, folder: Path) -> Place:
        if seed % 2:
            name = f"set-{seed}"
            return Place(at_s3(self.s3, name, STORE.key), self.s3.bucket(name), str(self.secret))
        stores = folder / "stores"
        stores.mkdir()
        return Place(STORE, stores)

    async def _restored(self, new: Target, shown: Path | None) -> random_sets.Picture | None:
        if await new.job() != 0:
            return None
        member = new.member
        member.name, member.folder = "new-0", new.root / "data"
        if shown is not None:
            encrypt(member, shown)
        member.start("", TOKEN, "existing")
        async with connected(member, shown) as channel:
            found = await picture(channel, users=shown is not None)
        member.kill()
        return found

    async def _damaged(
        self, cluster: Cluster, folder: Path, place: Place, database: bytes, seed: int
    ) -> Json:
        """The kinds of damage that were tried, and those that were not refused."""
        key = place.store.key
        file, beside = place.folder / key, place.folder / names.manifest_of(key)
        whole, said = file.read_bytes(), beside.read_bytes()
        made = damages(whole, said, self.other, database, random.Random(seed))
        self.other = whole
        tried, passed = list[str](), list[str]()
        new = target(cluster, folder / "damaged", place)
        for one in made:
            if one.kind == "another snapshot" and not one.file:
                continue
            file.write_bytes(one.file)
            beside.unlink(missing_ok=True)
            if one.manifest is not None:
                beside.write_bytes(one.manifest)
            code = await new.container("fetch")
            tried.append(one.kind)
            if code != REFUSED_EXIT or new.marked or (new.root / "data").exists():
                passed.append(one.kind)
        return {"damages": tried, "not refused": passed}


def target(cluster: Cluster, folder: Path, place: Place) -> Target:
    return Target(cluster, folder, place.folder, store=place.store, secret=place.secret)


def report(rows: list[Json], seconds: float) -> Json:
    tried = Counter(kind for row in rows for kind in row.get("damages", ()))
    passed = Counter(kind for row in rows for kind in row.get("not refused", ()))
    good = sum(not row["wrong"] for row in rows)
    return {
        "command": "tests/integration/backup/campaign.py",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "sets": len(rows),
        "restored key for key at the same revision": good,
        "with users": sum(bool(row.get("users")) for row in rows),
        "of etcd": Counter(row["etcd"] for row in rows if "etcd" in row),
        "in": Counter(row["store"] for row in rows if "store" in row),
        "damaged files": sum(tried.values()),
        "damaged files refused": sum(tried.values()) - sum(passed.values()),
        "seconds": round(seconds, 1),
        "refused of": {kind: f"{tried[kind] - passed[kind]} of {tried[kind]}" for kind in tried},
    }


def written(told: Json, rows: list[Json]) -> str:
    """The report as text, with a line for each set."""
    kept = ({k: v for k, v in row.items() if k != "damages" and v != []} for row in rows)
    lines = ",\n  ".join(json.dumps(row) for row in kept)
    return json.dumps(told, indent=1).removesuffix("\n}") + f',\n "each": [\n  {lines}\n ]\n}}\n'


def known(path: Path) -> tuple[list[Json], float]:
    """The results of an earlier run, with its kinds of damage."""
    if not path.exists():
        return [], 0.0
    told = json.loads(path.read_text())
    return told["rows"], told["seconds"]


async def run(seeds: list[int], root: Path, s3: S3Server, rows: list[Json]) -> None:
    campaign = Campaign(root, s3)
    sources.open_channels = campaign.open_channels
    entry.orders.PROGRESS_PORT = 0
    Journal.say = lambda *_: None  # type: ignore[method-assign]
    for number, seed in enumerate(seeds, 1):
        rows.append(await campaign.one(seed))
        row = rows[-1]
        if row["wrong"] or row.get("not refused"):
            print(f"set {seed}: {row['wrong']} {row.get('not refused', '')}", flush=True)
        if number % 10 == 0:
            print(f"{number} of {len(seeds)} sets", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--most", type=int, default=80, help="in one process")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--partial", type=Path, help="what is done so far, to be gone on with")
    given = parser.parse_args()
    rows, before = known(given.partial) if given.partial else ([], 0.0)
    done = {row["seed"] for row in rows}
    seeds = [seed for seed in range(given.sets) if seed not in done]
    seeds = seeds[: given.most if given.partial else given.sets]
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as otherwise, memory.folder(Path(otherwise)) as root:
            s3 = S3Server(root / "s3").start()
            try:
                asyncio.run(run(seeds, root, s3, rows))
            finally:
                s3.stop()
    finally:
        seconds = before + time.monotonic() - began
        if given.partial:
            given.partial.write_text(json.dumps({"rows": rows, "seconds": seconds}))
    if len(rows) < given.sets:
        print(f"{len(rows)} of {given.sets} sets are done")
        return 0
    told = report(rows, seconds)
    given.report.write_text(written(told, rows))
    print(json.dumps(told, indent=1))
    return 1 if any(row["wrong"] or row.get("not refused") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
