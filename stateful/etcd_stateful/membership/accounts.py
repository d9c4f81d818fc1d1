"""etcd's users and roles as they are, and the changes that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etcd_stateful.api.auth import Permission


@dataclass(frozen=True, slots=True)
class AuthView:
    """What etcd says. All names are there; what belongs to a name only where it is declared or was
    made for the spec, as nothing else is asked for."""

    enabled: bool
    users: Mapping[str, frozenset[str]]
    """Roles by user."""

    roles: Mapping[str, frozenset[Permission]]
    refused: frozenset[str] = frozenset()
    """Users whose password is not the one in their Secret. Tried only while authentication is on,
    and once all else is as declared."""

    passwordless: frozenset[str] = frozenset()
    """Users that were made without a password, and that etcd never gives one: found by trying."""


@dataclass(frozen=True, slots=True)
class AddUser:
    """With the password of its Secret."""

    user: str


@dataclass(frozen=True, slots=True)
class SetPassword:
    user: str


@dataclass(frozen=True, slots=True)
class DeleteUser:
    user: str


@dataclass(frozen=True, slots=True)
class GrantRole:
    user: str
    role: str


@dataclass(frozen=True, slots=True)
class RevokeRole:
    user: str
    role: str


@dataclass(frozen=True, slots=True)
class AddRole:
    role: str


@dataclass(frozen=True, slots=True)
class DeleteRole:
    role: str


@dataclass(frozen=True, slots=True)
class GrantPermission:
    role: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class RevokePermission:
    role: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class Enable:
    """Authentication on."""


@dataclass(frozen=True, slots=True)
class Disable:
    """Authentication off."""


OfUser = AddUser | SetPassword | DeleteUser | GrantRole | RevokeRole
OfRole = AddRole | DeleteRole | GrantPermission | RevokePermission
Change = OfUser | OfRole | Enable | Disable
