"""Reads JSON that others may have written, such as an answer of a pod or a file in a store.

Python's parser accepts values that later code chokes on: `1e999` becomes infinity, which has no
`int`; a lone surrogate cannot be encoded; an integer may have any number of digits. Whatever passes
here is safe to compute with, to store and to send to the API server.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

DEEPEST: Final = 100
"""A spec has about twelve levels. Each level costs stack when it is written again."""

LARGEST: Final = 2**64 - 1
"""etcd's IDs have 64 bits."""


def loads(text: str | bytes) -> Any:
    """The parsed JSON. Raises ValueError and nothing else."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check(found, DEEPEST)
    return found


def whole(value: Any, least: int = 0) -> int:
    """The value as an integer of at least `least`. Raises TypeError, also for text of digits."""
    if type(value) is not int or value < least:  # `type`, because a bool is an int too.
        raise TypeError(f"{value!r:.60} is not a whole number of at least {least}")
    return value


def epoch_of(text: str) -> int:
    """The epoch in an annotation; 0 if it is unreadable."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _check(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, str):
        value.encode()  # A lone surrogate raises UnicodeEncodeError, which is a ValueError.
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    elif isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise ValueError("it contains a number of more than 64 bits")
    elif isinstance(value, list):
        for one in value:
            _check(one, depth - 1)
    elif isinstance(value, dict):
        for key, one in value.items():
            key.encode()
            _check(one, depth - 1)


def truth(value: object) -> bool:
    """The value as a bool. Raises TypeError for anything else, which must not pass for false: a
    cluster that is not latched may be bootstrapped.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is neither true nor false")
    return value
