"""Reads etcd's users and roles, and changes them.

For etcd the operator is the user that its certificate names, so it needs no token. It calls
`Authenticate` only to learn whether a password is the one that etcd knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from aetcd import rpc

from etcd_operator.etcd import changes
from etcd_operator.etcd.api import Endpoint, Identity, Refused
from etcd_operator.etcd.client import CHANGE_SECONDS, Ask, GrpcEtcd, call
from etcd_operator.step_result import Outdated, StepResult
from etcd_stateful.api.auth import Access, Permission
from etcd_stateful.membership.steps import ChangeAuth
from etcd_stateful.membership.upkeep.accounts import (
    AddRole,
    AddUser,
    Change,
    DeleteRole,
    DeleteUser,
    Disable,
    Enable,
    GrantPermission,
    GrantRole,
    OfRole,
    OfUser,
    RevokePermission,
    RevokeRole,
    SetPassword,
)

PASSWORD_SECONDS: Final = 10.0
"""For one password, which etcd hashes. `bcrypt-cost` may make that take seconds."""

_HASHING: Final = frozenset({"Authenticate", "UserAdd", "UserChangePassword"})

_WRONG: Final = "invalid user ID or password"
_HAS_NONE: Final = "no password user"

_ACCESS: Final[Mapping[int, Access]] = {0: "Read", 1: "Write", 2: "ReadWrite"}
_TYPES: Final = {access: number for number, access in _ACCESS.items()}

Tried = Literal["right", "wrong", "has none"]
"""What etcd says of a password. If a user was created without one, that is always "has none"."""


@dataclass(frozen=True, slots=True)
class AuthStatus:
    """Whether authentication is on, and as of which revision."""

    enabled: bool
    revision: int
    """It changes with every change of users, roles and passwords."""


class Accounts(Protocol):
    """Every method raises NoAnswer or Refused."""

    async def status(self, at: Endpoint) -> AuthStatus: ...

    async def users(self, at: Endpoint) -> frozenset[str]: ...

    async def roles(self, at: Endpoint) -> frozenset[str]: ...

    async def roles_of(self, at: Endpoint, user: str) -> frozenset[str]: ...

    async def permissions_of(self, at: Endpoint, role: str) -> frozenset[Permission]: ...

    async def try_password(self, at: Endpoint, user: str, password: str) -> Tried: ...

    async def change(self, at: Endpoint, change: Change, password: str) -> None: ...


class GrpcAccounts:
    """`Accounts` over aetcd's gRPC stubs."""

    def __init__(self, etcd: GrpcEtcd) -> None:
        self._etcd = etcd

    async def status(self, at: Endpoint) -> AuthStatus:
        reply = await self._read(at, "AuthStatus", rpc.AuthStatusRequest())
        return AuthStatus(reply.enabled, reply.authRevision)

    async def users(self, at: Endpoint) -> frozenset[str]:
        return frozenset((await self._read(at, "UserList", rpc.AuthUserListRequest())).users)

    async def roles(self, at: Endpoint) -> frozenset[str]:
        return frozenset((await self._read(at, "RoleList", rpc.AuthRoleListRequest())).roles)

    async def roles_of(self, at: Endpoint, user: str) -> frozenset[str]:
        reply = await self._read(at, "UserGet", rpc.AuthUserGetRequest(name=user))
        return frozenset(reply.roles)

    async def permissions_of(self, at: Endpoint, role: str) -> frozenset[Permission]:
        reply = await self._read(at, "RoleGet", rpc.AuthRoleGetRequest(role=role))
        # etcd also stores types that it does not know, which grant nothing.
        return frozenset(
            Permission(_ACCESS[one.permType], one.key, one.range_end)
            for one in reply.perm
            if one.permType in _ACCESS
        )

    async def try_password(self, at: Endpoint, user: str, password: str) -> Tried:
        request = rpc.AuthenticateRequest(name=user, password=password)
        try:
            await self._read(at, "Authenticate", request)
        except Refused as error:
            if _WRONG in str(error):
                return "wrong"
            if _HAS_NONE in str(error):
                return "has none"
            raise
        return "right"

    async def change(self, at: Endpoint, change: Change, password: str) -> None:
        await self._etcd.change(at, _asking(*_request(change, password)))

    async def _read(self, at: Endpoint, method: str, request: Any) -> Any:
        return await self._etcd.read(at, _asking(method, request))


def _asking(method: str, request: Any) -> Ask:
    seconds = PASSWORD_SECONDS if method in _HASHING else CHANGE_SECONDS
    return call(rpc.AuthStub, method, request, seconds)


async def change(
    accounts: Accounts,
    step: ChangeAuth,
    identity: Identity | None,
    password_of: Callable[[str], Awaitable[str | None]],
) -> StepResult:
    """Carries out one change of users and roles.

    Args:
        password_of: reads a user's password from its Secret, as it is now; None if it has changed
            since it was looked at.
    """
    password = ""
    if isinstance(step.change, AddUser | SetPassword):
        found = await password_of(step.change.user)
        if found is None:
            return Outdated(f"the password of user {step.change.user} has changed in between")
        password = found
    at = changes.endpoint(step.leader, identity)
    return await changes.outcome(accounts.change(at, step.change, password), step.reason)


def _request(change: Change, password: str) -> tuple[str, Any]:
    match change:
        case Enable():
            return "AuthEnable", rpc.AuthEnableRequest()
        case Disable():
            return "AuthDisable", rpc.AuthDisableRequest()
        case AddUser() | SetPassword() | DeleteUser() | GrantRole() | RevokeRole():
            return _request_of_user(change, password)
        case _:
            return _request_of_role(change)


def _request_of_user(change: OfUser, password: str) -> tuple[str, Any]:
    user = change.user
    match change:
        case AddUser():
            return "UserAdd", rpc.AuthUserAddRequest(name=user, password=password)
        case SetPassword():
            request = rpc.AuthUserChangePasswordRequest(name=user, password=password)
            return "UserChangePassword", request
        case DeleteUser():
            return "UserDelete", rpc.AuthUserDeleteRequest(name=user)
        case GrantRole(role=role):
            return "UserGrantRole", rpc.AuthUserGrantRoleRequest(user=user, role=role)
        case RevokeRole(role=role):
            return "UserRevokeRole", rpc.AuthUserRevokeRoleRequest(name=user, role=role)


def _request_of_role(change: OfRole) -> tuple[str, Any]:
    role = change.role
    match change:
        case AddRole():
            return "RoleAdd", rpc.AuthRoleAddRequest(name=role)
        case DeleteRole():
            return "RoleDelete", rpc.AuthRoleDeleteRequest(role=role)
        case GrantPermission(permission=one):
            permission = rpc.Permission(
                permType=_TYPES[one.access], key=one.key, range_end=one.range_end
            )
            granted = rpc.AuthRoleGrantPermissionRequest(name=role, perm=permission)
            return "RoleGrantPermission", granted
        case RevokePermission(permission=one):
            revoked = rpc.AuthRoleRevokePermissionRequest(
                role=role, key=one.key, range_end=one.range_end
            )
            return "RoleRevokePermission", revoked
