"""The client of `start` with a server that is honest, forges, is late, or is another pod's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from dataclasses import replace

import pytest

from etcd_operator.cluster import tickets
from etcd_operator.cluster.tickets import NoAnswer, TcpStart
from etcd_stateful.start.ticket import (
    MAX_LINE,
    Answer,
    Finding,
    NotGenuine,
    Receipt,
    Ticket,
    open_ticket,
    read_greeting,
    seal,
)

KEY = b"k" * 32
LONG = 30.0
"""More seconds than an answer takes, and more than a caller with a deadline waits."""

TICKET = Ticket("run-1", "uid-a", 1, "a-0", 1, 2, "new", "a-0=http://a-0:2380", "token")


class Server:
    """A `start` with one chosen fault."""

    def __init__(self, *, key=KEY, challenge="run-1", pod_uid="uid-pod", answer=None, receipt=None):
        self.key, self.challenge, self.pod_uid = key, challenge, pod_uid
        self.answer, self.receipt = answer, receipt
        self.taken = []
        self.conversations = []

    async def serve(self, reader, writer):
        self.conversations.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, NotGenuine):
            nonce = read_greeting(await reader.readline())
            genuine = Answer(nonce, self.challenge, self.pod_uid, Finding("no-data"))
            line = self.answer(genuine) if self.answer else seal(self.key, "answer", genuine)
            writer.write(line)
            await writer.drain()
            if not line.endswith(b"\n"):
                writer.close()
                return
            if ticket := await reader.readline():
                self.taken.append(open_ticket(self.key, ticket))
                receipt = Receipt(self.challenge)
                line = self.receipt(receipt) if self.receipt else seal(self.key, "receipt", receipt)
                writer.write(line)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield TcpStart(port=server.sockets[0].getsockname()[1])
            await asyncio.gather(*self.conversations)


async def ask(server):
    async with server.running() as start:
        return await start.ask("127.0.0.1", "uid-pod", KEY)


async def push(server, ticket=TICKET):
    async with server.running() as start:
        return await start.push("127.0.0.1", "uid-pod", KEY, ticket)


async def test_an_answer():
    answer = await ask(Server())
    assert (answer.challenge, answer.pod_uid, answer.finding.found) == (
        "run-1",
        "uid-pod",
        "no-data",
    )


async def test_every_request_has_its_own_nonce():
    nonces = set()

    def answer(genuine):
        nonces.add(genuine.nonce)
        return seal(KEY, "answer", genuine)

    async with Server(answer=answer).running() as start:
        for _ in range(3):
            await start.ask("127.0.0.1", "uid-pod", KEY)
    assert len(nonces) == 3


async def test_a_ticket_and_its_receipt_over_one_connection():
    server = Server()
    assert await push(server) == Receipt("run-1")
    assert server.taken == [TICKET]
    assert len(server.conversations) == 1


async def test_a_refusal_is_a_receipt():
    server = Server(receipt=lambda it: seal(KEY, "receipt", replace(it, refusal="taken")))
    assert (await push(server)).refusal == "taken"


FORGED = {
    "another key": {"key": b"x" * 32},
    "another pod": {"pod_uid": "uid-other"},
    "an answer to another nonce": {
        "answer": lambda it: seal(KEY, "answer", replace(it, nonce="0" * 32))
    },
    "a receipt for an answer": {"answer": lambda _: seal(KEY, "receipt", Receipt("run-1"))},
    "no signature": {"answer": lambda _: b'{"body": {}}\n'},
    "no JSON": {"answer": lambda _: b"HTTP/1.1 400 Bad Request\r\n"},
    "a line cut off at its very end": {"answer": lambda it: seal(KEY, "answer", it)[:-1]},
    "half a line": {"answer": lambda it: seal(KEY, "answer", it)[:-20] + b"\n"},
    "a line without end": {"answer": lambda _: b"x" * (MAX_LINE + 1) + b"\n"},
}


@pytest.mark.parametrize("fault", FORGED.values(), ids=FORGED)
async def test_an_answer_that_is_not_genuine_is_ignored(fault):
    server = Server(**fault)
    with pytest.raises(NoAnswer):
        await ask(server)
    with pytest.raises(NoAnswer):
        await push(server)
    assert server.taken == [], "no ticket to someone who has not proved itself"


async def test_a_forgery_is_logged(caplog):
    caplog.set_level(logging.WARNING)
    with pytest.raises(NoAnswer, match="something else answers there, or with another key"):
        await ask(Server(key=b"x" * 32))
    assert "did not prove itself" in caplog.text


async def test_a_proxy_that_answers_in_place_of_start_was_logged_at_each_look(caplog):
    caplog.set_level(logging.WARNING)
    async with Server(answer=lambda _: b"HTTP/1.1 400 Bad Request\r\n").running() as start:
        for _ in range(5):
            with pytest.raises(NoAnswer, match="not a line of JSON"):
                await start.ask("127.0.0.1", "uid-pod", KEY)
    assert caplog.text.count("did not prove itself") == 1


async def test_a_start_that_has_no_key_seemed_to_be_kept_away_by_the_network():
    """It hangs up, and only its log says that its key is not there yet, or cannot be read."""
    with pytest.raises(NoAnswer, match="hung up without an answer; if it is start, its log says"):
        await ask(Server(answer=lambda _: b""))


async def test_another_run_gets_no_ticket():
    server = Server(challenge="run-2")
    with pytest.raises(NoAnswer, match="has run again"):
        await push(server)
    assert server.taken == []


@pytest.mark.parametrize(
    "receipt",
    [
        lambda _: b"",
        lambda _: seal(KEY, "receipt", Receipt("run-2")),
        lambda _: seal(b"x" * 32, "receipt", Receipt("run-1")),
        lambda _: seal(KEY, "ticket", TICKET),
    ],
    ids=["lost", "for another ticket", "forged", "a ticket played back"],
)
async def test_without_its_receipt_the_fate_of_a_ticket_is_unknown(receipt):
    server = Server(receipt=receipt)
    with pytest.raises(NoAnswer):
        await push(server)
    assert server.taken == [TICKET]


async def test_no_server_at_the_address(monkeypatch):
    for deadline in ("CONNECT_SECONDS", "TOTAL_SECONDS"):
        monkeypatch.setattr(tickets, deadline, 2 * LONG)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        began, port = time.monotonic(), probe.getsockname()[1]
        with pytest.raises(NoAnswer, match=f"^127.0.0.1:{port}: Connection refused$"):
            await TcpStart(port=port).ask("127.0.0.1", "uid-pod", KEY)
    assert time.monotonic() - began < LONG


async def test_a_connection_whose_first_packet_was_lost_did_not_cost_the_pass_half_a_second(
    monkeypatch,
):
    connect, dials = asyncio.open_connection, []

    async def lossy(*args, **kwargs):
        dials.append(args)
        if len(dials) == 1:
            await asyncio.Event().wait()
        return await connect(*args, **kwargs)

    monkeypatch.setattr(asyncio, "open_connection", lossy)
    monkeypatch.setattr(tickets, "FIRST_DIAL_SECONDS", 0.01)
    monkeypatch.setattr(tickets, "CONNECT_SECONDS", LONG)
    monkeypatch.setattr(tickets, "TOTAL_SECONDS", LONG)
    assert (await ask(Server())).challenge == "run-1"
    assert len(dials) == 2


async def test_a_silent_server_is_given_up_within_the_deadline(monkeypatch):
    monkeypatch.setattr(tickets, "TOTAL_SECONDS", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        began = time.monotonic()
        with pytest.raises(NoAnswer, match=r": no answer in time$"):
            await TcpStart(port=listener.getsockname()[1]).ask("127.0.0.1", "uid-pod", KEY)
    assert 0.2 < time.monotonic() - began < LONG, "without a deadline it waits for ever"


async def test_with_a_key_that_is_too_short_there_is_no_answer():
    async with Server().running() as start:
        with pytest.raises(NoAnswer, match="too short"):
            await start.ask("127.0.0.1", "uid-pod", b"short")


async def test_an_invalid_address():
    with pytest.raises(NoAnswer):
        await TcpStart(port=1).ask("256.0.0.1.invalid", "uid-pod", KEY)
