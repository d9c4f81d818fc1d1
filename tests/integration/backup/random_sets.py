"""Random data in a real etcd, and a picture of all of its content to compare with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aetcd import rpc
from backup_orders import encrypt
from etcd_live import Cluster, Member
from grpc import ssl_channel_credentials

SECONDS = 20.0
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
SIZES = (0, 1, 100, 5_000, 60_000, 400_000)
KEYS = 40
ALL = b"\0"


@dataclass
class Written:
    """What was written into one set."""

    seed: int
    users: bool
    """With users, and so with TLS, as the Job authenticates as root by its certificate."""
    steps: int = 0
    leases: int = 0
    deletions: int = 0
    compactions: int = 0
    bytes: int = 0


@dataclass
class Picture:
    revision: int
    keys: list[tuple[Any, ...]]
    leases: dict[int, tuple[Any, ...]]
    users: dict[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def connected(member: Member, certificates: Path | None) -> AsyncIterator[Any]:
    target = f"{member.url_host}:{member.client_port}"
    if certificates is None:
        channel = rpc.insecure_channel(target, options=OPTIONS)
    else:
        names = ("etcd-client-ca.crt", "etcd-client.key", "etcd-client.crt")
        shown = ssl_channel_credentials(*((certificates / name).read_bytes() for name in names))
        channel = rpc.secure_channel(target, shown, options=OPTIONS)
    async with channel:
        await _serving(channel)
        yield channel


async def _serving(channel: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await rpc.KVStub(channel).Range(rpc.RangeRequest(key=b"x"), timeout=1)
            except rpc.AioRpcError:
                await asyncio.sleep(0.05)
            else:
                return


async def write(channel: Any, seed: int, *, users: bool) -> Written:
    """Writes puts of any size, with leases and in transactions, deletions and compactions."""
    chance = random.Random(seed)
    told = Written(seed, users)
    writer = _Writer(channel, chance, told)
    told.steps = chance.choice((5, 40, 150, 400))
    half = told.steps // 2
    await writer.steps(half)
    if users:
        await writer.users()
    await writer.steps(told.steps - half)
    return told


class _Writer:
    def __init__(self, channel: Any, chance: random.Random, told: Written) -> None:
        self.kv, self.lease = rpc.KVStub(channel), rpc.LeaseStub(channel)
        self.auth = rpc.AuthStub(channel)
        self.chance, self.told = chance, told
        self.largest = chance.randrange(2, len(SIZES) + 1)
        self.leases: list[int] = []
        self.revision = self.compacted = 1

    async def steps(self, number: int) -> None:
        kinds = {self._put: 10, self._txn: 2, self._delete: 3, self._compact: 1, self._lease: 1,
                 self._revoke: 1}  # fmt: skip
        for chosen in self.chance.choices(list(kinds), list(kinds.values()), k=number):
            await chosen()

    def _key(self) -> bytes:
        number = self.chance.randrange(KEYS)
        return b"\xff\x00%d" % number if number % 7 == 0 else b"key-%d" % number

    def _request(self) -> Any:
        size = self.chance.choice(SIZES[: self.largest])
        self.told.bytes += size
        lease = self.chance.choice([0, 0, *self.leases])
        return rpc.PutRequest(key=self._key(), value=self.chance.randbytes(size), lease=lease)

    async def _put(self) -> None:
        reply = await self.kv.Put(self._request(), timeout=SECONDS)
        self.revision = reply.header.revision

    async def _txn(self) -> None:
        """Writes several keys at one revision."""
        requests = {one.key: one for one in (self._request() for _ in range(3))}
        total = sum(len(one.value) for one in requests.values())
        if total < 1_000_000:
            puts = [rpc.RequestOp(request_put=one) for one in requests.values()]
            reply = await self.kv.Txn(rpc.TxnRequest(success=puts), timeout=SECONDS)
            self.revision = reply.header.revision

    async def _delete(self) -> None:
        key = self._key()
        end = self.chance.choice((b"", key + b"\xff"))
        request = rpc.DeleteRangeRequest(key=key, range_end=end)
        reply = await self.kv.DeleteRange(request, timeout=SECONDS)
        self.revision = reply.header.revision
        self.told.deletions += reply.deleted

    async def _compact(self) -> None:
        if self.revision - 1 <= self.compacted:
            return
        self.compacted = self.chance.randrange(self.compacted + 1, self.revision + 1)
        physical = self.chance.random() < 0.5
        request = rpc.CompactionRequest(revision=self.compacted, physical=physical)
        await self.kv.Compact(request, timeout=SECONDS)
        self.told.compactions += 1

    async def _lease(self) -> None:
        request = rpc.LeaseGrantRequest(TTL=self.chance.randrange(1000, 9000))
        self.leases.append((await self.lease.LeaseGrant(request, timeout=SECONDS)).ID)
        self.told.leases += 1

    async def _revoke(self) -> None:
        """Revokes a lease, which deletes its keys."""
        if self.leases:
            number = self.leases.pop(self.chance.randrange(len(self.leases)))
            await self.lease.LeaseRevoke(rpc.LeaseRevokeRequest(ID=number), timeout=SECONDS)
            found = await self.kv.Range(rpc.RangeRequest(key=b"x"), timeout=SECONDS)
            self.revision = found.header.revision

    async def users(self) -> None:
        for name in ("root", "reader", "app"):
            await self.auth.UserAdd(rpc.AuthUserAddRequest(name=name, password="secret"))
        for name in ("root", "some"):
            await self.auth.RoleAdd(rpc.AuthRoleAddRequest(name=name))
        allowed = rpc.Permission(permType=rpc.Permission.READ, key=b"key-", range_end=b"key.")
        given = rpc.AuthRoleGrantPermissionRequest(name="some", perm=allowed)
        await self.auth.RoleGrantPermission(given)
        for user, role in (("root", "root"), ("reader", "some")):
            await self.auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=user, role=role))
        await self.auth.AuthEnable(rpc.AuthEnableRequest())


async def picture(channel: Any, *, users: bool) -> Picture:
    request = rpc.RangeRequest(key=ALL, range_end=ALL)
    found = await rpc.KVStub(channel).Range(request, timeout=SECONDS)
    keys = [
        (one.key, one.value, one.create_revision, one.mod_revision, one.version, one.lease)
        for one in found.kvs
    ]
    told = Picture(found.header.revision, keys, await _leases(channel))
    if users:
        told.users = await _users(channel)
    return told


async def _leases(channel: Any) -> dict[int, tuple[Any, ...]]:
    stub = rpc.LeaseStub(channel)
    listed = await stub.LeaseLeases(rpc.LeaseLeasesRequest(), timeout=SECONDS)
    told = {}
    for one in listed.leases:
        request = rpc.LeaseTimeToLiveRequest(ID=one.ID, keys=True)
        found = await stub.LeaseTimeToLive(request, timeout=SECONDS)
        told[one.ID] = (found.grantedTTL, sorted(found.keys))
    return told


async def _users(channel: Any) -> dict[str, Any]:
    stub = rpc.AuthStub(channel)
    users = (await stub.UserList(rpc.AuthUserListRequest())).users
    roles = (await stub.RoleList(rpc.AuthRoleListRequest())).roles
    told: dict[str, Any] = {"enabled": (await stub.AuthStatus(rpc.AuthStatusRequest())).enabled}
    for name in users:
        told[f"user {name}"] = list((await stub.UserGet(rpc.AuthUserGetRequest(name=name))).roles)
    for name in roles:
        found = await stub.RoleGet(rpc.AuthRoleGetRequest(role=name))
        told[f"role {name}"] = [(one.permType, one.key, one.range_end) for one in found.perm]
    return told


def difference(before: Picture, after: Picture, bump: int) -> str:
    """What a restore has not brought back, or revisions that have not grown; empty if none."""
    held = before.revision if before.revision > 1 else 0  # 1 is the revision of an empty etcd.
    if after.revision < held + bump:
        return f"revision {after.revision} after {before.revision}"
    for what in ("keys", "leases", "users"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            return f"{what}: {len(old)} were there, {len(new)} are, and they differ"
    return ""


def begin(cluster: Cluster, certificates: Path | None) -> Member:
    member = cluster.new_member()
    cluster.first = [member]
    if certificates is not None:
        encrypt(member, certificates)
    member.start(cluster.initial_cluster(cluster.first), cluster.token, "new")
    return member
