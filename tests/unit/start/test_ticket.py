"""The messages between `start` and the operator: only genuine ones are accepted."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from start_helpers import CHALLENGE, KEY, NONCE, TICKET

from etcd_stateful.start import ticket

FINDING = ticket.Finding("foreign-data", "a log without a marker", member_id=1, cluster_id=2)
ANSWER = ticket.Answer(NONCE, CHALLENGE, "pod-uid", FINDING)
RECEIPT = ticket.Receipt(CHALLENGE)

Open = Callable[[bytes, bytes], Any]
OPEN: dict[ticket.Domain, Open] = {
    "answer": ticket.open_answer,
    "ticket": ticket.open_ticket,
    "receipt": ticket.open_receipt,
}
MESSAGES: dict[ticket.Domain, ticket.Answer | ticket.Ticket | ticket.Receipt] = {
    "answer": ANSWER,
    "ticket": TICKET,
    "receipt": RECEIPT,
}
DOMAINS = list(MESSAGES)


def signed(domain: ticket.Domain, body: object) -> bytes:
    """A line as the holder of the key would sign it, whatever the body."""
    plain = json.dumps(body, sort_keys=True, separators=(",", ":"))
    text = f"etcd-start/v1/{domain}\0{plain}".encode()
    mac = hmac.new(KEY, text, hashlib.sha256).hexdigest()
    return json.dumps({"body": body, "mac": mac}).encode()


def body_of(domain: ticket.Domain) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(ticket.seal(KEY, domain, MESSAGES[domain]))["body"]
    return body


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_genuine_message_opens(domain: ticket.Domain) -> None:
    line = ticket.seal(KEY, domain, MESSAGES[domain])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert OPEN[domain](KEY, line) == MESSAGES[domain]
    assert OPEN[domain](KEY, signed(domain, body_of(domain))) == MESSAGES[domain]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("other", DOMAINS)
def test_a_proof_is_valid_for_one_kind_of_message_only(
    domain: ticket.Domain, other: ticket.Domain
) -> None:
    """Even with a body that would fit: a proof for one kind is not valid for another."""
    if domain == other:
        return
    line = signed(other, body_of(domain))
    with pytest.raises(ticket.NotGenuine, match="not signed"):
        OPEN[domain](KEY, line)


@pytest.mark.parametrize("domain", DOMAINS)
def test_another_cluster_s_key_opens_nothing(domain: ticket.Domain) -> None:
    line = ticket.seal(b"another cluster's key, 32 bytes..", domain, MESSAGES[domain])
    with pytest.raises(ticket.NotGenuine, match="not signed"):
        OPEN[domain](KEY, line)


@pytest.mark.parametrize("key", [b"", b"short", KEY[:31]])
def test_a_short_key_neither_signs_nor_opens(key: bytes) -> None:
    with pytest.raises(ticket.NotGenuine, match="key"):
        ticket.seal(key, "ticket", TICKET)
    with pytest.raises(ticket.NotGenuine, match="key"):
        ticket.open_ticket(key, ticket.seal(KEY, "ticket", TICKET))


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_change_of_any_byte_is_refused(domain: ticket.Domain) -> None:
    line = ticket.seal(KEY, domain, MESSAGES[domain]).rstrip(b"\n")
    for at in range(len(line)):
        for change in (0x01, 0x20, 0x80):
            changed = bytearray(line)
            changed[at] ^= change
            with pytest.raises(ticket.NotGenuine):
                OPEN[domain](KEY, bytes(changed))


@given(st.data())
def test_no_other_ticket_has_the_same_proof(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([field.name for field in fields(TICKET)]))
    value = getattr(TICKET, name)
    kind = st.integers() if isinstance(value, int) else st.text()
    other: Any = data.draw(kind.filter(lambda drawn: drawn != value))
    envelope = json.loads(ticket.seal(KEY, "ticket", TICKET))
    envelope["body"][name] = other
    with pytest.raises(ticket.NotGenuine):
        ticket.open_ticket(KEY, json.dumps(envelope).encode())


@given(st.binary() | st.text().map(str.encode))
def test_arbitrary_bytes_are_not_genuine(noise: bytes) -> None:
    for opens in OPEN.values():
        with pytest.raises(ticket.NotGenuine):
            opens(KEY, noise)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"body": {}}',
        b'{"mac": "00"}',
        b'{"body": [], "mac": "00"}',
        b'{"body": {}, "mac": 1}',
        b'{"body": {}, "mac": null}',
        '{"body": {}, "mac": "é"}'.encode(),
        b'{"body": {"a": "\\ud800"}, "mac": "00"}',
        b'{"body": {"a": NaN}, "mac": "00"}',
        b'{"body": {"a": ' + b"9" * 5000 + b'}, "mac": "00"}',
        b'{"body": {"a": ' + b"[" * 5000,
        b"\xff\xfe{",
    ],
)
def test_malformed_lines_are_not_genuine(line: bytes) -> None:
    for opens in OPEN.values():
        with pytest.raises(ticket.NotGenuine):
            opens(KEY, line)


def test_deeply_nested_json_is_not_genuine() -> None:
    for depth in range(900, 1000):
        line = b'{"body": {"a": ' + b"[" * depth + b"]" * depth + b'}, "mac": "00"}'
        with pytest.raises(ticket.NotGenuine):
            ticket.open_ticket(KEY, line)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ticket.NotGenuine, match="deep"):
        ticket._mac(KEY, "ticket", {"a": deep})


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_signed_message_of_another_version_is_refused(domain: ticket.Domain) -> None:
    body = body_of(domain)
    shapes = [body | {"more": 1}]
    needed = body.keys() - {"refusal"}
    shapes += [{key: body[key] for key in body if key != left} for left in needed]
    wrong: tuple[Any, ...] = (None, True, 1.5, [], {})
    shapes += [body | {name: value} for name in body for value in wrong]
    for shape in shapes:
        with pytest.raises(ticket.NotGenuine, match="of another shape"):
            OPEN[domain](KEY, signed(domain, shape))


@pytest.mark.parametrize(
    "finding",
    [
        {"found": "nothing"},
        {"found": ["no-data"]},
        {"found": "no-data", "epoch": "1"},
        {"found": "no-data", "member": 1},
        {"found": "no-data", "member_id": True},
        {"found": "no-data", "more": 1},
        {},
        [],
        None,
        "no-data",
    ],
)
def test_a_signed_finding_of_the_wrong_shape_is_refused(finding: object) -> None:
    with pytest.raises(ticket.NotGenuine, match="of another shape"):
        ticket.open_answer(KEY, signed("answer", body_of("answer") | {"finding": finding}))


@pytest.mark.parametrize("change", [{"state": "force-new"}, {"epoch": True}, {"member_id": "1"}])
def test_a_signed_ticket_with_a_value_of_the_wrong_type_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ticket.NotGenuine, match="of another shape"):
        ticket.open_ticket(KEY, ticket.seal(KEY, "ticket", replace(TICKET, **change)))


def test_the_longest_answer_fits_a_line() -> None:
    finding = ticket.Finding(
        "foreign-data", "x" * 300, "u" * 253, 1 << 64, "m" * 253, 1 << 64, 1 << 64
    )
    answer = ticket.Answer("n" * 128, CHALLENGE, "u" * 63, finding)
    assert len(ticket.seal(KEY, "answer", answer)) < ticket.MAX_LINE / 4


def test_a_greeting_is_read() -> None:
    assert ticket.read_greeting(ticket.greeting(NONCE)) == NONCE


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"GET / HTTP/1.1\r\n",
        ticket.greeting("short"),
        ticket.greeting("x" * 129),
        b'{"nonce": 1234567890123456}',
        b'{"nonce": null}',
        b'{"nonce": ["0123456789abcdef"]}',
    ],
)
def test_other_lines_are_no_greeting(line: bytes) -> None:
    with pytest.raises(ticket.NotGenuine):
        ticket.read_greeting(line)
