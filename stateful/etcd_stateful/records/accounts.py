"""The etcd users and roles created for `spec.auth`, as noted in the bootstrap record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Accounts:
    """The users and roles that the operator created, noted before they are created. When the spec
    no longer names something in etcd, it is deleted only if it is noted here."""

    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    on: bool = False
    """Authentication was seen on, as declared. If it is off later, somebody else turned it off."""


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
    """The names in a list of strings. Anything else is refused, because what is named here may be
    deleted."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{value!r:.60} is not a list of names")
    return value
