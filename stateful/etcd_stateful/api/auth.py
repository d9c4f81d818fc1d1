"""`spec.auth`: etcd's users and roles, and the Secrets with their passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from etcd_stateful.api.reading import Reader, is_object_name

ROOT: Final = "root"
"""etcd's name for both the user and the role that may do everything."""

DEFAULT_KEY: Final = "password"
MAX_ENTRIES: Final = 64
"""Limit on users, roles and permissions of a role: each costs a request to etcd after an edit."""

Access = Literal["Read", "Write", "ReadWrite"]

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@/-]{0,126}[A-Za-z0-9])?")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_EVERY: Final = b"\0"
_LAST: Final = 0xFF


@dataclass(frozen=True, slots=True)
class SecretKey:
    """Where a password is: a Secret in the cluster's namespace, and a key in it."""

    name: str
    key: str
    field: str
    """The field of the spec that names the Secret."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Access to one key if `range_end` is empty, else to the range [key, range_end), as in etcd."""

    access: Access
    key: bytes
    range_end: bytes = b""

    def __str__(self) -> str:
        key, end = (one.decode(errors="backslashreplace") for one in (self.key, self.range_end))
        return f"{self.access} of {key[:60]!r}" + (f" to {end[:60]!r}" if end else "")


@dataclass(frozen=True, slots=True)
class Role:
    """An etcd role, and the key ranges that it may read or write."""

    name: str
    permissions: frozenset[Permission]


@dataclass(frozen=True, slots=True)
class User:
    """An etcd user: where its password is, and which roles it has."""

    name: str
    secret: SecretKey
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class Auth:
    """The declared users and roles. `users` includes root, without which etcd does not turn on
    authentication."""

    users: tuple[User, ...]
    roles: tuple[Role, ...]


def read_auth(spec: Reader) -> Auth | None:
    """Reads `spec.auth`; None where the spec has none."""
    if not spec.has("auth"):
        return None
    reader = spec.object("auth")
    if not reader.has("rootSecret"):
        reader.problem("rootSecret", "is missing: name the Secret with the password of root")
    root = User(ROOT, _secret(reader, "rootSecret"), frozenset({ROOT}))
    roles = tuple(_role(item) for item in reader.items("roles"))
    names = frozenset(role.name for role in roles)
    users = tuple(_user(item, names) for item in reader.items("users"))
    _check_names(reader, "roles", [role.name for role in roles])
    _check_names(reader, "users", [user.name for user in users])
    return Auth((root, *users), roles)


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix; if there is none, etcd's `\\0` for no end."""
    kept = prefix.rstrip(bytes([_LAST]))
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else _EVERY


def _check_names(reader: Reader, key: str, names: list[str]) -> None:
    if len(names) > MAX_ENTRIES:
        reader.problem(key, f"lists {len(names)}; at most {MAX_ENTRIES} can be declared")
    for index, name in enumerate(names):
        where = f"{key}[{index}].name"
        if name == ROOT:
            words = "must not be root, which every cluster has; rootSecret names its password"
            reader.problem(where, words)
        elif not _NAME.fullmatch(name):
            reader.problem(
                where,
                "must have at most 128 letters, digits, dots, dashes, underscores, slashes and "
                f"at-signs, and begin and end with a letter or digit, found {name[:60]!r}",
            )
        elif name in names[:index]:
            reader.problem(where, f"{name[:60]} is declared twice")


def _user(item: Reader, declared: Iterable[str]) -> User:
    if not item.has("secret"):
        item.problem("secret", "is missing: name the Secret with the user's password")
    roles = frozenset(item.listed("roles", "names"))
    for role in sorted(roles - {ROOT, *declared}):
        item.problem("roles", f"{role[:60]!r} is not declared in auth.roles")
    return User(item.text("name"), _secret(item, "secret"), roles)


def _secret(reader: Reader, field: str) -> SecretKey:
    item = reader.object(field)
    name, key = item.text("name"), item.text("key") or DEFAULT_KEY
    if reader.has(field) and not is_object_name(name):
        item.problem("name", f"must be the name of a Secret in this namespace, found {name[:60]!r}")
    if not _KEY.fullmatch(key):
        item.problem("key", f"must be a valid key of a Secret, found {key[:60]!r}")
    return SecretKey(name, key, item.path)


def _role(item: Reader) -> Role:
    permissions = [_permission(one) for one in item.items("permissions")]
    if len(permissions) > MAX_ENTRIES:
        item.problem(
            "permissions", f"lists {len(permissions)}; at most {MAX_ENTRIES} can be declared"
        )
    _check_keys(item, [one.key for one in permissions])
    return Role(item.text("name"), frozenset(permissions))


def _check_keys(item: Reader, keys: list[bytes]) -> None:
    """Refuses two permissions that begin at the same key. Of those etcd changes only the first in
    place; a change of another adds it once more, and a revocation then takes both
    (`RoleGrantPermission` and `RoleRevokePermission` in etcd's `auth/store.go`)."""
    for twice in [key for index, key in enumerate(keys) if key in keys[:index]][:1]:
        item.problem(
            "permissions",
            f"two begin at key {twice.decode(errors='backslashreplace')[:60]!r}; etcd cannot "
            "change one of these without a moment in which it grants neither. List the key once, "
            "or put one of them into another role, and give users both roles",
        )


def _permission(item: Reader) -> Permission:
    access = item.text("access")
    if access not in get_args(Access):
        item.problem(
            "access", f"must be one of {', '.join(get_args(Access))}, found {access[:60]!r}"
        )
    key, prefix = _bytes(item, "key"), _bytes(item, "prefix")
    if item.has("key") == item.has("prefix"):
        item.problem("", "set either key, with or without rangeEnd, or prefix")
    elif item.has("prefix"):
        if item.has("rangeEnd"):
            item.problem("rangeEnd", "cannot be combined with prefix, only with key")
        return Permission(access, prefix or _EVERY, prefix_end(prefix))  # type: ignore[arg-type]
    elif not key:
        item.problem("key", 'is empty; to grant all keys set prefix: ""')
    end = _bytes(item, "rangeEnd")
    if end and end <= key:
        item.problem("rangeEnd", "must come after key")
    return Permission(access, key, end)  # type: ignore[arg-type]


def _bytes(item: Reader, key: str) -> bytes:
    return item.text(key).encode(errors="replace")
