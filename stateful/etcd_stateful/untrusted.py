"""JSON that others may have written: a pod's answer, a file in a store, a termination message.

Python reads more than JSON means: `1e999` is infinite, and no `int` can be made of it; half a
character cannot be written again; a number has as many digits as it likes. What is read here can be
counted with, written down and sent to the API server.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

DEEPEST: Final = 100
"""A spec is a dozen deep; what is written again needs room on the stack for each more."""

LARGEST: Final = 2**64 - 1
"""etcd's IDs are that large."""


def loads(text: str | bytes) -> Any:
    """Raises ValueError, and nothing else."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check(found, DEEPEST)
    return found


def whole(value: Any, least: int = 0) -> int:
    """A number that counts something. Raises TypeError, for a text of digits too."""
    if type(value) is not int or value < least:  # `type`, because a bool is an int too.
        raise TypeError(f"{value!r:.60} is no whole number")
    return value


def finite(value: Any) -> float:
    """Raises TypeError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise TypeError(f"{value!r:.60} is no number")
    return float(value)


def _check(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, str):
        value.encode()  # Half a character is a UnicodeEncodeError, which is a ValueError.
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    elif isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise ValueError("it has a number of more than 64 bits")
    elif isinstance(value, list):
        for one in value:
            _check(one, depth - 1)
    elif isinstance(value, dict):
        for key, one in value.items():
            key.encode()
            _check(one, depth - 1)


def truth(value: object) -> bool:
    """Anything else must not read as false: an unlatched cluster, for one, may be begun anew.

    Raises TypeError.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is neither true nor false")
    return value
