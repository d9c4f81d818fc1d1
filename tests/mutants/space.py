"""Bugs in defragmentation."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_PAUSES = "operator/etcd_operator/cluster/defrag_backoff.py"
_SPACE = "membership/upkeep/space.py"

MUTANTS: Final = [
    Mutant(
        _SPACE,
        "not seen.cluster.defragments or ",
        "",
        "members are defragmented although the spec forbids it",
    ),
    Mutant(
        _SPACE,
        " or not all(roster.counts(seen, seat) for seat in voters):\n        return None\n",
        ":\n        return None\n",
        "a member is defragmented while another is away (I1)",
    ),
    Mutant(
        _SPACE,
        " if _may_run(seat)]",
        "]",
        "writes stay refused for as long as one member is away",
    ),
    Mutant(
        _SPACE,
        "if not full and len(voters) < roll.SPARING:",
        "if False:",
        "a cluster of one stands still for the sake of its disk",
    ),
    Mutant(
        _SPACE,
        "key=lambda one: (one.leads, one.ordinal)",
        "key=lambda one: (not one.leads, one.ordinal)",
        "the leader is defragmented first",
    ),
    Mutant(
        _SPACE,
        "    if seat.leads and (step := changes.hand_over(",
        "    if False and (step := changes.hand_over(",
        "the leader is defragmented before it has handed over (I8)",
    ),
    Mutant(
        _SPACE,
        "None if seen.snapshots else _next(seen)",
        "_next(seen)",
        "a member stands still until a backup has ended",
    ),
    Mutant(
        _SPACE,
        "if _is_rested(seen, seat)",
        "",
        "a member whose disk is full is defragmented in vain without a pause",
    ),
    Mutant(
        _SPACE,
        "0 < status.db_size_in_use <= MOST",
        "0 <= status.db_size_in_use <= MOST",
        "a member that says nothing of its use is defragmented for ever",
    ),
    Mutant(
        _SPACE,
        "<= MOST:\n        return False",
        ":\n        return False",
        "the kubelet kills a member that takes too long, again and again",
    ),
    Mutant(
        _SPACE,
        "status.db_size >= LEAST and ",
        "",
        "small files are defragmented at each deletion",
    ),
    Mutant(
        _SPACE,
        " if not _is_cramped(seen, seat)]\n",
        "]\n",
        "a pod is evicted with its data, for a second file in its emptyDir",
    ),
    Mutant(
        _SPACE,
        "    if due and not full and certificates.unusable(seen):\n        return None\n",
        "",
        "a member that is restarted for its silence does not come back, for want of a certificate",
    ),
    Mutant(
        _SPACE,
        "max(LEAST_WHEN_FULL, WASTED_WHEN_FULL * status.db_size)",
        "WASTED * status.db_size",
        "etcd goes on refusing writes although there is space to give back",
    ),
    Mutant(
        _SPACE,
        "<= ROOM * quota",
        "<= quota",
        "F30: writes are let in right below the quota, and refused again at once",
    ),
    Mutant(
        _SPACE,
        "seat.status is None or seat.pod is None:\n        return False\n",
        "seat.status is None or seat.pod is None:\n        return True\n",
        "writes are let in while a member that says nothing may be full",
    ),
    Mutant(
        _SPACE,
        "quota = min(quota, seat.pod.quota)",
        "pass",
        "writes are let in by a quota that no member has yet",
    ),
    Mutant(
        _SPACE,
        "    if not seen.is_full:\n        return None\n    if step",
        "    if step",
        "every cluster is said to be full",
    ),
    Mutant(
        "membership/planner.py",
        "    space.full,\n",
        "",
        "a cluster that takes no writes is called as declared",
    ),
    Mutant(
        "membership/planner.py",
        "    space.reclaim,\n",
        "    space.reclaim,\n    space.running_backup,\n",
        "what a human has to mend is not told while a backup runs",
    ),
    Mutant(
        _PAUSES,
        "items() if now < one.rested}\n",
        "items() if False}\n",
        "a member is asked again at once",
    ),
    Mutant(
        _PAUSES,
        "items() if now < one.rested}\n",
        "items()}\n",
        "a member is never asked again",
    ),
    Mutant(
        _PAUSES,
        "min(2 * before.pause, LONGEST_SECONDS) if before else PAUSE_SECONDS",
        "PAUSE_SECONDS",
        "a full disk moves the leader every ten minutes",
    ),
    Mutant(
        "operator/etcd_operator/cluster/reconcile.py",
        "self._observer.defrag_backoff.begin(current.cluster.key, step.name, step.in_use)",
        "pass",
        "nobody remembers that a member was asked",
    ),
    Mutant(
        "operator/etcd_operator/objects/jobs.py",
        "    return runs and is_backup",
        "    return is_backup",
        "a backup that has ended is waited for, for ever",
    ),
    Mutant(
        "operator/etcd_operator/etcd/changes.py",
        "            return (member,)\n",
        '            return (replace(member, address=""),)\n',
        "nobody is asked to defragment",
    ),
    Mutant(
        "operator/etcd_operator/cluster/sweep.py",
        "if recounting.is_due(base, found.alarms):",
        "if False:",
        "of a full quota nobody sees what a compaction has freed",
    ),
    Mutant(
        _SPACE,
        "return seen.is_full and used <= (1 - WASTED_WHEN_FULL) * before",
        "return False",
        "what is compacted after a first defragmentation is given back ten minutes later",
    ),
]
