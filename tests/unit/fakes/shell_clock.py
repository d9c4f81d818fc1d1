"""An event loop whose clock jumps to the next timer instead of waiting for it.

For tests of code that only sleeps and computes: hours pass at once, and exactly. Not for sockets.
(The `looptime` plugin does more, but leaves an unclosed loop behind with pytest-asyncio 1.5, which
is an error under `-W error`.)
"""

import asyncio
import functools
import selectors


class _Jumping(selectors.DefaultSelector):
    now = 1000.0  # not 0, where a sum and a difference are the same

    def select(self, timeout=None):
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everything waits and nothing will ever happen")
            self.now += timeout
        return events


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


def jumping(test):
    """Run an async test on such a loop; what it leaves running is cancelled at its end."""

    @functools.wraps(test)
    def run(**fixtures):
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(**fixtures))

    return run
