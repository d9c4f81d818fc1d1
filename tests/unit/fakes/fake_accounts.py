"""A fake of etcd's users and roles, with the refusals of real etcd (seen on 3.5 to 3.7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from etcd_operator.etcd.accounts import AuthStatus, Tried
from etcd_operator.etcd.api import Denied, Endpoint, NoAnswer, Refused
from etcd_stateful.api.auth import ROOT, Permission
from etcd_stateful.membership.upkeep.accounts import (
    AddRole,
    AddUser,
    AuthView,
    Change,
    DeleteRole,
    DeleteUser,
    Disable,
    Enable,
    GrantPermission,
    GrantRole,
    RevokePermission,
    RevokeRole,
    SetPassword,
)


@dataclass
class FakeAccounts:
    """`accounts.Accounts`, and the same for those who need no network."""

    enabled: bool = False
    revision: int = 1
    passwords: dict[str, str] = field(default_factory=dict)
    passwordless: set[str] = field(default_factory=set)
    """Users created with `--no-password`: etcd accepts a new password for them, and still has
    none."""

    granted: dict[str, set[str]] = field(default_factory=dict)
    permissions: dict[str, set[Permission]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    operator: str = ROOT
    """The user that etcd takes the operator for, by its certificate."""

    silent: bool = False

    def do(self, change: Change, password: str = "") -> None:  # noqa: C901 - one per change
        """By somebody who may."""
        self.revision += 1
        match change:
            case AddUser(user):
                _refuse(user in self.passwords, "user name already exists")
                self.passwords[user], self.granted[user] = password, set()
            case SetPassword(user):
                _refuse(user not in self.passwords, "user name not found")
                self.passwords[user] = password
            case DeleteUser(user):
                _refuse(self.enabled and user == ROOT, "invalid auth management")
                del self.passwords[user], self.granted[user]
                self.passwordless.discard(user)
            case GrantRole(user, role):
                _refuse(role != ROOT and role not in self.permissions, "role name not found")
                self.granted[user].add(role)
            case RevokeRole(user, role):
                self.granted[user].remove(role)
            case AddRole(role):
                _refuse(role in self.permissions, "role name already exists")
                self.permissions[role] = set()
            case DeleteRole(role):
                del self.permissions[role]
                for roles in self.granted.values():
                    roles.discard(role)
            case GrantPermission(role, permission):
                self._revoke(role, permission)
                self.permissions[role].add(permission)
            case RevokePermission(role, permission):
                self._revoke(role, permission)
            case Enable():
                _refuse(ROOT not in self.granted.get(ROOT, ()), "root user does not have root role")
                self.enabled = True
            case Disable():
                self.enabled = False

    def _revoke(self, role: str, gone: Permission) -> None:
        kept = {
            one
            for one in self.permissions[role]
            if (one.key, one.range_end) != (gone.key, gone.range_end)
        }
        self.permissions[role] = kept

    def view(self, wanted: dict[str, str] | None = None) -> AuthView:
        """`wanted`: the passwords of the Secrets, where they are tried."""
        tried = {user: self._try(user, text) for user, text in (wanted or {}).items()}
        return AuthView(
            self.enabled,
            {user: frozenset(roles) for user, roles in self.granted.items()},
            {role: frozenset(kept) for role, kept in self.permissions.items()},
            frozenset(user for user, said in tried.items() if said == "wrong"),
            frozenset(user for user, said in tried.items() if said == "has none"),
        )

    def _try(self, user: str, password: str) -> Tried:
        if user in self.passwordless:
            return "has none"
        return "right" if self.passwords.get(user) == password else "wrong"

    async def status(self, _at: Endpoint) -> AuthStatus:
        self._asked("status")
        return AuthStatus(self.enabled, self.revision)

    async def users(self, _at: Endpoint) -> frozenset[str]:
        self._asked("users")
        return frozenset(self.passwords)

    async def roles(self, _at: Endpoint) -> frozenset[str]:
        self._asked("roles")
        return frozenset(self.permissions)

    async def roles_of(self, _at: Endpoint, user: str) -> frozenset[str]:
        self._asked(f"user {user}")
        return frozenset(self.granted[user])

    async def permissions_of(self, _at: Endpoint, role: str) -> frozenset[Permission]:
        self._asked(f"role {role}")
        return frozenset(self.permissions[role])

    async def try_password(self, _at: Endpoint, user: str, password: str) -> Tried:
        self._asked(f"try {user}")
        _refuse(not self.enabled, "authentication is not enabled")
        return self._try(user, password)

    async def change(self, _at: Endpoint, change: Change, password: str) -> None:
        self._asked(f"{type(change).__name__} {getattr(change, 'user', '')}".rstrip())
        self.do(change, password)

    def _asked(self, what: str) -> None:
        self.calls.append(what)
        if self.silent:
            raise NoAnswer("nobody there")
        if self.enabled and ROOT not in self.granted.get(self.operator, ()):
            raise Denied("permission denied")


def _refuse(wrong: bool, words: str) -> None:
    if wrong:
        raise Refused(words)
