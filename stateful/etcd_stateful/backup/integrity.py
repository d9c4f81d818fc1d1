"""etcd's own integrity hash, checked while a snapshot goes by.

etcd ends a snapshot with the SHA-256 of all that came before. What is stored is the same bytes that
`etcdctl snapshot save` writes, that hash included, and `etcdutl snapshot restore` checks it again.
"""

from __future__ import annotations

import hashlib
from typing import Final

TAIL: Final = hashlib.sha256().digest_size
SECTOR: Final = 512
"""A database is a whole number of these: what is more is the hash."""


class Damaged(Exception):
    """These bytes are no whole snapshot."""


class Checked:
    """Sees every byte once, and never holds more than the last few."""

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
        """Of what has gone by, the end: etcd's hash, once all has."""
        return self._tail

    def finish(self) -> str:
        """The SHA-256 of the whole file, in hexadecimal; raises Damaged."""
        if self.size % SECTOR != TAIL or self.size <= TAIL:
            raise Damaged(f"{self.size} bytes are no snapshot with its hash: it is cut short")
        if self._hash.digest() != self._tail:
            raise Damaged("etcd's hash at its end is not that of the bytes before it")
        whole = self._hash.copy()
        whole.update(self._tail)
        return whole.hexdigest()
