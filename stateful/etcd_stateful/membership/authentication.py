"""etcd's users and roles as `spec.auth` declares them, one call at a time.

    on     a root of before deleted -> names on record -> roles and their permissions
           -> users and their roles -> authentication on
           -> passwords that are others than in their Secrets
           -> what was made for the spec and is in it no more
    off    authentication off -> what was made for the spec

etcd takes the operator for the user that its certificate names: root. So it needs no password, and
goes on when root's is another, when authentication is turned on by hand, and on restored data.
What is there and was not made for the spec is left as it is, but for a root that may have no
password: it is made anew before authentication is turned on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from etcd_stateful.api.auth import ROOT, Auth, Permission, User
from etcd_stateful.certificates import operator_secret
from etcd_stateful.membership import changes, links
from etcd_stateful.membership.accounts import (
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
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import ChangeAuth, Hold, Step, Wait, WriteBootstrap
from etcd_stateful.records.accounts import NO_ACCOUNTS, Accounts

UNUSABLE: Final = "AuthSecretUnusable"
PASSWORDLESS: Final = "UserWithoutPassword"

_NOTHING: Final = Auth((), ())


def is_looked_at(seen: Observation) -> bool:
    """Whether anything depends on what users and roles etcd has."""
    return is_latched(seen) and (
        seen.cluster.auth is not None or recorded(seen).accounts != NO_ACCOUNTS
    )


def is_asked_about(seen: Observation) -> bool:
    """Whether etcd is to tell if authentication is on: also before TLS for clients goes, as etcd
    knows the operator by its certificate, and others may have turned it on."""
    return is_looked_at(seen) or (is_latched(seen) and links.lose_tls_of_clients(seen))


def names_asked_for(seen: Observation) -> tuple[frozenset[str], frozenset[str]]:
    """Users and roles of which it matters what they may do."""
    declared, made = seen.cluster.auth or _NOTHING, recorded(seen).accounts
    users = {*made.users, *(user.name for user in declared.users)}
    roles = {*made.roles, *(role.name for role in declared.roles)}
    return frozenset(users), frozenset(roles)


def is_arranged(auth: Auth, view: AuthView) -> bool:
    """Whether all that is declared is there, but for passwords."""
    return next(_differences(auth, view), None) is None


def denied(seen: Observation) -> Hold | None:
    """Asked before the quorum: members that answer nobody without a name look like none."""
    if not seen.denied or seen.etcd is not None:
        return None
    return Hold(
        "AuthenticationRefused",
        f"etcd asks for a user and does not let the operator look ({seen.denied}), so nothing is "
        f"known of its members and nothing is done. {_way_in(seen)}",
    )


def go_on(seen: Observation) -> Step | None:
    """The next step to what is declared; None also where that is impossible (`held` says why)."""
    auth = seen.cluster.auth
    if not is_looked_at(seen) or (auth is not None and _no_way_in(seen)):
        return None
    if seen.auth is None and _stays_on(seen):
        return None
    if seen.auth is None:
        return Wait("etcd to tell its users and roles", soon=True) if seen.etcd else None
    if auth is None:
        return _withdraw(seen, seen.auth)
    return (
        _root_anew(seen, seen.auth)
        or _record(seen, auth, seen.auth)
        or _arrange(seen, auth, seen.auth)
        or _turn_on(seen, auth, seen.auth)
        or _passwords(seen, auth, seen.auth)
        or _clear(seen, seen.auth)
    )


def held(seen: Observation) -> Hold | None:
    """Why it does not go on. Asked last: nothing else depends on it."""
    auth = seen.cluster.auth
    if auth is None:
        return _stays_on(seen)
    if not is_latched(seen):
        return None
    if why := _no_way_in(seen):
        return Hold("AuthenticationImpossible", f"spec.auth is not carried out: {why}")
    wrong = [
        f"{user.secret.field}, the password of user {user.name}: {problem}"
        for user in auth.users
        if (problem := seen.passwords.get(user.name))
    ]
    if not wrong:
        return _passwordless(seen, auth)
    return Hold(
        UNUSABLE,
        f"{'; '.join(wrong)}. Until that is mended, a user that is there keeps its password, and "
        "one that is not is not made",
    )


def _stays_on(seen: Observation) -> Hold | None:
    """Where the operator is not root any more, and only root may see to what it has made."""
    if not is_looked_at(seen) or seen.auth is not None or not (why := _other_name(seen)):
        return None
    return Hold(
        "AuthenticationImpossible",
        "spec.auth is gone, and etcd does not let the operator turn authentication off and delete "
        f"what was made for it: {why}. Or turn it off yourself (etcdctl --user root auth disable)",
    )


def _passwordless(seen: Observation, auth: Auth) -> Hold | None:
    """Users that nobody can give the password of their Secret. Such a one may be all that lets an
    application in, by a certificate of its name, so it is left to a human to delete it."""
    without = seen.auth.passwordless if seen.auth else frozenset()
    found = [user.name for user in auth.users if user.name in without]
    if not found:
        return None
    ways = [
        f"For {name}: etcdctl user delete {name}; it is made again with its password and roles."
        for name in found
        if name != ROOT
    ]
    if ROOT in found:
        ways.append(
            "Root cannot be deleted while authentication is on: set spec.paused, then, with the "
            f"certificate in Secret {operator_secret(seen.cluster)}, etcdctl auth disable and "
            "etcdctl user delete root, and take spec.paused out again. Until then the operator "
            "goes on, as root by its certificate, but a recovery's Job cannot log in."
        )
    return Hold(
        PASSWORDLESS,
        f"made without a password (--no-password): {', '.join(found)}. etcd never gives such a "
        f"user one; all else in spec.auth is carried out. {' '.join(ways)}",
    )


def _no_way_in(seen: Observation) -> str:
    """Why authentication would lock the operator out, in words; empty where it does not."""
    if not seen.cluster.links.client.is_encrypted:
        return (
            "its clients' link is in plaintext, where passwords could be read and etcd could not "
            "tell who the operator is. Authentication needs TLS for clients: set "
            "spec.TLS.client to Managed, or take spec.auth out"
        )
    return _other_name(seen)


def _other_name(seen: Observation) -> str:
    """What etcd takes the operator for, in words; empty for root."""
    name = operator_secret(seen.cluster)
    found = seen.certificates.secrets.get(name, {}).get("operator") if seen.certificates else None
    if found is None or found.problem or found.subject == ROOT:
        return ""
    return (
        f"the certificate in Secret {name} has the common name {found.subject[:60]!r}, and etcd "
        "would take the operator for the user of that name. It must be root"
    )


def _way_in(seen: Observation) -> str:
    """What helps now: as long as nothing is known of the members, no edit of the spec does."""
    off = "turn authentication off again (etcdctl --user root auth disable)"
    if not seen.cluster.links.client.is_encrypted:
        return (
            "The clients' link is in plaintext, where etcd cannot tell who the operator is: "
            f"{off}. Users need TLS for clients"
        )
    if why := _no_way_in(seen):
        return f"The operator has no way in: {why}. Or {off}"
    return (
        "The user root must have the role root, and the operator's certificate the common name "
        "root; its members must ask for certificates (client-cert-auth)"
    )


def _is_root_of_before(seen: Observation, view: AuthView) -> bool:
    """Whether somebody else has made root, and authentication is off: etcd does not say then if it
    has a password, and never gives one that has none."""
    return not view.enabled and ROOT in view.users and ROOT not in recorded(seen).accounts.users


def _root_anew(seen: Observation, view: AuthView) -> Step | None:
    """Nobody logs in while authentication is off, and root's password is to be its Secret's."""
    if not _is_root_of_before(seen, view) or not _has_password(seen, ROOT):
        return None
    words = "user root of before is made anew with the password of its Secret: it may have none"
    return _ask(seen, DeleteUser(ROOT), words)


def _record(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    """What is about to be made, written down first; and that authentication is on, once it is."""
    record = recorded(seen)
    made = record.accounts
    users = {user.name for user in auth.users} - view.users.keys()
    roles = {role.name for role in auth.roles} - view.roles.keys()
    wanted = Accounts(
        tuple(sorted({*made.users, *users})),
        tuple(sorted({*made.roles, *roles})),
        made.on or view.enabled,
    )
    if wanted == made:
        return None
    return WriteBootstrap.of(
        seen, replace(record, accounts=wanted), "spec.auth: on record is what is made for it"
    )


def _arrange(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    for change, words in _differences(auth, view):
        if isinstance(change, AddUser) and not _has_password(seen, change.user):
            continue
        if isinstance(change, GrantRole) and change.user not in view.users:
            continue
        return _ask(seen, change, words)
    return None


def _differences(auth: Auth, view: AuthView) -> Iterator[tuple[Change, str]]:
    """What is given comes before what is taken: nobody loses what only changes its form. In etcd a
    permission takes the place of another of the same keys."""
    for role in auth.roles:
        if role.name not in view.roles:
            yield AddRole(role.name), f"role {role.name} is declared"
            continue
        has = view.roles[role.name]
        for one in sorted(role.permissions - has, key=lambda one: (one.key, one.range_end)):
            yield GrantPermission(role.name, one), f"role {role.name} is given {_shown(one)}"
        for one in sorted(has - role.permissions, key=lambda one: (one.key, one.range_end)):
            words = f"from role {role.name} is taken {_shown(one)}, which is not declared"
            yield RevokePermission(role.name, one), words
    for user in auth.users:
        yield from _differences_of(user, view)


def _shown(permission: Permission) -> str:
    """For people: etcd's keys are bytes."""
    key, end = (
        one.decode(errors="backslashreplace") for one in (permission.key, permission.range_end)
    )
    return f"{permission.access} of {key[:60]!r}" + (f" to {end[:60]!r}" if end else "")


