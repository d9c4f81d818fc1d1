"""What etcd answers a client that has to be another user, or one at all."""

from __future__ import annotations

from typing import Any, Final

from aetcd import rpc

_DENIALS: Final = frozenset({rpc.StatusCode.PERMISSION_DENIED, rpc.StatusCode.UNAUTHENTICATED})

_UNKNOWN: Final = ("user name is empty", "user name not found", "user not found")
"""etcd's words to a client that shows no name, or nobody's, with codes that say something else."""


def is_denial(error: Any) -> bool:
    """Whether etcd asks for a user, or for another one."""
    words = str(error.details() or "")
    return error.code() in _DENIALS or any(phrase in words for phrase in _UNKNOWN)
