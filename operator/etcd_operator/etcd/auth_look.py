"""Looks at etcd's users and roles, with one call while their revision says that they are unchanged.

Passwords are tried only once all else is as declared, as far as it can be, and again only if one of
them or the revision has changed: a try costs etcd a tenth of a second, by design, and seconds if it
has little CPU. Those for which a look has no time are left to the next one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from etcd_operator.etcd.accounts import Accounts, Tried
from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_operator.tasks import together
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.membership.upkeep.accounts import AuthView, is_carried_out

log = logging.getLogger(__name__)

CALLS: Final = 1
"""How many calls to etcd a look needs if nothing has changed."""

LONGEST_SECONDS: Final = 40.0
"""For one look: a pass may look twice, and has four minutes with all else that it does."""

TRY_SECONDS: Final = 20.0
"""After this time, a look begins to try no other password."""


@dataclass(frozen=True, slots=True)
class AuthLook:
    """What was found, and for what: of another etcd cluster, or with another revision, spec or
    password, it is void."""

    view: AuthView
    of: tuple[object, ...]
    untried: tuple[str, ...] = ()
    """Users whose password is yet to be tried."""


async def look(
    accounts: Accounts,
    at: Endpoint,
    base: Observation,
    passwords: Mapping[str, str],
    last: AuthLook | None,
) -> AuthLook | None:
    """Looks at users, roles and passwords; None if etcd does not answer in time or refuses."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await _look(accounts, at, base, passwords, last)
    except (NoAnswer, Refused, TimeoutError) as error:
        log.debug("etcd's users and roles: %s", str(error) or "too slow")
        return None


async def _look(
    accounts: Accounts,
    at: Endpoint,
    base: Observation,
    passwords: Mapping[str, str],
    last: AuthLook | None,
) -> AuthLook:
    status = await accounts.status(at)
    names = authentication.names_asked_for(base)
    of = (at.cluster_id, status, base.cluster.auth, names, _digests(passwords))
    if last is not None and last.of == of:
        return await _with_tries(accounts, at, last, passwords)
    view = await _view(accounts, at, status.enabled, names)
    auth, users = base.cluster.auth, tuple[str, ...]()
    if auth is not None and status.enabled and is_carried_out(auth, view, passwords):
        users = tuple(user.name for user in auth.users if user.name in passwords)
    return await _with_tries(accounts, at, AuthLook(view, of, users), passwords)


async def _with_tries(
    accounts: Accounts, at: Endpoint, look: AuthLook, passwords: Mapping[str, str]
) -> AuthLook:
    """The look, with as many more passwords tried as there is time for."""
    clock = asyncio.get_running_loop().time
    ends, said = clock() + TRY_SECONDS, dict[str, Tried]()
    for user in look.untried:
        try:
            said[user] = await accounts.try_password(at, user, passwords[user])
        except NoAnswer:
            break
        if clock() >= ends:
            break
    refused = look.view.refused | {user for user in said if said[user] == "wrong"}
    without = look.view.passwordless | {user for user in said if said[user] == "has none"}
    view = replace(look.view, refused=refused, passwordless=without)
    return replace(look, view=view, untried=look.untried[len(said) :])


async def _view(
    accounts: Accounts,
    at: Endpoint,
    enabled: bool,
    names: tuple[frozenset[str], frozenset[str]],
) -> AuthView:
    users, roles = await together(accounts.users(at), accounts.roles(at))
    asked_users, asked_roles = sorted(users & names[0]), sorted(roles & names[1])
    of_users = await together(*(accounts.roles_of(at, one) for one in asked_users))
    of_roles = await together(*(accounts.permissions_of(at, one) for one in asked_roles))
    return AuthView(
        enabled,
        dict.fromkeys(users, frozenset()) | dict(zip(asked_users, of_users, strict=True)),
        dict.fromkeys(roles, frozenset()) | dict(zip(asked_roles, of_roles, strict=True)),
    )


def _digests(passwords: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Digests instead of passwords, so that no password is kept until the next look."""
    return frozenset(
        (user, hashlib.sha256(password.encode()).hexdigest())
        for user, password in passwords.items()
    )
