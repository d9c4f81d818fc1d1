"""etcd's users and roles as `spec.auth` declares them, one call at a time.

    on     delete a root that others created -> record the names -> create roles and permissions
           -> create users and grant roles -> turn authentication on
           -> set passwords that differ from their Secrets
           -> delete what was created for the spec and is no longer in it
    off    turn authentication off -> delete what was created for the spec

etcd authenticates the operator as root by the common name of its certificate. So the operator needs
no password, and keeps access if root's password is changed, if somebody turns authentication on by
hand, and on restored data. Users and roles that were not created for the spec are left alone. The
only exception is a root that may have no password: it is recreated before authentication is turned
on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.api.auth import ROOT, Auth
from etcd_stateful.api.tls import Level
from etcd_stateful.certificates import operator_secret
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import ChangeAuth, Hold, Step, Wait, WriteBootstrap
from etcd_stateful.membership.tls import links
from etcd_stateful.membership.upkeep.accounts import (
    AuthView,
    Change,
    DeleteRole,
    DeleteUser,
    Disable,
    Enable,
    SetPassword,
    is_arranged,
    is_carried_out,
    possible_changes,
)
from etcd_stateful.observed.certificates import Certificate, usable
from etcd_stateful.records.accounts import NO_ACCOUNTS, Accounts

UNUSABLE: Final = "AuthSecretUnusable"
PASSWORDLESS: Final = "UserWithoutPassword"

_NOTHING: Final = Auth((), ())


def is_looked_at(seen: Observation) -> bool:
    """Whether etcd's users and roles have to be looked at."""
    return is_latched(seen) and (
        seen.cluster.auth is not None or recorded(seen).accounts != NO_ACCOUNTS
    )


def is_asked_about(seen: Observation) -> bool:
    """Whether etcd has to be asked if authentication is on. Also before TLS for clients is turned
    off: etcd identifies the operator by its certificate, and others may have turned it on."""
    return is_looked_at(seen) or (is_latched(seen) and links.turns_client_tls_off(seen))


def names_asked_for(seen: Observation) -> tuple[frozenset[str], frozenset[str]]:
    """The users and roles whose roles and permissions have to be queried."""
    declared, made = seen.cluster.auth or _NOTHING, recorded(seen).accounts
    users = {*made.users, *(user.name for user in declared.users)}
    roles = {*made.roles, *(role.name for role in declared.roles)}
    return frozenset(users), frozenset(roles)


def denied(seen: Observation) -> Hold | None:
    """Holds if etcd does not authenticate the operator. Asked before `quorum`: members that require
    authentication look like members that do not answer."""
    if not seen.denied or seen.etcd is not None:
        return None
    return Hold(
        "AuthenticationRefused",
        f"etcd requires authentication and does not accept the operator ({seen.denied}), so "
        f"nothing is known of its members and nothing is done. {_way_in(seen)}",
    )


def turn_on_again(seen: Observation) -> Step | None:
    """Turns authentication on again if somebody turned it off. Asked before the membership, whose
    changes may wait for long: until then everybody may read and write all keys."""
    auth, view = seen.cluster.auth, seen.auth
    if auth is None or view is None or not is_looked_at(seen) or _would_lock_out(seen):
        return None
    if not recorded(seen).accounts.on or _recreate_root(seen, view):
        return None
    step = _turn_on(seen, auth, view)
    return step if isinstance(step, ChangeAuth) else None


def advance(seen: Observation) -> Step | None:
    """The next step towards what is declared; None also if that is impossible (`why_not_applied`
    says why)."""
    auth = seen.cluster.auth
    if not is_looked_at(seen) or (auth is not None and _would_lock_out(seen)):
        return None
    if seen.auth is None and _stays_on(seen):
        return None
    if seen.auth is None:
        return Wait("etcd to list its users and roles", soon=True) if seen.etcd else None
    if auth is None:
        return _turn_off(seen, seen.auth)
    return (
        _recreate_root(seen, seen.auth)
        or _record(seen, auth, seen.auth)
        or _apply(seen, auth, seen.auth)
        or _turn_on(seen, auth, seen.auth)
        or _passwords(seen, auth, seen.auth)
        or _delete_undeclared(seen, seen.auth)
    )


