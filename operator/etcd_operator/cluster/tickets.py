"""Talks to `start`, the init container that waits on an empty volume.

Each connection carries one exchange: nonce and answer, and for a push also the ticket and its
receipt. `start` draws a new challenge on every run, and its answer contains our nonce and the pod's
UID. So an answer can neither be replayed nor come from another pod that has the address now.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator
from typing import Final, Protocol

from etcd_operator.repeats import Repeats
from etcd_stateful import naming
from etcd_stateful.start.ticket import (
    MAX_LINE,
    Answer,
    NotGenuine,
    Receipt,
    Ticket,
    greeting,
    open_answer,
    open_receipt,
    seal,
)

log = logging.getLogger(__name__)

FIRST_DIAL_SECONDS: Final = 0.1
"""After this, the connection is begun anew. Networks may lose packets while they learn of a new
pod, and the kernel repeats a lost one only after a second."""

CONNECT_SECONDS: Final = 0.5
TOTAL_SECONDS: Final = 2.0

AT_ONCE: Final = 64
"""Conversations at a time, of all clusters together."""

AGAIN_SECONDS: Final = 600.0
"""How often to warn about the same false answer of the same address. A pod may be asked each second
for hours, while a proxy answers in its place."""


class NoAnswer(Exception):
    """`start` did not answer, or the answer was not genuine. Its state is unknown."""


class Start(Protocol):
    """The calls to the init container of one pod. Both methods raise NoAnswer."""

    async def ask(self, address: str, pod_uid: str, key: bytes) -> Answer: ...

    async def push(self, address: str, pod_uid: str, key: bytes, ticket: Ticket) -> Receipt: ...


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TcpStart:
    """`Start` over TCP."""

    def __init__(self, port: int = naming.START_PORT) -> None:
        self._port = port
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._repeats = Repeats(AGAIN_SECONDS, time.monotonic)

    async def ask(self, address: str, pod_uid: str, key: bytes) -> Answer:
        """Asks what this run of `start` found on its volume."""
        async with self._conversation(address) as streams:
            return await _question(streams, pod_uid, key)

    async def push(self, address: str, pod_uid: str, key: bytes, ticket: Ticket) -> Receipt:
        """Sends the ticket, if the run of `start` that it is for still answers.

        Without a receipt it is unknown whether the ticket was accepted. The next observation shows
        it, and the same ticket may be sent to the same run again.
        """
        async with self._conversation(address) as streams:
            answer = await _question(streams, pod_uid, key)
            if answer.challenge != ticket.challenge:
                raise NoAnswer(f"{address}: start has run again since the ticket was made")
            receipt = open_receipt(key, await _exchange(streams, seal(key, "ticket", ticket)))
            if receipt.challenge != ticket.challenge:
                raise NotGenuine("receipt for another ticket")
            return receipt

    @contextlib.asynccontextmanager
    async def _conversation(self, address: str) -> AsyncIterator[Streams]:
        try:
            async with self._turns, asyncio.timeout(TOTAL_SECONDS):
                streams = await self._connect(address)
                try:
                    yield streams
                finally:
                    await _hang_up(streams[1])
        except NotGenuine as error:
            self._warn(address, str(error))
            words = f"something else answers there, or with another key: {error}"
            raise NoAnswer(f"{address}:{self._port}: {words}") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(f"{address}:{self._port}: {_in_words(error)}") from error

    async def _connect(self, address: str) -> Streams:
        async with asyncio.timeout(CONNECT_SECONDS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_DIAL_SECONDS):
                    return await self._dial(address)
            return await self._dial(address)

    async def _dial(self, address: str) -> Streams:
        return await asyncio.open_connection(address, self._port, limit=MAX_LINE)

    def _warn(self, address: str, words: str) -> None:
        if self._repeats.is_new((address, words)):
            log.warning("start did not prove itself: %s", words, extra={"address": address})


def _in_words(error: OSError | ValueError) -> str:
    """Without the address, which asyncio repeats."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Aborts the connection. Nothing that matters is left to be sent, and a graceful close would
    wait for a peer that does not read."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _question(streams: Streams, pod_uid: str, key: bytes) -> Answer:
    nonce = secrets.token_hex(16)
    answer = open_answer(key, await _exchange(streams, greeting(nonce)))
    if answer.nonce != nonce:
        raise NotGenuine("answer to another question")
    if answer.pod_uid != pod_uid:
        raise NotGenuine("answer of another pod")
    return answer


async def _exchange(streams: Streams, line: bytes) -> bytes:
    """Sends one line and reads one. A line that is cut short is an error."""
    reader, writer = streams
    writer.write(line)
    await writer.drain()
    reply = await reader.readline()
    if not reply:
        raise ConnectionError("it hung up without an answer; if it is start, its log says why")
    if not reply.endswith(b"\n"):
        raise ConnectionError("closed before a whole line came")
    return reply
