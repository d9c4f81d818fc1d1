"""Measures the operator's own delay: from the event that makes a step possible to its write.

Everything else that a user waits for is up to the platform. The work queue sets `asked_at` to the
time at which a pass was asked for; without it, the time counts from the beginning of the pass.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Histogram

asked_at: ContextVar[float | None] = ContextVar("asked_at", default=None)
"""When the current pass was asked for, in the event loop's time."""


class StepDelay:
    """The histogram of delays, and the times that they are measured from."""

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
