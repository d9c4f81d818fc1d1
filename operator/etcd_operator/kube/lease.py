"""Who works the queue: the holder of a Lease. For order and speed; safety never depends on it.

The algorithm is `kubernetes.aio.leaderelection`. The lock under it is not its `LeaseLock`, which
lets a refused connection or a timeout end the election, waits five minutes for an answer, logs
every lost race with a traceback, and writes the local time as UTC (37.0.2). This one stands on the
operator's own narrow client.
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

log = logging.getLogger(__name__)
# The election tells of each attempt that fails; the lock here tells when that begins and ends.
logging.getLogger("kubernetes.aio.leaderelection").setLevel(logging.CRITICAL)

DURATION = 9
RENEW_DEADLINE = 6.0
RETRY_PERIOD = 2.0
CALL_SECONDS = 2.0
EXPIRY_SECONDS = DURATION - 1.0
"""When a holder that could not renew must be through, whatever the election still waits for: its
deadline counts neither the pause before it nor the attempt that it is in the middle of."""


class Lock(BaseLock):
    """The Lease object as the election wants it: False in place of every error."""

    def __init__(self, kube: Kubernetes, *, name: str, namespace: str, identity: str) -> None:
        super().__init__(name, namespace, identity)
        self._kube = kube
        self._version: str | None = None
        self._spec: Json = {}
        self._problem = ""
        self.renewed: float | None = None
        """When the last write that succeeded was sent, on the loop's clock."""

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
            # The election makes the Lease only if it finds this code in the body.
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
        del election_record  # its times are local ones, without a zone
        manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": self._renewed()}
        return await self._write(self._kube.create(LEASES, manifest))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        del updated_record
        return await self._patch(name, namespace, self._renewed())

    async def release(self) -> bool:
        """Let the successor take it at its next look instead of after `DURATION`."""
        if not self.held:
            return False
        # As client-go does it: an empty holder, and a duration of one second.
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
        # The resourceVersion is what gives the race of two candidates one winner.
        patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        return await self._write(self._kube.merge_patch(LEASES, namespace, name, patch))

    async def _write(self, call: Coroutine[Any, Any, Json]) -> bool:
        sent = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                self._remember(await call)
        except Conflict as error:
            self._tell(f"went to another: {error}", logging.INFO)
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
    """Wait for the Lease, say so, keep it; returns when it is lost."""

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
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
    log.error("the Lease %s/%s is lost: another copy may lead now", lock.namespace, lock.name)


async def _expiry(lock: Lock) -> None:
    """Return when the Lease could not be renewed for so long that another may soon take it."""
    now = asyncio.get_running_loop().time
    while lock.renewed is None or now() < lock.renewed + EXPIRY_SECONDS:
        left = EXPIRY_SECONDS if lock.renewed is None else lock.renewed + EXPIRY_SECONDS - now()
        await asyncio.sleep(left)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"
