"""Writes onto each pod which member serves in it, beside the passes: no step waits for it.

Whatever becomes of such a write, the next pass sees what is still to be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from etcd_operator.finder import Finder
from etcd_operator.kube import PODS, Conflict, Key, Kubernetes, Rejected, Unavailable
from etcd_stateful import naming
from etcd_stateful.membership import labels
from etcd_stateful.membership.observation import Observation, Pod

log = logging.getLogger(__name__)


class Labels:
    def __init__(self, kube: Kubernetes, finder: Finder) -> None:
        self._kube = kube
        self._finder = finder
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._refused: dict[Key, set[str]] = {}
        """By cluster: its pods, as long as they are there, by their UIDs."""

    def write(self, seen: Observation) -> None:
        """One patch for each pod that needs it and has none under way."""
        key = (seen.cluster.namespace, seen.cluster.name)
        busy = self._still_refused(key, seen.pods).union(self._under_way.values())
        for pod, member in labels.due(seen):
            if pod.uid not in busy:
                task = asyncio.create_task(self._write(key, pod, member))
                self._under_way[task] = pod.uid
                task.add_done_callback(self._under_way.pop)

    def _still_refused(self, cluster: Key, pods: Iterable[Pod]) -> set[str]:
        left = self._refused.pop(cluster, set()) & {pod.uid for pod in pods}
        if left:
            self._refused[cluster] = left
        return left

    async def drain(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _write(self, cluster: Key, pod: Pod, member: str) -> None:
        patch = {"metadata": {"uid": pod.uid, "labels": {naming.MEMBER_ID: member}}}
        try:
            written = await self._kube.merge_patch(PODS, cluster[0], pod.name, patch)
            self._finder.take(PODS, written)
        except (Conflict, Unavailable):
            return  # the pod is another one by now, or is still to be labelled at the next pass
        except Rejected as error:
            if not error.not_found:
                self._refused.setdefault(cluster, set()).add(pod.uid)
                log.warning("no label says which member pod %s is: %s", pod.name, error)
