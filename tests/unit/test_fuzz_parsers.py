"""Whatever comes from outside is read as a value or refused in the parser's own words.

Custom resources: test_hostile.py. The lines of `start`, the log's records and the records on claims
have further such tests beside their own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from hypothesis import given
from hypothesis import strategies as st

from etcd_operator import etcd_fields, last_words, trouble
from etcd_stateful import marker, start_config, ticket, wal
from etcd_stateful.membership import identity, records
from etcd_stateful.recover import parse_order
from etcd_stateful.ticket import NotGenuine

KEY = b"k" * 32
DEEP = "[" * 3_000
TEXTS = st.text() | st.sampled_from([DEEP, '{"a":' * 3_000, "null", "NaN", '"\\ud800"', "1e999"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
OPEN = {
    "answer": ticket.open_answer,
    "ticket": ticket.open_ticket,
    "receipt": ticket.open_receipt,
}
TICKET = {
    "challenge": "c",
    "cluster_uid": "u",
    "epoch": 1,
    "member": "a-0",
    "member_id": 1,
    "cluster_id": 2,
    "state": "new",
    "initial_cluster": "a-0=http://a-0:2380",
    "token": "t",
}


@given(TEXTS | st.binary())
def test_a_line_of_a_stranger(text: str | bytes) -> None:
    line = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    for opens in OPEN.values():
        with pytest.raises(NotGenuine):
            opens(KEY, line)
    try:
        nonce = ticket.read_greeting(line)
    except NotGenuine:
        return
    assert 16 <= len(nonce) <= 128


@given(st.sampled_from(sorted(OPEN)), st.dictionaries(st.sampled_from(sorted(TICKET)), JSON))
def test_a_signed_line_of_another_version_of_ours(domain: str, altered: dict[str, Any]) -> None:
    """The key says that it is one of us, and not that it is understood."""
    body = TICKET | altered
    line = json.dumps({"body": body, "mac": ticket._mac(KEY, domain, body)}).encode()
    try:
        opened = OPEN[domain](KEY, line)
    except NotGenuine:
        return
    assert domain == "ticket"
    assert all(type(getattr(opened, name)) is type(TICKET[name]) for name in TICKET)


@given(TEXTS | st.binary())
def test_a_marker(text: str | bytes) -> None:
    found = marker.parse(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))

    assert isinstance(found, marker.Marker | marker.Malformed)


@given(
    st.dictionaries(
        st.sampled_from(["clusterUID", "epoch", "member", "memberID", "clusterID"]), JSON
    )
)
def test_a_marker_of_other_values(content: dict[str, Any]) -> None:
    found = marker.parse(json.dumps(content).encode())

    if isinstance(found, marker.Marker):
        assert found.member.isprintable()
        assert 0 < found.member_id < 1 << 64


@given(st.lists(st.binary(max_size=128), max_size=4).map(tuple))
def test_heads_of_a_log(heads: tuple[bytes, ...]) -> None:
    try:
        found = wal.identity(heads)
    except wal.Garbled:
        return
    assert 0 <= found.member_id < 1 << 64


@given(TEXTS)
def test_last_words_of_a_container(text: str) -> None:
    ended = {"terminated": {"exitCode": 2, "message": text}}
    container = {"name": "etcd", "restartCount": 3, "lastState": ended, "state": {"waiting": {}}}
    pod = {"metadata": {"name": "a-0"}, "status": {"containerStatuses": [container]}}

    assert isinstance(last_words.recognise(text), str)
    assert isinstance(last_words.of_damage(container), str)
    assert len(trouble.trouble(pod, None, 600.0, 0.0)) < 2000


@given(st.binary(max_size=64))
def test_what_a_status_carries_besides(data: bytes) -> None:
    """Fields that the client's stubs do not know are read off the message's bytes."""

    class Status:
        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            return data

    assert isinstance(etcd_fields.storage_version(Status()), str)
    assert isinstance(etcd_fields.downgrade_target(Status()), str)


@given(st.sampled_from([11, 13]), st.integers(0, 2**64 - 1) | st.binary(max_size=20))
def test_a_status_with_a_known_field_of_another_kind(number: int, value: int | bytes) -> None:
    class Status:
        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            return field(number, value)

    assert Empty.FromString(field(number, value)) is not None
    assert isinstance(etcd_fields.storage_version(Status()), str)
    assert isinstance(etcd_fields.downgrade_target(Status()), str)


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


@given(TEXTS)
def test_the_bootstrap_record(text: str) -> None:
    try:
        found = records.load_bootstrap(text)
    except records.BadRecord:
        return
    assert found.cluster_id


@given(st.text(max_size=40))
def test_an_id_in_the_status(text: str) -> None:
    try:
        found = identity.from_hex(text)
    except ValueError:
        return
    assert 0 < found < 1 << 64


@given(
    st.dictionaries(
        st.sampled_from(["POD_NAME", "POD_UID", "POD_IP", "START_SETTINGS", "RECOVERY"]),
        TEXTS | JSON.map(json.dumps),
    )
)
def test_the_environment_of_start_and_recover(environment: dict[str, str]) -> None:
    for parse in (start_config.parse_settings, parse_order):
        try:
            parse(environment)
        except start_config.BadSettings:
            continue
