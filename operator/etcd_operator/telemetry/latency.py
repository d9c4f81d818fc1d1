"""How long a step waits for us: from the event that makes it possible to its write.

Everything else that a user waits for is the platform's. The work queue knows when a pass was asked
for and says so in `asked_at`; a pass that nobody told counts from its own beginning.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Histogram

asked_at: ContextVar[float | None] = ContextVar("asked_at", default=None)
"""The loop's time at which the present pass was asked for."""


class StepDelay:
    """The histogram, and the moments that it counts from."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._delays = Histogram(
            "etcd_operator_step_delay_seconds",
            "From the event that made a step possible to the answer to its write",
            ["step"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=registry,
        )

    def begin(self) -> float:
        asked = asked_at.get()
        return asyncio.get_running_loop().time() if asked is None else asked

    def written(self, step: str, since: float) -> None:
        self._delays.labels(step).observe(asyncio.get_running_loop().time() - since)