def next_change(seen: Observation) -> Step | None:
    """The next write of `advance`, while that has not had its turn."""
    step = advance(seen)
    return None if isinstance(step, Wait) else step


def why_not_applied(seen: Observation) -> Hold | None:
    """Says why `spec.auth` is not carried out. Asked last: nothing waits for it."""
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
    open_to_all = (
        ". Also, authentication is off until then: every client with a certificate may read and "
        "write all keys"
    )
    return Hold(
        UNUSABLE,
        f"{'; '.join(wrong)}. Until that is fixed, an existing user keeps its password, and a new "
        f"user is not created{open_to_all if seen.auth and not seen.auth.enabled else ''}",
    )


def _stays_on(seen: Observation) -> Hold | None:
    """Holds if `spec.auth` was removed, but the operator is no longer root, as it would have to be
    to delete what it created."""
    if not is_looked_at(seen) or seen.auth is not None or not (why := _other_name(seen)):
        return None
    return Hold(
        "AuthenticationImpossible",
        "spec.auth was removed, but etcd does not let the operator turn authentication off and "
        f"delete what was created for it: {why}. Or turn it off yourself (etcdctl --user root auth "
        "disable)",
    )


def _passwordless(seen: Observation, auth: Auth) -> Hold | None:
    """Holds for users that were created without a password, which etcd never lets them have. An
    application may log in as such a user by certificate, so it is for the user to delete it."""
    without = seen.auth.passwordless if seen.auth else frozenset()
    found = [user.name for user in auth.users if user.name in without]
    if not found:
        return None
    of_root = f"with the certificate in Secret {operator_secret(seen.cluster)}, etcdctl"
    as_root = of_root if ROOT in found else "etcdctl --user root"
    ways = [
        f"For {name}: {as_root} user delete {name}; the operator recreates it with its password "
        "and roles."
        for name in found
        if name != ROOT
    ]
    if ROOT in found:
        ways.append(
            "Root cannot be deleted while authentication is on: set spec.paused, then, "
            f"{of_root} auth disable and "
            "etcdctl user delete root, and remove spec.paused again. Until then the operator "
            "still works, as root by its certificate, but a recovery's Job cannot log in."
        )
    return Hold(
        PASSWORDLESS,
        f"created without a password (--no-password): {', '.join(found)}. etcd cannot set one for "
        f"such a user; all else in spec.auth is carried out. {' '.join(ways)}",
    )


def _no_way_in(seen: Observation) -> str:
    """Why authentication would lock the operator out; empty if it would not."""
    if not seen.cluster.links.client.is_encrypted:
        return (
            "clients connect in plaintext, where passwords could be read and etcd could not "
            "identify the operator. Authentication needs TLS for clients: set "
            "spec.TLS.client to Managed, or remove spec.auth"
        )
    return _other_name(seen)


def _would_lock_out(seen: Observation) -> bool:
    """The same; also where the operator may connect in plaintext: until each pod has restarted with
    TLS, which links on record have before, and without a usable certificate where members serve
    both."""
    lowest = links.lowest_levels(seen).client
    bare = lowest is Level.BETWEEN and _shown(seen) is None
    return bool(_no_way_in(seen)) or lowest is Level.PLAINTEXT or bare


def _shown(seen: Observation) -> Certificate | None:
    """The operator's certificate, if it is usable."""
    return usable(seen.certificate(operator_secret(seen.cluster), "operator"))


def _other_name(seen: Observation) -> str:
    """Why etcd would not take the operator for root; empty if it would."""
    name, found = operator_secret(seen.cluster), _shown(seen)
    if found is None or found.subject == ROOT:
        return ""
    return (
        f"the certificate in Secret {name} has the common name {found.subject[:60]!r}, so etcd "
        "would take the operator for the user of that name. It must be root"
    )


