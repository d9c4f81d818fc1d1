"""Simulates kubelet, provisioner, `start` and etcd for every pod of a control plane without nodes.

Why not kwok: it moves pods through states, but nothing listens at the address of a pod. Our pods
wait in `start` for a ticket and then answer as the member that the ticket names, so the simulation
has to set their status as well.

`python tests/bench/fleet_pods.py KUBECONFIG` runs until it is stopped.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "operator"), str(ROOT / "stateful")]

import grpc  # noqa: E402
from etcd_standin import StandIn, serve  # noqa: E402

from etcd_operator.kube.api import CLAIMS, PODS, SECRETS, KubeError, Resource  # noqa: E402
from etcd_operator.kube.client import Client  # noqa: E402
from etcd_operator.timestamps import rfc3339  # noqa: E402
from etcd_stateful import naming  # noqa: E402
from etcd_stateful.start import ticket  # noqa: E402

Json = dict[str, Any]

FIRST_ADDRESS = ipaddress.IPv4Address("127.32.0.1")
"""Lower than the addresses of the integration tests."""

AT_ONCE = 16


class Kubelet:
    """Simulates all pods of the control plane, each with its own loopback address."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next = FIRST_ADDRESS
        self._etcd: dict[str, StandIn] = {}
        self._pods: dict[str, Pod] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_pods(group))
            group.create_task(self._follow_claims(group))

    async def _follow_pods(self, group: asyncio.TaskGroup) -> None:
        async for event in self._watch(PODS):
            body = event["object"]
            uid = body["metadata"]["uid"]
            if event["type"] == "DELETED" and uid in self._pods:
                group.create_task(self._pods.pop(uid).end())
            elif event["type"] == "ADDED" and uid not in self._pods:
                self._pods[uid] = pod = Pod(self, body, str(self._next))
                self._next += 1
                group.create_task(pod.begin())

    async def _follow_claims(self, group: asyncio.TaskGroup) -> None:
        async for event in self._watch(CLAIMS):
            if event["type"] == "ADDED":
                group.create_task(self.tell(CLAIMS, event["object"], {"phase": "Bound"}))

    async def _watch(self, resource: Resource) -> AsyncIterator[Json]:
        transport = self._client.transport
        url = f"{transport.server}{resource.path()}?watch=1&allowWatchBookmarks=false"
        async with transport.session() as session, session.get(url, timeout=None) as response:
            async for line in response.content:
                yield json.loads(line)

    async def tell(self, resource: Resource, body: Json, status: Json) -> None:
        metadata = body["metadata"]
        async with self._turns:
            with contextlib.suppress(KubeError):  # The object may be gone by now.
                await self._client.merge_patch(
                    resource,
                    metadata["namespace"],
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"]}, "status": status},
                    status=True,
                )

    async def key(self, namespace: str, cluster: str) -> bytes | None:
        """The key of the start tickets, once the operator has made it."""
        secret = await self._client.get(SECRETS, namespace, naming.start_secret(cluster))
        return base64.b64decode(secret["data"]["key"]) if secret else None

    def etcd(self, offered: ticket.Ticket, version: str) -> StandIn:
        """The stand-in for the cluster in the ticket, which its first members share."""
        if offered.token not in self._etcd:
            entries = (entry.split("=", 1) for entry in offered.initial_cluster.split(","))
            self._etcd[offered.token] = StandIn(dict(entries), offered.token, version)
        return self._etcd[offered.token]


class Pod:
    def __init__(self, kubelet: Kubelet, body: Json, address: str) -> None:
        self._kubelet = kubelet
        self._body = body
        self._address = address
        self._challenge = secrets.token_hex(32)
        self._start: asyncio.Server | None = None
        self._member: grpc.aio.Server | None = None

    async def begin(self) -> None:
        """Starts the pod with `start`, which waits for its ticket."""
        self._start = await asyncio.start_server(self._converse, self._address, naming.START_PORT)
        await self._tell({"running": {"startedAt": now()}})

    async def end(self) -> None:
        for server in (self._start, self._member):
            if isinstance(server, asyncio.Server):
                server.close()
            elif server is not None:
                await server.stop(None)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles one connection of the operator: its greeting, and its ticket if it sends one."""
        metadata = self._body["metadata"]
        cluster = metadata["labels"][naming.LABEL_INSTANCE]
        with contextlib.suppress(ticket.NotGenuine, OSError), contextlib.closing(writer):
            nonce = ticket.read_greeting(await reader.readline())
            if (key := await self._kubelet.key(metadata["namespace"], cluster)) is None:
                return
            finding = ticket.Finding("no-data")
            answer = ticket.Answer(nonce, self._challenge, metadata["uid"], finding)
            writer.write(ticket.seal(key, "answer", answer))
            if line := await reader.readline():
                offered = ticket.open_ticket(key, line)
                writer.write(ticket.seal(key, "receipt", ticket.Receipt(offered.challenge)))
                await writer.drain()
                await self._take(offered)

    async def _take(self, offered: ticket.Ticket) -> None:
        if self._member is not None:
            return
        version = self._image(naming.ETCD_CONTAINER).rpartition(":v")[2]
        etcd = self._kubelet.etcd(offered, version)
        self._member = await serve(etcd, offered.member_id, self._address, naming.CLIENT_PORT)
        message = f"a ticket was taken: member {offered.member_id:016x}"
        ended = {"exitCode": 0, "finishedAt": now(), "startedAt": now(), "message": message}
        await self._tell({"terminated": ended}, {"running": {"startedAt": now()}})

    async def _tell(self, start: Json, etcd: Json | None = None) -> None:
        waiting = {"waiting": {"reason": "PodInitializing"}}
        serves = etcd is not None
        status = {
            "phase": "Running" if serves else "Pending",
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [
                {"type": kind, "status": str(serves), "lastTransitionTime": now()}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "initContainerStatuses": [self._container(naming.START_CONTAINER, start, serves)],
            "containerStatuses": [self._container(naming.ETCD_CONTAINER, etcd or waiting, serves)],
        }
        await self._kubelet.tell(PODS, self._body, status)

    def _container(self, name: str, state: Json, ready: bool) -> Json:
        image = self._image(name)
        own = {"name": name, "image": image, "imageID": "", "restartCount": 0}
        return own | {"ready": ready, "started": "running" in state, "state": state}

    def _image(self, name: str) -> str:
        spec = self._body["spec"]
        every = (*spec["initContainers"], *spec["containers"])
        return next(str(one["image"]) for one in every if one["name"] == name)


def now() -> str:
    return rfc3339(time.time())


async def main(kubeconfig: str) -> None:
    client = await Client.connect(kubeconfig=kubeconfig)
    try:
        await Kubelet(client).run()
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
