"""Kubernetes Events: what a user would want to read under `kubectl describe`.

They are a courtesy. One that cannot be posted is logged and forgotten, never waited for twice, and
the same one is posted again only after a while, so that a cluster that goes on failing costs the
API server nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Literal

from etcd_operator.kube.api import EVENTS, Conflict, Json, KubeError, Kubernetes, Rejected
from etcd_operator.timestamps import rfc3339

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
MAX_MESSAGE = 1024
"""The API server refuses longer ones."""

LONGEST_NAME = 253 - 17
"""What an Event's name has left for that of its object, beside a dot and a digest of 16 digits: an
EtcdBackup's own may be as long."""


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
        self._clock = clock
        self._posted: dict[str, float] = {}

    async def emit(
        self, about: Json, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Tell of `about`, an object with apiVersion, kind and metadata. Never raises KubeError."""
        reference = reference_to(about)
        name = event_name(reference, kind, reason, message)
        if not self._is_due(name):
            return
        manifest = self._manifest(name, reference, kind, reason, message[:MAX_MESSAGE])
        try:
            await self._post(manifest)
        except KubeError as error:
            # Refused is what an event gets in a namespace that is being deleted, or is gone.
            level = logging.INFO if isinstance(error, Rejected) else logging.WARNING
            what = f"{reference['kind']} {reference['name']}"
            log.log(level, "the event %s was not posted, about %s: %s", reason, what, error)

    def _is_due(self, name: str) -> bool:
        now = self._clock()
        self._posted = {
            known: at for known, at in self._posted.items() if now - at < REPEAT_SECONDS
        }
        if name in self._posted:
            return False
        self._posted[name] = now
        return True

    async def _post(self, manifest: Json) -> None:
        try:
            await self._kube.create(EVENTS, manifest)
        except Conflict:
            # Posted before, by this process or an earlier one, within the API server's hour.
            metadata = manifest["metadata"]
            known = await self._kube.get(EVENTS, metadata["namespace"], metadata["name"])
            if known is None:
                return
            again = {
                "count": known.get("count", 1) + 1,
                "lastTimestamp": manifest["lastTimestamp"],
            }
            await self._kube.merge_patch(EVENTS, metadata["namespace"], metadata["name"], again)

    def _manifest(self, name: str, reference: Json, kind: str, reason: str, message: str) -> Json:
        now = rfc3339(time.time())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": reference["namespace"]},
            "involvedObject": reference,
            "type": kind,
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
    """The `regarding` of an Event about the object."""
    metadata = about["metadata"]
    return {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def event_name(reference: Json, kind: str, reason: str, message: str) -> str:
    """The same for the same news, so that a restarted operator counts instead of repeating."""
    news = "\0".join((reference["uid"], kind, reason, message))
    digest = hashlib.sha256(news.encode()).hexdigest()[:16]
    return f"{reference['name'][:LONGEST_NAME].rstrip('-.')}.{digest}"
