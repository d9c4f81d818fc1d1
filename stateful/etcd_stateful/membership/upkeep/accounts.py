"""etcd's users and roles as they are, and the changes that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etcd_stateful.api.auth import Permission


@dataclass(frozen=True, slots=True)
class AuthView:
    """etcd's users and roles. All names are listed. Roles and permissions are filled in only for
    names that the spec declares or that were created for it: others are not queried."""

    enabled: bool
    users: Mapping[str, frozenset[str]]
    """Roles of each user."""

    roles: Mapping[str, frozenset[Permission]]
    refused: frozenset[str] = frozenset()
    """Users whose password is not the one in their Secret. Tested only while authentication is on
    and everything else is as declared, as far as it can be."""

    passwordless: frozenset[str] = frozenset()
    """Users that were created without a password. etcd never lets them have one; trying to set it
    is the only way to find out."""


@dataclass(frozen=True, slots=True)
class AddUser:
    """Create the user, with the password from its Secret."""

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
    """Turn authentication on."""


@dataclass(frozen=True, slots=True)
class Disable:
    """Turn authentication off."""


OfUser = AddUser | SetPassword | DeleteUser | GrantRole | RevokeRole
OfRole = AddRole | DeleteRole | GrantPermission | RevokePermission
Change = OfUser | OfRole | Enable | Disable
