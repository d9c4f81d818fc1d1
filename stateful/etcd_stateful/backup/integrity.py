"""Checks etcd's own integrity hash while a snapshot streams by.

etcd ends a snapshot with the SHA-256 of everything before it. A stored backup has the same bytes
that `etcdctl snapshot save` writes, including that hash, and `etcdutl snapshot restore` checks it.
"""

from __future__ import annotations

import hashlib
from typing import Final

TAIL: Final = hashlib.sha256().digest_size
SECTOR: Final = 512
"""The size of a database is a multiple of this. The remainder is the hash."""


class Damaged(Exception):
    """The bytes are not a complete snapshot."""


class SnapshotCheck:
    """Hashes a stream, and keeps only its last bytes."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._tail = b""
        self.size = 0

    def update(self, data: bytes | memoryview) -> None:
        self.size += len(data)
        if len(data) < TAIL:
            joined = self._tail + bytes(data)
            self._hash.update(joined[:-TAIL])
            self._tail = joined[-TAIL:]
            return
        self._hash.update(self._tail)
        self._hash.update(memoryview(data)[:-TAIL])
        self._tail = bytes(data[-TAIL:])

    @property
    def tail(self) -> bytes:
        """The last bytes so far; at the end of the stream this is etcd's hash."""
        return self._tail

    def finish(self) -> str:
        """The SHA-256 of the whole file, in hexadecimal; raises Damaged."""
        if self.size % SECTOR != TAIL or self.size <= TAIL:
            why = "it is cut short"
            if self.size and self.size % SECTOR == 0:
                why += ", or the database of a member, copied without `snapshot save`"
            raise Damaged(f"a complete snapshot cannot have {self.size} bytes: {why}")
        if self._hash.digest() != self._tail:
            raise Damaged("etcd's hash at its end does not match the bytes before it")
        whole = self._hash.copy()
        whole.update(self._tail)
        return whole.hexdigest()
