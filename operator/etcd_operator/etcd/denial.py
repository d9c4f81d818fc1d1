"""Recognises etcd's reply to a client without a user, or with the wrong one."""

from __future__ import annotations

from typing import Any, Final

from aetcd import rpc

_DENIALS: Final = frozenset({rpc.StatusCode.PERMISSION_DENIED, rpc.StatusCode.UNAUTHENTICATED})

_UNKNOWN: Final = ("user name is empty", "user name not found", "user not found")
"""etcd's messages to a client with no user name, or an unknown one. Their codes do not tell."""


def is_denial(error: Any) -> bool:
    """Whether etcd requires a user, or another one."""
    words = str(error.details() or "")
    return error.code() in _DENIALS or any(phrase in words for phrase in _UNKNOWN)
