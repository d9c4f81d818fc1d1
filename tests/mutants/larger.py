"""Faults in larger volumes."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_EXPANSION = "operator/etcd_operator/expansion.py"
_LARGER = "membership/larger.py"

MUTANTS: Final = [
    Mutant(
        _LARGER,
        "    if any(_is_growing(seen, claim) for claim in small):\n        return None\n",
        "",
        "a driver that fails does so on all volumes at once",
    ),
    Mutant(
        _LARGER,
        "        if not claim.fixed:\n",
        "        if True:\n",
        "a claim that cannot grow is asked to for ever",
    ),
    Mutant(
        _LARGER,
        "if whose == seen.cluster.uid and claim.phase",
        "if claim.phase",
        "the claim of another cluster is altered (I10)",
    ),
    Mutant(
        _LARGER,
        " and not claim.deleting",
        "",
        "a claim that goes is asked to grow first",
    ),
    Mutant(
        _LARGER,
        " or awaited.every_pod_serves(seen):",
        ":",
        "the StatefulSet goes while pods are to be made again",
    ),
    Mutant(
        _LARGER,
        "    if not is_less(made, declared) or ",
        "    if made == declared or ",
        "one size in other words makes the StatefulSet again, for ever",
    ),
    Mutant(
        "membership/planner.py",
        "    larger.next_claim,\n",
        "",
        "claims stay as they are",
    ),
    Mutant(
        "membership/planner.py",
        "    _Starts(larger.template),\n",
        "",
        "later members get claims of the old size",
    ),
    Mutant(
        "operator/etcd_operator/apply.py",
        '"Orphan" if isinstance(step, DeleteStatefulSet) else ',
        "",
        "with its StatefulSet every pod goes",
    ),
    Mutant(
        _EXPANSION,
        ", dry_run=True",
        "",
        "claims grow all at once, by being looked at",
    ),
    Mutant(
        _EXPANSION,
        "        if asked not in self._answers:\n",
        "        if True:\n",
        "a class that forbids it is asked at every look",
    ),
]
