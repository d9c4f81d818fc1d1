"""Reads Secrets that users provide, and keeps them.

They carry no label of ours, so the store does not have them. They are read again when the spec has
changed, or when they have (`name_changes.py`). Where changes are not watched, they are read again
at intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Final

from etcd_operator.kube.api import SECRETS, Json, Key, Kubernetes
from etcd_operator.kube.name_changes import Mark
from etcd_stateful.api.cluster import EtcdCluster

GOOD_SECONDS: Final = 30.0
"""After this time a Secret is read again, if it is not watched."""

MENDED_SECONDS: Final = 2.0
"""The same while something is wrong with it, as its user may correct that."""


@dataclass(frozen=True, slots=True)
class _Read:
    raw: Json | None
    generation: int
    mark: int | None
    due: float
    """When it is read again, if it is not watched."""


class ProvidedSecrets:
    def __init__(
        self,
        kube: Kubernetes,
        clock: Callable[[], float],
        mark: Mark,
    ) -> None:
        self._kube = kube
        self._mark = mark
        self._clock = clock
        self._reads: dict[Key, dict[str, _Read]] = {}

    def forget(self, key: Key) -> None:
        self._reads.pop(key, None)

    def keep(self, cluster: EtcdCluster, names: Container[str]) -> None:
        """Forgets Secrets that the cluster no longer names: they hold users' keys and passwords."""
        reads = self._reads.get(cluster.key, {})
        for name in [one for one in reads if one not in names]:
            del reads[name]

    async def read(self, cluster: EtcdCluster, name: str) -> Json | None:
        key = cluster.key
        if last := self._reads.get(key, {}).get(name):
            mark = self._mark(SECRETS, key, name)
            is_same = last.mark == mark if mark is not None else self._clock() < last.due
            if is_same and last.generation == cluster.generation:
                return last.raw
        return await self.read_again(cluster, name)

    async def read_again(self, cluster: EtcdCluster, name: str) -> Json | None:
        """Reads the Secret now, even if its copy is up to date."""
        key = cluster.key
        # Taken before the read: what changes meanwhile gets another mark.
        mark, due = self._mark(SECRETS, key, name), self._clock() + GOOD_SECONDS
        raw = await self._kube.get(SECRETS, cluster.namespace, name)
        self._reads.setdefault(key, {})[name] = _Read(raw, cluster.generation, mark, due)
        return raw

    def read_soon(self, cluster: EtcdCluster, bad: Iterable[str]) -> None:
        """Lets these be read again soon, because something is wrong with them."""
        reads, soon = self._reads.get(cluster.key, {}), self._clock() + MENDED_SECONDS
        for name in bad:
            if name in reads:
                reads[name] = replace(reads[name], due=min(reads[name].due, soon))
