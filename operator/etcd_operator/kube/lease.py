"""Leader election by a Lease: only its holder makes passes. Safety never depends on it; it avoids
duplicate work.

The algorithm is that of `kubernetes.aio.leaderelection`. But the lock is not its `LeaseLock`, which
ends the election on a refused connection or a timeout, waits five minutes for an answer, logs every
lost race with a traceback, and writes the local time as UTC (37.0.2). This lock uses the operator's
own client.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.baselock import BaseLock

from etcd_operator.kube.api import LEASES, Conflict, Json, KubeError, Kubernetes
from etcd_operator.tasks import cancel

log = logging.getLogger(__name__)
# The election would log each failed attempt. The lock below logs a problem once instead.
logging.getLogger("kubernetes.aio.leaderelection").setLevel(logging.CRITICAL)

DURATION = 9
RENEW_DEADLINE = 6.0
RETRY_PERIOD = 2.0
CALL_SECONDS = 2.0
EXPIRY_SECONDS = DURATION - 1.0
"""How long after its last renewal a holder must stop at the latest, even if the election still
waits. RENEW_DEADLINE includes neither the pause before it nor the attempt in progress."""


class Lock(BaseLock):
    """The Lease as the election expects it: methods return False instead of raising errors."""

    def __init__(self, kube: Kubernetes, *, name: str, namespace: str, identity: str) -> None:
        super().__init__(name, namespace, identity)
        self._kube = kube
        self._version: str | None = None
        self._spec: Json = {}
        self._problem = ""
        self.renewed: float | None = None
        """When the last successful write was sent, in the event loop's time."""

    @property
    def held(self) -> bool:
        return bool(self._spec.get("holderIdentity") == self.identity)

    async def get(self, name: str, namespace: str) -> Any:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                lease = await self._kube.get(LEASES, namespace, name)
        except (KubeError, TimeoutError) as error:
            self._tell(f"cannot be read: {str(error) or 'no answer in time'}")
            return False, ApiException(status=0, reason=str(error))
        if lease is None:
            # The election creates the Lease only if it finds this code in the body.
            return False, ApiException(status=404, reason="Not Found", body='{"code": 404}')
        self._remember(lease)
        holder, seconds = self._spec.get("holderIdentity"), self._spec.get("leaseDurationSeconds")
        if holder and not self.held:
            self._tell(f"is held by {holder}", logging.INFO)
        return True, LeaderElectionRecord(
            holder or None,
            str(seconds) if seconds else None,
            self._spec.get("acquireTime"),
            self._spec.get("renewTime"),
        )

    async def create(
        self, name: str, namespace: str, election_record: LeaderElectionRecord
    ) -> bool:
        del election_record  # its times are local times without a time zone
        manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": self._renewed()}
        return await self._write(self._kube.create(LEASES, manifest))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        del updated_record
        return await self._patch(name, namespace, self._renewed())

    async def release(self) -> bool:
        """Releases the Lease, so that another replica takes it at its next try instead of after
        `DURATION`."""
        if not self.held:
            return False
        # As in client-go: an empty holder, and a duration of one second.
        now = _now()
        empty = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
        }
        return await self._patch(self.name, self.namespace, empty)

    def _renewed(self) -> Json:
        now = _now()
        transitions = self._spec.get("leaseTransitions") or 0
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": self._spec.get("acquireTime", now) if self.held else now,
            "renewTime": now,
            "leaseTransitions": transitions if self.held or not self._spec else transitions + 1,
        }

    async def _patch(self, name: str, namespace: str, spec: Json) -> bool:
        # The resourceVersion ensures that only one of two candidates wins.
        patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        return await self._write(self._kube.merge_patch(LEASES, namespace, name, patch))

    async def _write(self, call: Coroutine[Any, Any, Json]) -> bool:
        sent = asyncio.get_running_loop().time()
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
        self._spec = lease.get("spec") or {}

    def _tell(self, problem: str, level: int = logging.WARNING) -> None:
        if problem and problem != self._problem:
            log.log(level, "the Lease %s/%s %s", self.namespace, self.name, problem)
        self._problem = problem


async def hold(lock: Lock, acquired: Callable[[], None]) -> None:
    """Waits for the Lease, calls `acquired`, and renews the Lease; returns when it is lost."""

    async def started() -> None:
        log.info("this is the leader: %s", lock.identity)
        acquired()

    async def stopped() -> None:
        pass

    config = Config(
        lock,
        lease_duration=DURATION,
        renew_deadline=RENEW_DEADLINE,
        retry_period=RETRY_PERIOD,
        onstarted_leading=started,
        onstopped_leading=stopped,
    )
    parts = [
        asyncio.create_task(LeaderElection(config).run(), name="election"),
        asyncio.create_task(_expiry(lock), name="expiry of the Lease"),
    ]
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel(*parts)
    log.error("the Lease %s/%s is lost: another copy may lead now", lock.namespace, lock.name)


async def _expiry(lock: Lock) -> None:
    """Returns when the Lease was not renewed for so long that another replica may soon take it."""
    now = asyncio.get_running_loop().time
    while lock.renewed is None or now() < lock.renewed + EXPIRY_SECONDS:
        left = EXPIRY_SECONDS if lock.renewed is None else lock.renewed + EXPIRY_SECONDS - now()
        await asyncio.sleep(left)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"
