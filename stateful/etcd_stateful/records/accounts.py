"""What was made inside etcd for `spec.auth`, as the bootstrap record has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Accounts:
    """Written down before it is made. Of what the spec names no more, only this is removed."""

    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    on: bool = False
    """Authentication was seen turned on as declared: if it is off, somebody else did that."""


NO_ACCOUNTS: Final = Accounts()


def as_json(accounts: Accounts) -> dict[str, object]:
    return {"users": list(accounts.users), "roles": list(accounts.roles), "on": accounts.on}


def from_json(raw: Mapping[str, Any]) -> Accounts:
    """Raises KeyError or TypeError."""
    users, roles = (tuple(_names(raw[key])) for key in ("users", "roles"))
    if not isinstance(raw["on"], bool):
        raise TypeError(f"{raw['on']!r:.60} is neither true nor false")
    return Accounts(users, roles, raw["on"])


def _names(value: object) -> list[str]:
    """Anything else must not read as names: what is named may be removed."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{value!r:.60} is no list of names")
    return value
