"""Posts Kubernetes Events, which users read with `kubectl describe`.

Events are best effort. If one cannot be posted, that is logged and it is not retried. The same
Event is posted again only after a while, so a cluster that keeps failing does not load the API
server.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Literal

from etcd_operator.kube.api import EVENTS, Conflict, Json, KubeError, Kubernetes, Rejected
from etcd_operator.repeats import Repeats
from etcd_operator.timestamps import rfc3339

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
MAX_MESSAGE = 1024
"""The API server refuses longer messages."""

LONGEST_NAME = 253 - 17
"""How much of the object's name fits into the name of its Event, beside a dot and a digest of 16
digits. The name of an EtcdBackup may itself be as long as that of an Event."""

Severity = Literal["Normal", "Warning"]
"""The `type` of an Event."""


class Events:
    """Posts Events, the same one at most once in REPEAT_SECONDS."""

    def __init__(
        self,
        kube: Kubernetes,
        *,
        instance: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._instance = instance
        self._repeats = Repeats(REPEAT_SECONDS, clock)

    async def emit(self, about: Json, severity: Severity, reason: str, message: str) -> None:
        """Posts an Event about an object with apiVersion, kind and metadata. Never raises
        KubeError."""
        reference = reference_to(about)
        name = event_name(reference, severity, reason, message)
        if not self._repeats.is_new(name):
            return
        manifest = self._manifest(name, reference, severity, reason, message[:MAX_MESSAGE])
        try:
            await self._post(manifest)
        except KubeError as error:
            # The API server rejects Events in a namespace that is being deleted, or is gone.
            level = logging.INFO if isinstance(error, Rejected) else logging.WARNING
            what = f"{reference['kind']} {reference['name']}"
            log.log(level, "the event %s was not posted, about %s: %s", reason, what, error)

    async def _post(self, manifest: Json) -> None:
        try:
            await self._kube.create(EVENTS, manifest)
        except Conflict:
            # This process or an earlier one posted it already, and it has not expired. The API
            # server keeps Events for an hour.
            metadata = manifest["metadata"]
            known = await self._kube.get(EVENTS, metadata["namespace"], metadata["name"])
            if known is None:
                return
            again = {
                "count": known.get("count", 1) + 1,
                "lastTimestamp": manifest["lastTimestamp"],
            }
            await self._kube.merge_patch(EVENTS, metadata["namespace"], metadata["name"], again)

    def _manifest(
        self, name: str, reference: Json, severity: str, reason: str, message: str
    ) -> Json:
        now = rfc3339(time.time())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": reference["namespace"]},
            "involvedObject": reference,
            "type": severity,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "etcd-operator"},
            "reportingComponent": "etcd-operator",
            "reportingInstance": self._instance,
        }


def reference_to(about: Json) -> Json:
    """The `involvedObject` of an Event about the object."""
    metadata = about["metadata"]
    return {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def event_name(reference: Json, severity: str, reason: str, message: str) -> str:
    """The name of an Event. The same Event has the same name, so that a restarted operator raises
    its count instead of posting it twice."""
    news = "\0".join((reference["uid"], severity, reason, message))
    digest = hashlib.sha256(news.encode()).hexdigest()[:16]
    return f"{reference['name'][:LONGEST_NAME].rstrip('-.')}.{digest}"
