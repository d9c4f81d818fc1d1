"""Leader election by a Lease: only its holder makes passes. Safety never depends on it; it avoids
duplicate work.

As in client-go, a Lease has expired when it was seen unchanged for so long, by a clock that nobody
sets. The times in it are for people. The election of `kubernetes.aio` (37.0.2) goes by the time of
day: a clock that is set while a copy waits makes it take a Lease that is held, or wait for hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from etcd_operator.kube.api import LEASES, Conflict, Json, KubeError, Kubernetes
from etcd_operator.tasks import loop_time
from etcd_operator.timestamps import micro

log = logging.getLogger(__name__)

DURATION = 9
RETRY_PERIOD = 2.0
CALL_SECONDS = 2.0
EXPIRY_SECONDS = DURATION - 1.0
"""How long after its last renewal a holder stops, so that it has when another may take the
Lease."""


class Lock:
    """The Lease, as it was last seen."""

    def __init__(self, kube: Kubernetes, *, name: str, namespace: str, identity: str) -> None:
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self._kube = kube
        self._version: str | None = None
        self._spec: Json = {}
        self._since = 0.0
        """When it was first seen as it is. This time and the next are the event loop's."""

        self._problem = ""
        self.renewed = 0.0
        """When the last successful write was sent."""

    @property
    def held(self) -> bool:
        return bool(self._spec.get("holderIdentity") == self.identity)

    async def take(self) -> bool:
        """Creates, takes or renews the Lease; False if that is not possible now."""
        try:
            exists = await self._read()
        except (KubeError, TimeoutError) as error:
            self._tell(f"cannot be read: {str(error) or 'no answer in time'}")
            return False
        if not exists:
            metadata = {"name": self.name, "namespace": self.namespace}
            manifest = {"metadata": metadata, "spec": self._renewed()}
            return await self._write(self._kube.create(LEASES, manifest))
        holder = self._spec.get("holderIdentity")
        if holder and not self.held:
            self._tell(f"is held by {holder}", logging.INFO)
            if loop_time() < self._since + DURATION:
                return False
        return await self._patch(self._renewed())

    async def release(self) -> bool:
        """Releases the Lease, so that another replica takes it at its next try instead of after
        `DURATION`."""
        if not self.held:
            return False
        # A renewal that was cut short may have been carried out, and the version be another now.
        with contextlib.suppress(KubeError, TimeoutError):
            await self._read()
        # As in client-go: an empty holder, and a duration of one second.
        now = micro(time.time())
        empty = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
        }
        return self.held and await self._patch(empty)

    async def _read(self) -> bool:
        """Whether there is a Lease, which is then remembered. Raises KubeError and TimeoutError."""
        async with asyncio.timeout(CALL_SECONDS):
            lease = await self._kube.get(LEASES, self.namespace, self.name)
        if lease is not None:
            self._remember(lease)
        return lease is not None

    def _renewed(self) -> Json:
        now = micro(time.time())
        transitions = self._spec.get("leaseTransitions") or 0
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": self._spec.get("acquireTime", now) if self.held else now,
            "renewTime": now,
            "leaseTransitions": transitions if self.held or not self._spec else transitions + 1,
        }

    async def _patch(self, spec: Json) -> bool:
        # The resourceVersion ensures that only one of two candidates wins.
        patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        call = self._kube.merge_patch(LEASES, self.namespace, self.name, patch)
        return await self._write(call)

    async def _write(self, call: Coroutine[Any, Any, Json]) -> bool:
        sent = loop_time()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                self._remember(await call)
        except Conflict as error:
            self._tell(f"was taken by another copy: {error}", logging.INFO)
            return False
        except (KubeError, TimeoutError) as error:
            self._tell(f"cannot be written: {str(error) or 'no answer in time'}")
            return False
        self._tell("")
        self.renewed = sent
        return True

    def _remember(self, lease: Json) -> None:
        self._version = lease["metadata"]["resourceVersion"]
        spec = lease.get("spec") or {}
        if spec != self._spec:
            self._spec, self._since = spec, loop_time()

    def _tell(self, problem: str, level: int = logging.WARNING) -> None:
        if problem and problem != self._problem:
            log.log(level, "the Lease %s/%s %s", self.namespace, self.name, problem)
        self._problem = problem


async def hold(lock: Lock, acquired: Callable[[], None]) -> None:
    """Waits for the Lease, calls `acquired`, and renews the Lease; returns when it is lost."""
    while not await lock.take():  # noqa: ASYNC110 - another process decides
        await asyncio.sleep(RETRY_PERIOD)
    log.info("this is the leader: %s", lock.identity)
    acquired()
    with contextlib.suppress(TimeoutError):
        while lock.held:
            async with asyncio.timeout_at(lock.renewed + EXPIRY_SECONDS):
                await asyncio.sleep(RETRY_PERIOD)
                await lock.take()
    log.error("the Lease %s/%s is lost: another copy may lead now", lock.namespace, lock.name)
