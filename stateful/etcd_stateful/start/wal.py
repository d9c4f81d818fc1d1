"""Reads the member ID and the cluster ID from the head of a segment of etcd's WAL.

Every segment starts with a checksum record and a metadata record. The layout is the same in etcd
3.5, 3.6 and 3.7 (`wal/encoder.go`, `wal/decoder.go`, `walpb/record.proto` and `Metadata` in
`etcdserverpb/etcdserver.proto`). etcd takes its identity from there alone, whatever its
configuration says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD: Final = 4096
"""Bytes of a segment that have to be read; the two records take less than 100."""

SUFFIX: Final = ".wal"
"""etcd considers a directory with any file of this suffix an initialised member (`wal.Exist`)."""

_NAME: Final = len("0000000000000000")
"""Digits of each of the two numbers in a segment's name: sequence number and first index."""

_METADATA_RECORD: Final = 1
_CHECKSUM_RECORD: Final = 4
_CASTAGNOLI: Final = 0x82F63B78


class Garbled(ValueError):
    """The bytes are not the head of a WAL segment."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The member ID and cluster ID that etcd would run with on this WAL."""

    member_id: int
    cluster_id: int


def is_segment(name: str) -> bool:
    """Whether etcd reads a file of this name. It ignores other files (`wal.checkWalNames`)."""
    numbers = name.removesuffix(SUFFIX).split("-")
    hexadecimal = all(digit in "0123456789abcdef" for number in numbers for digit in number)
    return hexadecimal and [len(number) for number in numbers] == [_NAME, _NAME]


def identity(heads: tuple[bytes, ...]) -> Identity:
    """The identity in a WAL, from the first `HEAD` bytes of its segments, newest first.

    A segment that was allocated but never written is skipped, as by etcd. Raises Garbled if the
    newest written segment cannot be parsed.
    """
    for head in heads:
        found = segment_identity(head)
        if found is not None:
            return found
    raise Garbled("no segment of the log has a record")


def segment_identity(head: bytes) -> Identity | None:
    """The identity in the head of one segment; None if it was never written."""
    if not any(head):
        return None
    checksum, rest = _record(head)
    if checksum.kind != _CHECKSUM_RECORD:
        raise Garbled(f"the first record has type {checksum.kind}, not a checksum")
    metadata, _ = _record(rest)
    if metadata.kind != _METADATA_RECORD:
        raise Garbled(f"the second record has type {metadata.kind}, not metadata")
    # The checksum continues from one segment to the next, in the checksum record.
    if metadata.crc != _crc32c(checksum.crc, metadata.data):
        raise Garbled("the metadata record does not match its checksum")
    fields = _fields(metadata.data)
    return Identity(_id(fields, 1, "member"), _id(fields, 2, "cluster"))


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    crc: int
    data: bytes


def _record(data: bytes) -> tuple[_Record, bytes]:
    """The first record and what follows it.

    A frame is a little-endian length field of 8 bytes, the record, and padding to 8 bytes. The
    top byte of the field is 0, or 0x80 plus the number of bytes of padding.
    """
    if len(data) < 8:
        raise Garbled("the log ends within a frame")
    field = int.from_bytes(data[:8], "little")
    size, top = field & ((1 << 56) - 1), field >> 56
    padding = top & 0x7 if top & 0x80 else 0
    if top & ~0x87 or (top and not top & 0x80) or size == 0 or (size + padding) % 8:
        raise Garbled("not a frame of an etcd log")
    if 8 + size + padding > len(data):
        raise Garbled("a record is longer than what is there")
    fields = _fields(data[8 : 8 + size])
    kind, crc, body = fields.get(1, 0), fields.get(2, 0), fields.get(3, b"")
    if not isinstance(kind, int) or not isinstance(crc, int) or not isinstance(body, bytes):
        raise Garbled("a record with fields of other types")
    return _Record(kind, crc, body), data[8 + size + padding :]


def _id(fields: dict[int, int | bytes], number: int, what: str) -> int:
    value = fields.get(number)
    if not isinstance(value, int) or value == 0:
        raise Garbled(f"the metadata record names no {what} ID")
    return value


def _fields(data: bytes) -> dict[int, int | bytes]:
    """The fields of a protobuf message. As in protobuf, the last field of a number wins."""
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 0x7
        if wire == 0:
            fields[number], at = _varint(data, at)
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise Garbled(f"a protobuf field of unknown kind {wire}")
        if at + size > len(data):
            raise Garbled("a protobuf field is longer than its message")
        fields[number] = data[at : at + size]
        at += size
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Garbled("a protobuf number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise Garbled("a protobuf number is longer than 64 bits")


def _crc32c(crc: int, data: bytes) -> int:
    """CRC-32C of `data`, continued from `crc`. It is slow, but the data is only a few bytes."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
