"""The member and cluster IDs of a new cluster, computed as etcd will compute them.

Both are the first 8 bytes of a SHA-1, the same in etcd 3.5, 3.6 and 3.7
(`server/etcdserver/api/membership`: `computeMemberId` and `genID`). The IDs of members that are
added later also hash the time of the request, so only etcd knows them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

_HEX: Final = re.compile(r"[0-9a-fA-F]{1,16}")


def member_id(peer_urls: Sequence[str], token: str) -> int:
    """ID of a member of the initial cluster with these peer URLs."""
    return _hash("".join(sorted(peer_urls)).encode() + token.encode())


def cluster_id(member_ids: Iterable[int]) -> int:
    """ID of the cluster that starts with these members."""
    return _hash(b"".join(member.to_bytes(8, "big") for member in sorted(member_ids)))


def to_hex(identity: int) -> str:
    """16 hexadecimal digits, as in annotations of claims, in status and in messages."""
    return f"{identity:016x}"


def from_hex(text: str) -> int:
    """Raises ValueError for anything but 1 to 16 hexadecimal digits, and for 0, which etcd gives to
    no member and no cluster."""
    if not _HEX.fullmatch(text) or not int(text, 16):
        raise ValueError(f"not an etcd ID: {text[:32]!r}")
    return int(text, 16)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest()[:8], "big")
