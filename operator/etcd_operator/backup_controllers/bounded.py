"""Bounds the writes in a fight over a status: another controller may undo each one at once.

The same status is written some times in a row and then every few seconds. What is news is written
at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

from etcd_operator.kube.api import Json, KubeError, Kubernetes, Resource
from etcd_operator.kube.events import Events
from etcd_operator.kube.statuses import StatusWriter, without_times
from etcd_operator.kube.store import Store
from etcd_operator.rate_limit import RateLimit


class BoundedStatusWriter(StatusWriter):
    """For passes that write their status last, and fail if it cannot be written."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        events: Events,
        resource: Resource,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(kube, store, events, resource)
        self._clock = clock
        self._rate_limit: Final = RateLimit()

    async def _send(self, body: Json, status: Json) -> Json | None:
        """Raises KubeError also if it is too early for the same write."""
        same = f"{body['metadata']['uid']} {json.dumps(without_times(status), sort_keys=True)}"
        if pause := self._rate_limit.pause(same, self._clock()):
            whose = f"{self._resource.kind} {body['metadata']['name']}"
            raise KubeError(
                f"another controller keeps changing the status of {whose}: it is written again in "
                f"{pause:.0f} s"
            )
        written = await super()._send(body, status)
        if written is not None:
            self._rate_limit.happened(same, self._clock())
        return written
