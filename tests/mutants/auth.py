"""Bugs of users and roles: a cluster that is open, an operator that is locked out."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "membership/planner.py",
        "authentication.next_change(seen) or step",
        "step",
        "a password that has leaked stays valid while a node is away",
    ),
    Mutant(
        "membership/planner.py",
        "    unsure = bootstrap.secret(seen) or bootstrap.two_clusters(seen)\n",
        "    unsure = bootstrap.secret(seen)\n",
        "users are changed in either of two clusters",
    ),
    Mutant(
        "membership/planner.py",
        "    unsure = bootstrap.secret(seen) or bootstrap.two_clusters(seen)\n",
        "    unsure = bootstrap.two_clusters(seen)\n",
        "users are changed by the record of another cluster",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    return is_arranged(auth, view)\n",
        "    return True\n",
        "authentication is on before its users are there",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    if recorded(seen).accounts.on and ROOT in view.users:\n",
        "    if False:\n",
        "authentication stays off for one user whose Secret is missing",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        '    if found is None or found.subject == ROOT:\n        return ""\n',
        '    return ""\n',
        "authentication locks the operator out",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "lowest is Level.PLAINTEXT or bare\n",
        "lowest is Level.PLAINTEXT\n",
        "passwords are sent in plaintext",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "Level.BETWEEN and _shown(seen) is None",
        "Level.BETWEEN and _shown(seen) is not "
        'seen.certificate(operator_secret(seen.cluster), "operator")',
        "passwords are sent in plaintext while the operator's Secret is missing",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    users = [one for one in made.users if one not in kept_users]\n",
        "    users = [one for one in view.users if one not in kept_users]\n",
        "users that were made by hand are deleted",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    users = {user.name for user in auth.users} - view.users.keys()\n",
        "    users = {user.name for user in auth.users}\n",
        "a user made by hand is deleted because it was declared for a while",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    return not view.enabled and ROOT in view.users and ROOT not in",
        "    return False and ROOT not in",
        "a root without a password is found once it cannot be deleted any more",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    if not _is_unknown_root(seen, view) or ROOT not in _usable(seen):\n",
        "    if not _is_unknown_root(seen, view):\n",
        "a root is deleted that cannot be made again",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "        or _record(seen, auth, seen.auth)\n        or _apply(seen, auth, seen.auth)\n",
        "        or _apply(seen, auth, seen.auth)\n        or _record(seen, auth, seen.auth)\n",
        "accounts are made that nobody will know are ours",
    ),
    Mutant(
        "membership/irreversible.py",
        "    steps.ChangeAuth,\n",
        "",
        "everybody is let in on the word of an old spec",
    ),
    Mutant(
        "membership/planner.py",
        "    authentication.denied,\n    _no_quorum,\n",
        "    _no_quorum,\n",
        "members that deny the operator look like a lost quorum",
    ),
    Mutant(
        "certificates.py",
        "        subject=ROOT,\n",
        '        subject="etcd-operator",\n',
        "the operator is nobody to etcd",
    ),
    Mutant(
        "membership/tls/certificates.py",
        '    if need.role == "operator" and found.subject != need.subject:\n',
        "    if False:\n",
        "the operator of a cluster from before is nobody to etcd",
    ),
    Mutant(
        "operator/etcd_operator/etcd/auth_look.py",
        "    if last is not None and last.of == of:\n",
        "    if False:\n",
        "each round asks for all users and tries all passwords",
    ),
    Mutant(
        "operator/etcd_operator/etcd/auth_look.py",
        "    of = (at.cluster_id, status, base.cluster.auth, names, _digests(passwords))\n",
        "    of = (at.cluster_id, status, base.cluster.auth, names)\n",
        "a new password in a Secret is never set",
    ),
    Mutant(
        "operator/etcd_operator/credentials/passwords.py",
        '    if password != password.strip("\\r\\n"):\n',
        "    if False:\n",
        "a line break becomes part of a password",
    ),
    Mutant(
        "operator/etcd_operator/credentials/provided.py",
        "last.mark == mark if mark",
        "True if mark",
        "a Secret of a user is read once and never again",
    ),
    Mutant(
        "operator/etcd_operator/kube/name_changes.py",
        "            place.hears = False\n",
        "",
        "what changes while nobody listens is never heard of",
    ),
    Mutant(
        "operator/etcd_operator/kube/name_changes.py",
        "        place.marks.pop(name, None)\n",
        "",
        "a Secret that changes has the mark of before, so it is not read",
    ),
    Mutant(
        "operator/etcd_operator/kube/tables.py",
        '"includeObject": "None"',
        '"includeObject": "Metadata"',
        "annotations of all Secrets of a namespace come into the process",
    ),
]
