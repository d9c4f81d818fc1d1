"""The marker: a file beside the data that says which member it belongs to.

`<volume>/member.json` names the cluster (UID of the custom resource and epoch), the pod, and the
etcd IDs. etcd starts without a ticket only if the marker names this pod and the WAL has the IDs of
the marker. So neither a clone of another member's volume nor data of an earlier epoch is started.
A Job that fills a volume writes the marker last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

FILE: Final = "member.json"
MAX_BYTES: Final = 4096
MAX_ID: Final = (1 << 64) - 1

_MAX_TEXT: Final = 253


@dataclass(frozen=True, slots=True)
class Marker:
    """The member that the data belongs to. The IDs are etcd's, and must be those in the WAL."""

    cluster_uid: str
    epoch: int
    member: str
    member_id: int
    cluster_id: int


@dataclass(frozen=True, slots=True)
class Malformed:
    """A marker that cannot be relied upon."""

    why: str


def serialise(marker: Marker) -> bytes:
    """The content of the file, with IDs in 16 hexadecimal digits, as in claims and status."""
    content = {
        "clusterUID": marker.cluster_uid,
        "epoch": marker.epoch,
        "member": marker.member,
        "memberID": f"{marker.member_id:016x}",
        "clusterID": f"{marker.cluster_id:016x}",
    }
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def parse(text: bytes) -> Marker | Malformed:
    """The marker in the content of a file. It never raises: garbage gives a Malformed."""
    if len(text) > MAX_BYTES:
        return Malformed("the marker is too long")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return Malformed("the marker is not JSON")
    if not isinstance(content, dict):
        return Malformed("the marker is not a JSON object")
    uid, member = _text(content.get("clusterUID")), _text(content.get("member"))
    epoch = content.get("epoch")
    member_id, cluster_id = _id(content.get("memberID")), _id(content.get("clusterID"))
    if uid is None or member is None or member_id is None or cluster_id is None:
        return Malformed("the marker lacks a field, or has one of another form")
    # `type`, because a bool is an int too.
    if type(epoch) is not int or not 0 <= epoch <= MAX_ID:
        return Malformed("the marker has no epoch")
    return Marker(uid, epoch, member, member_id, cluster_id)


def _text(value: object) -> str | None:
    """The value if it is a short printable text, because it is written to logs and answers."""
    if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT:
        return value if value.isascii() and value.isprintable() else None
    return None


def _id(value: object) -> int | None:
    if not isinstance(value, str) or not 0 < len(value) <= 16:
        return None
    if not all(character in "0123456789abcdef" for character in value):
        return None
    return int(value, 16) or None
