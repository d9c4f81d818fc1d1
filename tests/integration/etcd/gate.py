"""What stands between a member and its peers, and may keep their messages for too long."""

from __future__ import annotations

import asyncio
from typing import Literal

PORT = 2380
MESSAGE = b"POST /raft "
"""How etcd sends a raft message while it has no stream to the peer."""

TURNS = 5
"""Of the loop, until it has told of what it had accepted, and closed what was aborted."""

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Gate:
    """Passes what comes to `address` on to `host`, but for what it is told to keep."""

    def __init__(self, address: str, host: str) -> None:
        self._address = address
        self._host = host
        self._messages: Literal["pass", "keep", "drop"] = "pass"
        self._kept: list[Writer] = []
        self._passing: set[asyncio.Task[None]] = set()
        self._ends: set[Writer] = set()
        """Of those who have come; a task that is cancelled before it began closes nothing."""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._comes, self._address, PORT)

    async def close(self) -> None:
        """Once nothing passes any more, not even what has come without a word so far."""
        self._server.close()
        self.drop_messages()
        for one in self._passing:
            one.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)
        while self._ends:
            self._ends.pop().transport.abort()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def keep_messages(self) -> None:
        """From now on, whether or not the member is there to take them."""
        self._messages = "keep"

    @property
    def keeps_any(self) -> bool:
        return bool(self._kept)

    def drop_messages(self) -> None:
        """Those that were kept, whose senders learn of it now, and those that wait behind them: one
        that arrived would make the peer active again."""
        self._messages = "drop"
        while self._kept:
            self._kept.pop().transport.abort()

    def _comes(self, reader: Reader, writer: Writer) -> None:
        if not self._server.is_serving():
            writer.transport.abort()
            return
        self._ends.add(writer)
        passing = asyncio.create_task(self._pass(reader, writer))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)

    async def _pass(self, reader: Reader, writer: Writer) -> None:
        ends = [writer]
        try:
            first = await reader.read(65536)
            if first.startswith(MESSAGE) and self._messages != "pass":
                if self._messages == "keep":
                    self._kept.append(ends.pop())
                return
            beyond = await asyncio.open_connection(self._host, PORT)
            ends.append(beyond[1])
            beyond[1].write(first)
            await asyncio.gather(_copy(reader, beyond[1]), _copy(beyond[0], writer))
        except OSError:
            pass  # Whoever is gone is heard of at the other end as well.
        finally:
            self._ends.discard(writer)
            for end in ends:
                end.transport.abort()


async def _copy(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
