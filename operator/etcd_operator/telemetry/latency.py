"""When a pass was asked for: the operator's own delay is measured from there to a step's write.

Everything else that a user waits for is up to the platform.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

asked_at: ContextVar[float | None] = ContextVar("asked_at", default=None)
"""Set by the work queue for each pass, in the event loop's time."""


def asked_or_now() -> float:
    """When the current pass was asked for; without a queue, now."""
    asked = asked_at.get()
    return asyncio.get_running_loop().time() if asked is None else asked
