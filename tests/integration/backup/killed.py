"""The Job as a separate process that is killed at a point that the test chooses.

python killed.py <Secret's folder> <volume> <part> <effect at which it is killed; 0: none>
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import obstore

from etcd_operator.backup import __main__ as entry
from etcd_operator.backup import progress, sink
from etcd_operator.job_exit import exit_at_once
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order


@contextlib.asynccontextmanager
async def backing_up(
    order: Order, secret: str, root: Path, word: Path, *, part: int = sink.PART, effect: int = 0
) -> AsyncIterator[Any]:
    """The process, which is stopped at the end of the context."""
    import asyncio

    environment = {
        **os.environ,
        orders.VARIABLE: orders.serialise(order),
        "TERMINATION_LOG": str(word),
    }
    words = (secret, str(root), str(part), str(effect))
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *words, env=environment, stderr=-1
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def _mortal(at: int) -> Callable[[Any], Any]:
    """Wraps functions: each call counts as an effect, and the process dies before effect `at`."""
    left = [at]

    def counted(real: Any) -> Any:
        @functools.wraps(real)
        def effect(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return effect

    return counted


def main(secret: str, root: str, part: str, effect: str) -> int:
    entry.back_up.__kwdefaults__.update(secret=secret, root=root)  # type: ignore[union-attr]
    entry.orders.PROGRESS_PORT = 0  # type: ignore[misc]
    sink.PART = int(part)  # type: ignore[misc]
    counted = _mortal(int(effect))
    for place, name in (
        (progress.Meter, "add"),
        (obstore, "put_async"),
        (obstore, "rename_async"),
        (Path, "write_text"),
    ):
        setattr(place, name, counted(getattr(place, name)))
    return entry.main(os.environ)


if __name__ == "__main__":
    exit_at_once(main(*sys.argv[1:]))
