"""EtcdRestore: a clear answer, once, that it cannot be had yet.

coreos manifests contain it. Silence would let a user believe that something is being restored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from etcd_operator.kube import Json, Key, Kubernetes, Resource
from etcd_operator.statuses import write_status
from etcd_operator.store import Store

REASON: Final = "NotAvailableYet"

_MESSAGE: Final = (
    "this version of the operator does not act on {kind} objects yet: nothing is being done for "
    "this one. A new EtcdCluster can be born from a backup by spec.bootstrap.restore"
)


class Answers:
    """Answers the objects of one resource."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        resource: Resource,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._store = store
        self._resource = resource
        self._wall_clock = wall_clock

    async def reconcile(self, key: Key) -> None:
        body = self._store.get(self._resource, *key)
        if body is None or "deletionTimestamp" in body["metadata"] or self._is_answered(body):
            return
        written = await write_status(self._kube, self._resource, body, self._answer(body))
        if written is not None:
            self._store.put(self._resource, written)

    def _is_answered(self, body: Json) -> bool:
        generation = body["metadata"].get("generation", 0)
        conditions = (body.get("status") or {}).get("conditions") or ()
        return any(
            one.get("reason") == REASON and one.get("observedGeneration") == generation
            for one in conditions
        )

    def _answer(self, body: Json) -> Json:
        generation = body["metadata"].get("generation", 0)
        now = datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Available",
            "status": "False",
            "reason": REASON,
            "message": _MESSAGE.format(kind=self._resource.kind),
            "observedGeneration": generation,
            "lastTransitionTime": now,
            "lastUpdateTime": now,
        }
        return {"observedGeneration": generation, "conditions": [condition]}
