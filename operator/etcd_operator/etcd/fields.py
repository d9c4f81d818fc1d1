"""Reads fields of etcd's replies that aetcd's stubs do not know yet: those that came with 3.6.

A reply keeps the fields that its stub does not know, and serialises them again. So they are read
here by number, which still works once the stubs know the names.
"""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

_STORAGE_VERSION: Final = 11
_DOWNGRADE_INFO: Final = 13
_ENABLED: Final = 1
_TARGET_VERSION: Final = 2
_VERSION: Final = re.compile(r"([0-9]{1,3}\.[0-9]{1,3})(\.|$)")


def storage_version(status: Any) -> str:
    """The minor version of the member's data format, such as `3.6`; empty if the reply has none."""
    return _minor(_fields(status.SerializeToString()).get(_STORAGE_VERSION, b""))


def downgrade_target(status: Any) -> str:
    """The minor version of an enabled downgrade; empty if none is enabled."""
    info = _fields(_fields(status.SerializeToString()).get(_DOWNGRADE_INFO, b""))
    return _minor(info.get(_TARGET_VERSION, b"")) if info.get(_ENABLED) else ""


def _fields(message: object) -> dict[int, Any]:
    """Fields by number; empty if it is no message: anything may answer at a member's address."""
    if not isinstance(message, bytes):
        return {}
    try:
        known = UnknownFieldSet(Empty.FromString(message))
    except DecodeError:
        return {}
    return {field.field_number: field.data for field in known}


def _minor(version: object) -> str:
    """The minor in a version; empty if it is no version."""
    text = version.decode(errors="replace") if isinstance(version, bytes) else ""
    found = _VERSION.match(text)
    return found[1] if found else ""
