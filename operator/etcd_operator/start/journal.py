"""What `start` reports: lines in the container's log, and the termination message."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

REPEAT: Final = 30.0
"""Seconds after which a line that still holds is written again."""

LONGEST: Final = 800
"""Bytes of the termination message. Those of Jobs say at their end what to do."""


class Journal:
    """Writes to standard error. Nothing that goes wrong here stops `start`."""

    def __init__(self, termination_log: str, name: str = "start") -> None:
        self._name = name
        self._termination_log = termination_log
        self._written: dict[str, tuple[str, float]] = {}

    def say(self, text: str) -> None:
        """Writes one line to the log."""
        with suppress(OSError):
            os.write(2, _encoded(f"{self._name}: {text}\n"))

    def repeat(self, text: str, topic: str = "") -> None:
        """Writes a line at most once per `REPEAT` seconds, so that neither a loop here nor a client
        that keeps connecting can flood the log. A topic's line is also written when it has
        changed."""
        now = time.monotonic()
        last, when = self._written.get(topic or text, ("", now - REPEAT))
        if text == last and now - when < REPEAT:
            return
        if len(self._written) > 100:
            self._written.clear()
        self._written[topic or text] = (text, now)
        self.say(text)

    def leave(self, text: str) -> None:
        """Writes the termination message, which Kubernetes shows once the container has ended."""
        with suppress(OSError):
            # Not created if it is missing: outside a pod there is no such file.
            message = os.open(self._termination_log, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(message, _encoded(text)[:LONGEST])
            finally:
                os.close(message)

    def conclude(self, text: str) -> None:
        """Writes a line to the log, and the same as the termination message."""
        self.say(text)
        self.leave(text)


def _encoded(text: str) -> bytes:
    """Also encodes what is not text: a file name may have any bytes."""
    return text.encode(errors="backslashreplace")
