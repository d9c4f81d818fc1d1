"""Faults in larger volumes."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_EXPANSION = "operator/etcd_operator/cluster/expansion.py"
_LARGER = "membership/members/claim_expansion.py"

MUTANTS: Final = [
    Mutant(
        _LARGER,
        "        if not (claim.fixed or _is_put_off(seen, claim, declared)):",
        "        if not _is_put_off(seen, claim, declared):",
        "a claim that cannot grow is asked to for ever",
    ),
    Mutant(
        _LARGER,
        "        if not (claim.fixed or _is_put_off(seen, claim, less)):",
        "        if not _is_put_off(seen, claim, less):",
        "a claim that may not ask for less is asked to for ever",
    ),
    Mutant(
        _LARGER,
        "off is not None and off.is_of(of_size(claim.uid, storage))",
        "False",
        "a webhook that refuses a larger claim stops everything else",
    ),
    Mutant(
        _LARGER,
        "if whose == seen.cluster.uid and bound",
        "if bound",
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
        "bound and used:",
        "bound:",
        "a claim that no pod uses is waited for",
    ),
    Mutant(
        _LARGER,
        "is_less(claim.capacity, declared))",
        "claim.capacity != declared)",
        "one size in other words is asked for, for ever",
    ),
    Mutant(
        _LARGER,
        "\n        or (claim.fixed and claim in unrequested(seen))\n",
        "\n",
        "a member never joins as its volume cannot grow",
    ),
    Mutant(
        _LARGER,
        "capacity < ROOM * largest",
        "False",
        "a member joins on a volume that the data does not fit on",
    ),
    Mutant(
        _LARGER,
        "return min(known)[1]",
        "return max(known)[1]",
        "a size that some volumes do not have may be put back",
    ),
    Mutant(
        "membership/members/grow.py",
        "return wait or small or ",
        "return wait or ",
        "the one member with the data goes, as the volume of the ordinal below it has yet to grow",
    ),
    Mutant(
        "membership/planner.py",
        "    claim_expansion.next_claim,\n",
        "",
        "claims stay as they are",
    ),
    Mutant(
        "membership/planner.py",
        "    claim_expansion.not_expanded,\n",
        "",
        "a volume that has not grown is told as declared",
    ),
    Mutant(
        _LARGER,
        "if same_quantity(claim.requested, claim.raised))",
        "if claim.requested)",
        "a claim that a person has let grow is told to stay small",
    ),
    Mutant(
        _LARGER,
        "return claim.capacity if not is_less(claim.capacity, declared) else declared",
        "return declared",
        "a volume that has grown is to get smaller again",
    ),
    Mutant(
        _EXPANSION,
        "lowered_size(base, claim), LESS_SECONDS)",
        "lowered_size(base, claim), ASK_SECONDS)",
        "a settled cluster asks each minute whether its claims may ask for less (I12)",
    ),
    Mutant(
        _EXPANSION,
        ", dry_run=True",
        "",
        "claims grow by being looked at",
    ),
    Mutant(
        "operator/etcd_operator/kube/client.py",
        'query | ({"dryRun": "All"} if dry_run else {})',
        "query",
        "claims grow by being looked at, as the API server is not told of the dry run",
    ),
    Mutant(
        _EXPANSION,
        "        if until > now:\n",
        "        if False:\n",
        "a class that forbids it is asked at every look",
    ),
    Mutant(
        _EXPANSION,
        "            if not (is_down or self._failed_passes.is_reported(base.cluster.key)):",
        "            if True:",
        "an admission that is down stops every pass",
    ),
    Mutant(
        _EXPANSION,
        "            if not (is_down or self._failed_passes.is_reported(base.cluster.key)):",
        "            if False:",
        "one call without an answer counts as a storage class that cannot expand volumes",
    ),
]
