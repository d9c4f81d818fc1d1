"""For how long something has been true of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from etcd_operator.kube.api import Key


class Since:
    """Remembers it by cluster and UID. If this memory is lost, it has just become true."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since: dict[Key, dict[str, float]] = {}

    def late(self, key: Key, uids: Iterable[str]) -> set[str]:
        """Those of these pods, of which it is true now, of which it has been for `seconds`."""
        now, before = self._clock(), self._since.pop(key, {})
        if since := {uid: before.get(uid, now) for uid in uids}:
            self._since[key] = since
        return {uid for uid, at in since.items() if now - at >= self._seconds}

    def next(self, key: Key) -> float:
        """Seconds until `late` returns another pod; infinite if it will return none."""
        now = self._clock()
        left = (at + self._seconds - now for at in self._since.get(key, {}).values())
        return min((one for one in left if one > 0), default=inf)

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)
