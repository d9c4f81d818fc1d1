"""Counts passes that fail because the API server does not answer a call, and remembers what was
logged of those that it refuses.

A single call without an answer is not reported; the queue retries. If it happens again and again,
mostly only one kind of call fails, as it does while a webhook is down. Then the status can still be
written, and says so.
"""

from __future__ import annotations

from typing import Final

from etcd_operator.kube.api import Key, Unavailable

UNANSWERED_PASSES: Final = 5
"""How many passes in a row must fail before it is reported: some six seconds, by the back-off of
the queue."""

REASON: Final = "StepFailed"


class FailedPasses:
    """The passes in a row that have failed, for each object."""

    def __init__(self) -> None:
        self._passes: dict[Key, int] = {}
        self._said: dict[Key, str] = {}

    def again(self, key: Key) -> bool:
        """Counts one more failed pass. Returns whether to report it."""
        self._passes[key] = self._passes.get(key, 0) + 1
        return self._passes[key] >= UNANSWERED_PASSES

    def is_new(self, key: Key, words: str) -> bool:
        """Whether to log these words: not if they were the last ones, however often it is tried."""
        last, self._said[key] = self._said.get(key), words
        return last != words

    def over(self, key: Key) -> None:
        self._passes.pop(key, None)
        self._said.pop(key, None)


def in_words(error: Unavailable) -> str:
    """What the status says about the error."""
    return f"the API server keeps failing: {error}"
