"""Passes that come to nothing as the API server fails at a call, over and over.

Once is nothing, and the queue tries again. Again and again it is mostly one kind of call alone, as
where a webhook is down: the status, which says so, can still be written.
"""

from __future__ import annotations

from typing import Final

from etcd_operator.kube.api import Key, Unavailable

UNANSWERED_PASSES: Final = 5
"""In a row, some six seconds by the queue's own patience, before anybody is told."""

REASON: Final = "StepFailed"


class Unanswered:
    """How many passes in a row came to nothing, of each object."""

    def __init__(self) -> None:
        self._passes: dict[Key, int] = {}

    def again(self, key: Key) -> bool:
        """One more. Whether it is time to tell."""
        self._passes[key] = self._passes.get(key, 0) + 1
        return self._passes[key] >= UNANSWERED_PASSES

    def over(self, key: Key) -> None:
        self._passes.pop(key, None)


def in_words(error: Unavailable) -> str:
    """What a status says of it."""
    return f"the API server fails at it over and over: {error}"