def _way_in(seen: Observation) -> str:
    """What the user can do. Editing the spec does not help as long as nothing is known of the
    members."""
    off = "turn authentication off again (etcdctl --user root auth disable)"
    if not seen.cluster.links.client.is_encrypted:
        return (
            "Clients connect in plaintext, where etcd cannot identify the operator: "
            f"{off}. Authentication needs TLS for clients"
        )
    if why := _no_way_in(seen):
        return f"The operator cannot log in: {why}. Or {off}"
    return (
        "The user root must have the role root, and the operator's certificate the common name "
        "root; its members must ask for certificates (client-cert-auth)"
    )


def _is_unknown_root(seen: Observation, view: AuthView) -> bool:
    """Whether somebody else created root, and authentication is off. Then etcd does not say whether
    root has a password, and if it has none, it can never get one."""
    return not view.enabled and ROOT in view.users and ROOT not in recorded(seen).accounts.users


def _recreate_root(seen: Observation, view: AuthView) -> Step | None:
    """Deletes a root that may have no password, so that it is created with its Secret's password.
    Nobody can be logged in as root, because authentication is off."""
    if not _is_unknown_root(seen, view) or ROOT not in _usable(seen):
        return None
    words = "the existing user root is recreated with its Secret's password: it may have none"
    return _ask(seen, DeleteUser(ROOT), words)


def _record(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    """Records the names to create, before they are created; and that authentication is on."""
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
        seen, replace(record, accounts=wanted), "spec.auth: what is created for it is recorded"
    )


def _apply(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    found = next(possible_changes(auth, view, _usable(seen)), None)
    return _ask(seen, *found) if found else None


def _turn_on(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    again = recorded(seen).accounts.on
    waits = _is_unknown_root(seen, view) and not again
    if view.enabled or waits or not _may_be_on(seen, auth, view):
        return None
    words = "all users and roles exist: authentication is turned on"
    if again:
        words = "authentication was turned off, but spec.auth declares it: it is turned on again"
    return _ask(seen, Enable(), words)


def _may_be_on(seen: Observation, auth: Auth, view: AuthView) -> bool:
    """Whether everything declared exists. Once authentication has been on, it does not wait for a
    user that cannot be created: meanwhile everybody could read and write all keys."""
    if recorded(seen).accounts.on and ROOT in view.users:
        return is_carried_out(auth, view, _usable(seen))
    return is_arranged(auth, view)


def _passwords(seen: Observation, auth: Auth, view: AuthView) -> Step | None:
    for user in auth.users:
        if user.name in view.refused and user.name in _usable(seen):
            where = f"Secret {user.secret.name}"
            return _ask(
                seen, SetPassword(user.name), f"user {user.name} gets the password in {where}"
            )
    return None


def _usable(seen: Observation) -> frozenset[str]:
    """Users whose password can be used."""
    return frozenset(user for user, problem in seen.passwords.items() if not problem)


def _delete_undeclared(seen: Observation, view: AuthView) -> Step | None:
    """Deletes what was created for the spec and is no longer in it, then removes its names from the
    record."""
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
    words = "spec.auth: deleted users and roles are removed from the record"
    return WriteBootstrap.of(seen, replace(record, accounts=left), words)


def _turn_off(seen: Observation, view: AuthView) -> Step | None:
    if view.enabled:
        return _ask(seen, Disable(), "spec.auth was removed: authentication is turned off")
    if step := _delete_undeclared(seen, view):
        return step
    record = replace(recorded(seen), accounts=NO_ACCOUNTS)
    return WriteBootstrap.of(seen, record, "spec.auth: it is removed from the record")


def _ask(seen: Observation, change: Change, words: str) -> Step:
    return changes.request(seen, lambda asked: ChangeAuth(asked, change, words))
