"""A proxy between a member and its peers that can hold back their messages."""

from __future__ import annotations

import asyncio
from typing import Literal

PORT = 2380
MESSAGE = b"POST /raft "
"""The start of a raft message that etcd sends while it has no stream to the peer."""

TURNS = 5
"""Turns of the event loop until it has handled accepted connections, and closed aborted ones."""

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Gate:
    """Forwards connections from `address` to `host`, except for messages that it keeps."""

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
        """Closes all connections, including those that have not sent anything yet."""
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
        """Holds messages back from now on, whether or not the member runs."""
        self._messages = "keep"

    @property
    def keeps_any(self) -> bool:
        return bool(self._kept)

    def drop_messages(self) -> None:
        """Drops the kept messages and those behind them, so that their senders notice. A message
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
            pass  # The other end notices a closed connection as well.
        finally:
            self._ends.discard(writer)
            for end in ends:
                end.transport.abort()


async def _copy(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
