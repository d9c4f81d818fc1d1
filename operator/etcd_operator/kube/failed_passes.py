"""What becomes of a pass if the API server does not answer a call, or refuses it, or if the
operator has a bug.

A single call without an answer is not reported; the queue retries. If it happens again and again,
mostly only one kind of call fails, as it does while a webhook is down. Then the status can still be
written, and says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from etcd_operator.kube.api import (
    REJECTED_SECONDS,
    Key,
    KubeError,
    Rejected,
    Unavailable,
    refused_in_words,
)

log = logging.getLogger(__name__)

UNANSWERED_PASSES: Final = 5
"""How many passes in a row must fail before it is reported: some six seconds, by the back-off of
the queue."""

REASON: Final = "StepFailed"

Report = Callable[[str, str], Awaitable[None]]
"""Writes a reason and a message into the status."""


class FailedPasses:
    """The passes in a row that have failed, for each object."""

    def __init__(self) -> None:
        self._unanswered: dict[Key, int] = {}
        self._last: dict[Key, str] = {}

    async def watch(
        self,
        key: Key,
        made: Awaitable[float | None],
        report: Report,
        way_out: Callable[[Rejected], str] = lambda _: "",
    ) -> float | None:
        """Awaits a pass. Returns in how many seconds the next one is due; raises whatever else
        than a refusal has ended it.

        Args:
            way_out: what else to say of a call that was refused.
        """
        try:
            after = await made
        except Rejected as error:
            if words := refused_in_words(error):
                words = ". ".join(filter(None, (words, way_out(error))))
                if self.last(key) != str(error):
                    log.warning("%s", words)
                self._last[key] = str(error)
                await report("Refused", words)
            return REJECTED_SECONDS
        except Unavailable as error:
            is_due = self.is_reported(key)
            self._last[key] = str(error)
            self._unanswered[key] = self._unanswered.get(key, 0) + 1
            if is_due:
                with contextlib.suppress(KubeError):
                    await report(REASON, in_words(error))
            raise
        except KubeError:
            raise
        except Exception as error:
            with contextlib.suppress(KubeError):
                await report(REASON, f"internal error, {type(error).__name__}: {error}")
            raise
        if after != 0:  # If the next pass comes at once, that one tells whether it is over.
            self.over(key)
        return after

    def is_reported(self, key: Key) -> bool:
        """Whether enough passes in a row have failed, if this one does too. Then a pass may give up
        a call that gets no answer, so that it comes to something in other ways."""
        return self._unanswered.get(key, 0) + 1 >= UNANSWERED_PASSES

    def last(self, key: Key) -> str:
        """What the API server said in the last passes; empty if they did not fail."""
        return self._last.get(key, "")

    def over(self, key: Key) -> None:
        self._unanswered.pop(key, None)
        self._last.pop(key, None)


def in_words(error: Unavailable) -> str:
    """What the status says about the error."""
    return f"the API server keeps failing: {error}"
