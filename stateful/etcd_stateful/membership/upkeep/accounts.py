"""etcd's users and roles as they are, and the changes that bring them to what is declared."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from etcd_stateful.api.auth import ROOT, Auth, Permission, User


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


def is_arranged(auth: Auth, view: AuthView) -> bool:
    """Whether all declared users, roles and permissions exist; passwords aside."""
    return next(_differences(auth, view), None) is None


def is_carried_out(auth: Auth, view: AuthView, usable: Container[str]) -> bool:
    """Whether all of them exist, but for users that cannot be created yet.

    Args:
        usable: users whose password can be used.
    """
    return next(possible_changes(auth, view, usable), None) is None


def possible_changes(
    auth: Auth, view: AuthView, usable: Container[str]
) -> Iterator[tuple[Change, str]]:
    """The changes that are needed, but for users whose password cannot be used: without one they
    are not created."""
    for change, words in _differences(auth, view):
        if isinstance(change, AddUser) and change.user not in usable:
            continue
        if isinstance(change, GrantRole) and change.user not in view.users:
            continue
        yield change, words


def _differences(auth: Auth, view: AuthView) -> Iterator[tuple[Change, str]]:
    """All changes that are needed, each with its reason. Grants come before revocations, so that
    nobody loses access that is only expressed differently: in etcd a permission replaces another on
    the same keys."""
    for role in auth.roles:
        if role.name not in view.roles:
            yield AddRole(role.name), f"role {role.name} is declared"
            continue
        has = view.roles[role.name]
        for one in sorted(role.permissions - has, key=lambda one: (one.key, one.range_end)):
            yield GrantPermission(role.name, one), f"role {role.name} is given {one}"
        for one in sorted(has - role.permissions, key=lambda one: (one.key, one.range_end)):
            words = f"role {role.name} loses {one}, which is not declared"
            yield RevokePermission(role.name, one), words
    for user in auth.users:
        yield from _differences_of(user, view)


def _differences_of(user: User, view: AuthView) -> Iterator[tuple[Change, str]]:
    if user.name not in view.users:
        yield AddUser(user.name), f"user {user.name} is declared"
    has = view.users.get(user.name, frozenset())
    for role in sorted(user.roles - has):
        yield GrantRole(user.name, role), f"user {user.name} is given the role {role}"
    for role in sorted(has - user.roles):
        if user.name != ROOT:
            words = f"user {user.name} loses the role {role}, which is not declared"
            yield RevokeRole(user.name, role), words
