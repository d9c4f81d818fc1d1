"""Faults in what an operator makes of members that are silent for a moment."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "membership/quorum.py",
        " or _is_seen_to_serve(every)\n",
        "\n",
        "a growing cluster that is not heard for a moment is called lost",
    ),
    Mutant(
        "membership/quorum.py",
        "return any(seat.status is None or seat.status.leader_id for seat in ready)",
        "return any(ready)",
        "a pod that was ready a moment ago hides that it has no leader",
    ),
    Mutant(
        "membership/learner.py",
        "if not _has_started(pod) and",
        "if",
        "a learner that is silent for a moment is dropped with all that it has copied",
    ),
    Mutant(
        "membership/roll.py",
        "        if seat.is_voter and not pod.trouble and not roster.rest_holds(seen, seat):\n",
        "        if False:\n",
        "a voter whose probe and answer are late is restarted, and the quorum with it (I1)",
    ),
    Mutant(
        "membership/grow.py",
        " or bool(_able(seen))\n",
        "\n",
        "a vacant ordinal that has answered is not counted on",
    ),
    Mutant(
        "membership/grow.py",
        "return any(may) or ",
        "return ",
        "the one member with the data goes, as the ordinals below it are silent for a moment",
    ),
    Mutant(
        "membership/planner.py",
        "    return ready and (seen.etcd is None or awaited.every_voter_serves(seen) is not None)",
        "    return False",
        "an edit of the version and more restarts each member twice, first with the old version",
    ),
    Mutant(
        "operator/etcd_operator/sweep.py",
        " and pod.age < YOUNG_SECONDS and not pod.ready\n",
        " and pod.age < YOUNG_SECONDS\n",
        "a busy operator hears of none whose pods are young",
    ),
]
