"""Bugs in how the operator treats members that do not answer for a moment."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "membership/epochs/quorum.py",
        "    return bool(seat.status and seat.status.learner)\n",
        "    return False\n",
        "a learner hides that too few voters are left for a quorum",
    ),
    Mutant(
        "membership/epochs/quorum.py",
        " or _is_seen_to_serve(every)\n",
        "\n",
        "a growing cluster that is not heard for a moment is called lost",
    ),
    Mutant(
        "membership/epochs/quorum.py",
        "return any(seat.status is None or seat.hears_leader for seat in ready)",
        "return any(ready)",
        "a pod that was ready a moment ago hides that it has no leader",
    ),
    Mutant(
        "membership/members/learner.py",
        "if not _has_started(pod) and",
        "if",
        "a learner that is silent for a moment is dropped with all that it has copied",
    ),
    Mutant(
        "membership/rolling/roll.py",
        "        if votes and not pod.is_stuck and _quorum_may_need(seen, seat):\n",
        "        if False:\n",
        "a voter whose probe and answer are late is restarted, and the quorum with it (I1)",
    ),
    Mutant(
        "membership/rolling/roll.py",
        "len(roster.voters(seen)) + len(strange)",
        "len(roster.voters(seen))",
        "members that somebody added by hand do not count for the quorum (I1)",
    ),
    Mutant(
        "membership/rolling/roll.py",
        "roster.quorum(listed) if listed >= SPARING else 1",
        "roster.quorum(listed - 1)",
        "of four members two are taken for a quorum (I1)",
    ),
    Mutant(
        "membership/members/grow.py",
        " or bool(_candidates(seen))\n",
        "\n",
        "a vacant ordinal that has answered is not counted on",
    ),
    Mutant(
        "membership/members/grow.py",
        "return wait or small or ",
        "return small or ",
        "the one member with the data goes, as the ordinals below it are silent for a moment",
    ),
    Mutant(
        "membership/rolling/version_first.py",
        "silent = seen.etcd is None and not any(pod.ready for pod in seen.pods)",
        "silent = seen.etcd is None",
        "an edit of the version and more restarts each member twice, first with the old version",
    ),
    Mutant(
        "operator/etcd_operator/cluster/endpoints.py",
        " and pod.age < YOUNG_SECONDS and not pod.ready\n",
        " and pod.age < YOUNG_SECONDS\n",
        "a busy operator hears of none whose pods are young",
    ),
    Mutant(
        "observed/pods.py",
        "return bool(self.trouble) and not self.tried_again",
        "return bool(self.trouble)",
        "a voter that the quorum hangs by is restarted in the moment in which it is tried again",
    ),
    Mutant(
        "membership/members/loss.py",
        " and not seat.pod.tried_again:\n",
        ":\n",
        "a member whose data somebody has put right is removed as it comes up",
    ),
    Mutant(
        "membership/members/learner.py",
        "pod.runs_undisturbed and not pod.crashing",
        "pod.runs_etcd and not (pod.crashing or pod.trouble)",
        "a learner is dropped in the moment in which it is tried again",
    ),
    Mutant(
        "membership/rolling/rollback.py",
        "return _fails(seen) or any(pod.tried_again for pod in seen.pods)",
        "return _fails(seen)",
        "that a version fails comes and goes with each crash",
    ),
    Mutant(
        "membership/rolling/rollback.py",
        "any(pod.crashing for pod in seen.pods)",
        "any(pod.crashing or pod.tried_again for pod in seen.pods)",
        "a version is left in haste, past its gates, as a pod is tried again",
    ),
    Mutant(
        "operator/etcd_operator/objects/reading.py",
        "crashing=trouble.is_crashing(etcd),",
        "crashing=trouble.is_crashing(etcd) or bool(until_now),",
        "a pod is made again in the moment in which it might have come up",
    ),
    Mutant(
        "operator/etcd_operator/objects/reading.py",
        "damage=termination_message.of_damage(etcd, tried_again=bool(until_now)),",
        "damage=termination_message.of_damage(etcd),",
        "that data is damaged comes and goes with each crash",
    ),
    Mutant(
        "operator/etcd_operator/objects/reading.py",
        'until_now = "" if words else trouble',
        "until_now = trouble",
        "a silent node is no trouble while its pod is tried again",
    ),
    Mutant(
        "operator/etcd_operator/objects/trouble.py",
        ' or container.get("ready") or',
        " or",
        "a member that serves is said to fail",
    ),
    Mutant(
        "operator/etcd_operator/objects/trouble.py",
        "    if once or seconds_since(",
        "    if seconds_since(",
        "a member that was killed once is said to fail as it comes up",
    ),
    Mutant(
        "operator/etcd_operator/objects/trouble.py",
        'seconds_since(runs.get("startedAt"), now) >= STEADY_SECONDS',
        "False",
        "a member that waits for a quorum is said to fail for good",
    ),
    Mutant(
        "operator/etcd_operator/objects/trouble.py",
        "if _ended_early(ended) else",
        "if ended else",
        "a member that is killed once a month is said to fail as it comes up",
    ),
    Mutant(
        "membership/planner.py",
        "    blocked.restarted_etcd,\n",
        "",
        "that data is damaged before the cluster has formed comes and goes with each crash",
    ),
    Mutant(
        "membership/planner.py",
        "    blocked.restarted_etcd,\n    blocked.unreadable_volume,\n",
        "    blocked.unreadable_volume,\n    blocked.restarted_etcd,\n",
        "a volume that cannot be read takes turns with damaged data at each crash",
    ),
    Mutant(
        "membership/blocked.py",
        "return _damaged(seen, pod, damage) if not pod.tried_again else None",
        "return _damaged(seen, pod, damage)",
        "a pod that keeps failing is never made again, as another is tried again",
    ),
]
