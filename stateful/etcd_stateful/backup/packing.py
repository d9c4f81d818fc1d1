"""Compresses a long text; `base64 --decode | gunzip` shows it."""

from __future__ import annotations

import base64
import zlib
from typing import Final

LONGEST: Final = 3 * 1024 * 1024
"""Bytes after unpacking. `manifest.MAX_BYTES` has to be larger, as a manifest has the same spec."""

_GZIP: Final = 31
_BEGINS: Final = "H4sI"
"""The first bytes of any gzip file, in base64."""


def pack(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9, wbits=_GZIP)).decode()


def is_packed(text: str) -> bool:
    return text.startswith(_BEGINS)


def unpack(text: str, most: int = LONGEST) -> str:
    """The unpacked text. Raises ValueError if it cannot be unpacked or exceeds `most` bytes."""
    packed, unpacking = base64.b64decode(text, validate=True), zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacking.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if len(unpacked) > most:
        raise ValueError(f"it has more than {most} bytes")
    return unpacked.decode()
