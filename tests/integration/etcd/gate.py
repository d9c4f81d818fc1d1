"""What stands between a member and its peers, and may keep their messages for too long."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

PORT = 2380
MESSAGE = b"POST /raft "
"""How etcd sends a raft message while it has no stream to the peer."""

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Gate:
    """Passes what comes to `address` on to `host`, but for what it is told to keep."""

    def __init__(self, address: str, host: str) -> None:
        self._address = address
        self._host = host
        self._messages: Literal["pass", "keep", "drop"] = "pass"
        self._kept: list[Writer] = []
        self._passing: set[Writer] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, self._address, PORT)

    async def close(self) -> None:
        self._server.close()
        for one in (*self._kept, *self._passing):
            one.transport.abort()
        while self._passing:
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

    async def _pass(self, reader: Reader, writer: Writer) -> None:
        first = await reader.read(65536)
        if first.startswith(MESSAGE) and self._messages == "keep":
            self._kept.append(writer)
            return
        if first.startswith(MESSAGE) and self._messages == "drop":
            writer.transport.abort()
            return
        try:
            beyond = await asyncio.open_connection(self._host, PORT)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, beyond[1]}
        self._passing |= ends
        beyond[1].write(first)
        try:
            await asyncio.gather(_copy(reader, beyond[1]), _copy(beyond[0], writer))
        finally:
            self._passing -= ends


async def _copy(reader: Reader, writer: Writer) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
