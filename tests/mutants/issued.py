"""Bugs with a cert-manager issuer: certificates that are used too early, or unchecked."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_ISSUED = "membership/tls/issued.py"
_LOOK = "operator/etcd_operator/credentials/issued.py"
_TAKING = "operator/etcd_operator/credentials/taking.py"

MUTANTS: Final = [
    Mutant(
        _ISSUED,
        "    return good if known and due else used\n",
        "    return good\n",
        "members show certificates of an issuer's new authority that nobody trusts yet",
    ),
    Mutant(
        _ISSUED,
        "good.authority in link.trusts and _has_followed(seen, link) and is_at_rest(seen)\n",
        "good.authority in link.trusts\n",
        "an issuer's new authority is used while a member has not restarted with it",
    ),
    Mutant(
        _ISSUED,
        "    if wanted < now and settled and is_at_rest(seen):\n",
        "    if wanted < now:\n",
        "an issuer's authority of before goes while kubelets still bring what it has signed",
    ),
    Mutant(
        _ISSUED,
        "        return usable(self.issued.found)\n",
        "        return self.issued.found\n",
        "a certificate that cannot be used gets from cert-manager to the members",
    ),
    Mutant(
        _ISSUED,
        "    if not is_latched(seen) and (step := _awaited(seen, links)):\n        return step\n",
        "",
        "nobody is told what cert-manager is waited for",
    ),
    Mutant(
        _LOOK,
        "        if self._is_current(key, marks, now - at):\n",
        "        if False:\n",
        "each pass lists the Certificates, also of a cluster at rest",
    ),
    Mutant(
        _LOOK,
        "            return self._marks.get(key) == marks\n",
        "            return key in self._marks\n",
        "a Certificate that somebody deletes is not missed",
    ),
    Mutant(
        _LOOK,
        "_is_of(name, raw)\n",
        "True\n",
        "cert-manager is made to write over somebody's Secret",
    ),
    Mutant(
        _TAKING,
        "    if files is None or checking.examine(need, files).problem:\n",
        "    if files is None:\n",
        "what was altered after it was looked at is mounted",
    ),
]