def _differences_of(user: User, view: AuthView) -> Iterator[tuple[Change, str]]:
    if user.name not in view.users:
        yield AddUser(user.name), f"user {user.name} is declared"
    has = view.users.get(user.name, frozenset())
    for role in sorted(user.roles - has):
        yield GrantRole(user.name, role), f"user {user.name} is given the role {role}"
    for role in sorted(has - user.roles):
        if user.name != ROOT:
            words = f"from user {user.name} is taken the role {role}, which is not declared"
            yield RevokeRole(user.name, role), words


def _turn_on(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    if view.enabled or not is_arranged(auth, view) or _is_root_of_before(seen, view):
        return None
    words = "all users and roles are there: authentication is turned on"
    if recorded(seen).accounts.on:
        words = "authentication was turned off, and spec.auth declares it: it is turned on again"
    return _ask(seen, Enable(), words)


def _passwords(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    for user in auth.users:
        if user.name in view.refused and _has_password(seen, user.name):
            where = f"Secret {user.secret.name}"
            return _ask(
                seen, SetPassword(user.name), f"user {user.name} gets the password in {where}"
            )
    return None


def _has_password(seen: Observation, user: str) -> bool:
    return seen.passwords.get(user) == ""


def _clear(seen: Observation, view: AuthView) -> Step | None:
    """Deletes what was made for the spec and is in it no more; then it goes off the record."""
    declared, record = seen.cluster.auth or _NOTHING, recorded(seen)
    made = record.accounts
    kept_users = {user.name for user in declared.users}
    kept_roles = {role.name for role in declared.roles}
    users = [one for one in made.users if one not in kept_users]
    roles = [one for one in made.roles if one not in kept_roles]
    for user in users:
        if user in view.users:
            return _ask(seen, DeleteUser(user), f"user {user} is not declared any more")
    for role in roles:
        if role in view.roles:
            return _ask(seen, DeleteRole(role), f"role {role} is not declared any more")
    if not users and not roles:
        return None
    left = Accounts(
        tuple(one for one in made.users if one not in users),
        tuple(one for one in made.roles if one not in roles),
        made.on,
    )
    return WriteBootstrap.of(seen, replace(record, accounts=left), "spec.auth: off the record")


def _withdraw(seen: Observation, view: AuthView) -> Step | None:
    if view.enabled:
        return _ask(seen, Disable(), "spec.auth is gone: authentication is turned off")
    if step := _clear(seen, view):
        return step
    record = replace(recorded(seen), accounts=NO_ACCOUNTS)
    return WriteBootstrap.of(seen, record, "spec.auth: off the record")


def _ask(seen: Observation, change: Change, words: str) -> ChangeAuth | Wait:
    asked = changes.leader(seen)
    return changes.NO_LEADER if asked is None else ChangeAuth(asked, change, words)
