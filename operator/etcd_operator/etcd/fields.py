"""Fields of etcd's replies that aetcd's stubs do not know yet: those that came with 3.6.

A reply keeps what its stub does not know and writes it out again, so all of it is read here by
number, also once the stubs have learnt the names.
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
    """Minor of the format of the member's data, `3.6`; empty where it does not say."""
    return _minor(_fields(status.SerializeToString()).get(_STORAGE_VERSION, b""))


def downgrade_target(status: Any) -> str:
    """Minor that etcd was told to go down to; empty while no downgrade is on."""
    info = _fields(_fields(status.SerializeToString()).get(_DOWNGRADE_INFO, b""))
    return _minor(info.get(_TARGET_VERSION, b"")) if info.get(_ENABLED) else ""


def _fields(message: object) -> dict[int, Any]:
    """None of what is no message: whoever sits at a member's address may answer anything."""
    if not isinstance(message, bytes):
        return {}
    try:
        known = UnknownFieldSet(Empty.FromString(message))
    except DecodeError:
        return {}
    return {field.field_number: field.data for field in known}


def _minor(version: object) -> str:
    """Empty for what is no version."""
    text = version.decode(errors="replace") if isinstance(version, bytes) else ""
    found = _VERSION.match(text)
    return found[1] if found else ""
