"""The event loop: its time, tasks that are awaited together, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Reply = TypeVar("Reply")


def loop_time() -> float:
    """The present time of the running event loop."""
    return asyncio.get_running_loop().time()


async def together(*calls: Coroutine[Any, Any, Reply]) -> list[Reply]:
    """Awaits all calls at the same time. If one fails, the others are cancelled: after `gather`
    alone they would go on, with nobody to wait for them."""
    tasks = [asyncio.ensure_future(one) for one in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel(*tasks)


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancels the tasks, and returns once they have ended, however they did."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
