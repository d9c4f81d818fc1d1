"""The identity in a WAL: from real segments, and never a wrong one from damaged segments."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from start_helpers import CLUSTER_ID, FIRST_SEGMENT, LATER_SEGMENT, MEMBER_ID

from etcd_stateful.start import wal

REAL = wal.Identity(MEMBER_ID, CLUSTER_ID)
UNWRITTEN = bytes(wal.HEAD)
IDS = st.integers(min_value=1, max_value=(1 << 64) - 1)


def varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def frame(record: bytes) -> bytes:
    padding = -len(record) % 8
    top = 0x80 | padding if padding else 0
    return len(record).to_bytes(7, "little") + bytes([top]) + record + bytes(padding)


def record(kind: int, crc: int, data: bytes | None = None) -> bytes:
    body = b"\x08" + varint(kind) + b"\x10" + varint(crc)
    return frame(body if data is None else body + b"\x1a" + varint(len(data)) + data)


def segment(data: bytes, carried: int = 0) -> bytes:
    return record(4, carried) + record(1, wal._crc32c(carried, data), data)


def ids(member: int, cluster: int) -> bytes:
    return b"\x08" + varint(member) + b"\x10" + varint(cluster)


@pytest.mark.parametrize(
    "head",
    [FIRST_SEGMENT, LATER_SEGMENT, FIRST_SEGMENT + UNWRITTEN],
    ids=["first", "later", "long"],
)
def test_segments_of_real_etcd_are_read(head: bytes) -> None:
    assert wal.segment_identity(head) == REAL


def test_the_checksum_is_crc32c() -> None:
    assert wal._crc32c(0, b"123456789") == 0xE3069283
    assert wal._crc32c(wal._crc32c(0, b"1234"), b"56789") == 0xE3069283


@given(IDS, IDS, st.integers(min_value=0, max_value=(1 << 32) - 1))
def test_any_ids_are_read_back(member: int, cluster: int, carried: int) -> None:
    head = segment(ids(member, cluster), carried)
    assert wal.segment_identity(head) == wal.Identity(member, cluster)


def test_no_flipped_bit_changes_the_identity() -> None:
    garbled = 0
    for at in range(64):
        for bit in range(8):
            head = bytearray(FIRST_SEGMENT)
            head[at] ^= 1 << bit
            try:
                assert wal.segment_identity(bytes(head)) == REAL
            except wal.Garbled:
                garbled += 1
    # The rest are the padding bytes, and the checksum in the checksum record.
    assert garbled > 64 * 8 * 3 / 4


def test_a_truncated_head_is_garbled() -> None:
    assert wal.segment_identity(FIRST_SEGMENT[:56]) == REAL
    for size in range(1, 56):
        with pytest.raises(wal.Garbled):
            wal.segment_identity(FIRST_SEGMENT[:size])


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_garbled_or_unwritten(noise: bytes) -> None:
    try:
        assert wal.segment_identity(noise) is None
        assert not any(noise)
    except wal.Garbled:
        pass


@given(st.binary(max_size=60))
@example(ids(MEMBER_ID, CLUSTER_ID))
def test_arbitrary_bytes_with_a_valid_checksum_are_an_identity_or_garbled(noise: bytes) -> None:
    with suppress(wal.Garbled):
        assert isinstance(wal.segment_identity(segment(noise)), wal.Identity)


WHOLE = frame(b"\x08\x04" + b"\x10\x00" * 3)
"""A record that needs no padding: its length proves nothing of the top byte."""


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (record(1, 0, ids(1, 2)) + record(4, 0), "the first record has type 1"),
        (record(4, 0) + record(3, 0, ids(1, 2)), "the second record has type 3"),
        (record(4, 0), "within a frame"),
        (record(4, 0) + bytes(64), "not a frame"),
        (bytes(8) + FIRST_SEGMENT, "not a frame"),
        (frame(b"\x08\x04")[:7] + b"\x07" + b"\x08\x04" + bytes(6), "not a frame"),
        (WHOLE[:7] + b"\x07" + WHOLE[8:], "not a frame"),
        (frame(b"\x08\x04")[:7] + b"\x8e" + b"\x08\x04" + bytes(6), "not a frame"),
        (frame(b"\x08\x04")[:7] + b"\x85" + b"\x08\x04" + bytes(6), "not a frame"),
        (b"\xff" * 7 + b"\x81" + bytes(64), "longer than what is there"),
        (record(4, 0) + record(1, 7, ids(1, 2)), "does not match its checksum"),
        (segment(b"\x10\x02"), "names no member ID"),
        (segment(ids(0, 2)), "names no member ID"),
        (segment(b"\x08\x01"), "names no cluster ID"),
        (segment(b"\x0a\x01x\x10\x02"), "names no member ID"),
        (segment(b"\x08"), "cut short"),
        (segment(b"\x08" + b"\xff" * 10 + b"\x01"), "longer than 64 bits"),
        (segment(b"\x0a\x05x"), "longer than its message"),
        (segment(b"\x0b"), "unknown kind 3"),
        (frame(b"\x0a\x01x"), "fields of other types"),
        (frame(b"\x12\x01x\x08\x04"), "fields of other types"),
        (frame(b"\x18\x01"), "fields of other types"),
        (frame(b"\x10\x00"), "has type 0"),
    ],
)
def test_the_reason_a_head_is_garbled_is_reported(head: bytes, why: str) -> None:
    with pytest.raises(wal.Garbled, match=why):
        wal.segment_identity(head)


def test_fields_of_a_later_version_do_no_harm() -> None:
    later = b"\x19" + bytes(8) + b"\x25" + bytes(4) + b"\x2a\x03abc" + b"\x30\x07"
    assert wal.segment_identity(segment(later + ids(1, 2) + later)) == wal.Identity(1, 2)


@pytest.mark.parametrize(
    "heads",
    [
        (FIRST_SEGMENT,),
        (LATER_SEGMENT, FIRST_SEGMENT),
        (UNWRITTEN, FIRST_SEGMENT),
        (b"", UNWRITTEN, LATER_SEGMENT, FIRST_SEGMENT),
        (LATER_SEGMENT, b"noise that etcd does not read any more"),
    ],
)
def test_the_newest_written_segment_counts(heads: tuple[bytes, ...]) -> None:
    assert wal.identity(heads) == REAL


@pytest.mark.parametrize("heads", [(), (b"",), (UNWRITTEN, UNWRITTEN), (b"noise", FIRST_SEGMENT)])
def test_there_is_no_identity_without_a_valid_newest_segment(heads: tuple[bytes, ...]) -> None:
    with pytest.raises(wal.Garbled):
        wal.identity(heads)
