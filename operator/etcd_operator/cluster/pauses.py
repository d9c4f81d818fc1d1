"""Which members were asked to defragment their databases a moment ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_operator.kube.api import Key
from etcd_stateful.membership.observation import Observation

PAUSE_SECONDS: Final = 600.0
"""Between two times of one member: it copies all that it holds, and serves nobody meanwhile."""


class Pauses:
    """Of each cluster. It may be lost at any moment: then members may be asked again at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[Key, dict[str, float]] = {}

    def begin(self, key: Key, member: str) -> None:
        """The member is asked now."""
        self._asked[key] = self._asked.get(key, {}) | {member: self._clock()}

    def onto(self, key: Key, base: Observation) -> Observation:
        oldest = self._clock() - PAUSE_SECONDS
        asked = {name: at for name, at in self._asked.pop(key, {}).items() if at > oldest}
        if not asked:
            return base
        self._asked[key] = asked
        return replace(base, defragmented=frozenset(asked))

    def forget(self, key: Key) -> None:
        self._asked.pop(key, None)
