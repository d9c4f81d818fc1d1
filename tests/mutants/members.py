"""Bugs in the membership: the roster, loss, learners, scale-up, scale-down, replacement, alarms."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_ALARMS = "membership/upkeep/alarms.py"
_BOOTSTRAP = "membership/beginning/bootstrap.py"
_CHANGES = "membership/members/changes.py"
_GROW = "membership/members/grow.py"
_LEARNER = "membership/members/learner.py"
_LEFTOVERS = "membership/beginning/leftovers.py"
_LOSS = "membership/members/loss.py"
_PLANNER = "membership/planner.py"
_REPLACE = "membership/members/replace.py"
_REPLICAS = "membership/members/replicas.py"
_ROSTER = "membership/roster.py"
_SHRINK = "membership/members/shrink.py"

MUTANTS: Final = [
    # The roster.
    Mutant(
        _ROSTER,
        "return self.is_voter and self.answers and self.hears_leader and not leaves",
        "return self.is_voter and self.answers and self.hears_leader",
        "a member that is about to stop is counted on (I1)",
    ),
    Mutant(
        _ROSTER,
        "return self.is_voter and self.answers and self.hears_leader and not leaves",
        "return self.is_voter and self.answers and not leaves",
        "a member that is cut off from its leader is counted on (I1)",
    ),
    Mutant(
        _ROSTER,
        "return self.is_voter and self.answers and self.hears_leader and not leaves",
        "return self.answers and self.hears_leader and not leaves",
        "a learner is counted on for the quorum (I1)",
    ),
    Mutant(
        "observed/pods.py",
        "if self.deleting or not self.in_start or self.answer is None:",
        "if self.answer is None:",
        "what `start` said before etcd ran is taken for what is on the volume now",
    ),
    Mutant(
        _ROSTER,
        "ordinal not in listed or _id_at(seen, ordinal) == member.member_id:",
        "ordinal not in listed:",
        "two members at one ordinal: which is changed is left to chance",
    ),
    Mutant(
        _ROSTER,
        " or _id_at(seen, seat.ordinal) in listed\n",
        "\n",
        "a member whose peer URL was changed by hand loses its pod when the size is lowered (I5)",
    ),
    Mutant(
        _ROSTER,
        "rest = [seat for seat in voters(seen) if seat.ordinal != without.ordinal]",
        "rest = voters(seen)",
        "the quorum is counted with the member that is to go (I1)",
    ),
    Mutant(
        _ROSTER,
        "return bool(rest) and is_quorum([seat for seat in rest if counts(seen, seat)], rest)",
        "return is_quorum([seat for seat in rest if seat.answers], rest)",
        "members without a leader are called a quorum (I1)",
    ),
    Mutant(
        _ROSTER,
        "return seat.serves and probed",
        "return seat.serves",
        "a member whose disk hangs is counted for the quorum (I1)",
    ),
    Mutant(
        _ROSTER,
        "return run is None or not (pod and pod.answer and pod.answer.challenge == run)",
        "return True",
        "a member whose ticket is on its way is called lost",
    ),
    Mutant(
        _ROSTER,
        "return not member.name and not (held and held.member_id == member.member_id)",
        "return True",
        "with the ledger lost, a member without data stays on the list",
    ),
    Mutant(
        _ROSTER,
        "    if any(first.member_id == member.member_id for first in record.members):\n",
        "    if False:\n",
        "a first member that never had its ticket passes for one that had it",
    ),
    Mutant(
        _PLANNER,
        "    unknown.hold,\n",
        "",
        "a membership that somebody else changes is changed by us as well",
    ),
    # Loss.
    Mutant(
        _LOSS,
        "if seat.volume_is_empty and had_ticket(seen, seat):",
        "if seat.volume_is_empty:",
        "a member that has yet to start is called lost",
    ),
    Mutant(
        _LOSS,
        'if seat.found == "damaged" and',
        'if seat.found in ("damaged", "unreadable") and',
        "a volume that cannot be read for now costs the member its place",
    ),
    Mutant(
        _LOSS,
        "    if pod and pod.node_gone:\n",
        '    if pod and "node" in pod.trouble:\n',
        "a node that is silent for a moment costs its members their data",
    ),
    Mutant(
        _LOSS,
        "    if seat.pod and seat.pod.damage and not seat.pod.tried_again:\n",
        "    if seat.pod and seat.pod.crashing:\n",
        "a member that crashes costs itself its data",
    ),
    Mutant(
        _LOSS,
        '    if claim.phase == "Lost":\n',
        '    if claim.phase != "Bound":\n',
        "a claim that is still being bound is called lost",
    ),
    Mutant(
        _LOSS,
        "if seen.is_corrupt and is_outvoted(",
        "if is_outvoted(",
        "hashes of different moments replace a member without any alarm",
    ),
    Mutant(
        _LOSS,
        "return votes > len(listed) // 2 and",
        "return votes > len(hashes) // 2 and",
        "two members that agree outvote a sound one of five",
    ),
    Mutant(
        _LOSS,
        "if pod is None or not pod.runs_etcd or seat.answers:",
        "if pod is None or not pod.runs_etcd:",
        "a member that runs is called lost for what is on record of its claim",
    ),
    Mutant(
        _LOSS,
        "runs not in (0, member.member_id):",
        "runs != member.member_id:",
        "a silent member is removed as nothing says whose data it runs on",
    ),
    Mutant(
        _LOSS,
        "[one for one in seen.members if not one.learner], hashes",
        "[*seen.members], hashes",
        "a learner that has no vote keeps a member whose data differs",
    ),
    Mutant(
        _LOSS,
        "for seat in voters(seen) if seat.answers)",
        "for seat in voters(seen))",
        "a removed member outvotes a sound one, as it answers at the ordinal of its successor",
    ),
    # Learners.
    Mutant(
        _LEARNER,
        "if why := why_lost(seen, seat) or suspect:",
        "if why := suspect:",
        "a learner that has lost its volume is waited for, for ever",
    ),
    Mutant(
        _LEARNER,
        "if not seat.answers and (why := _why_hopeless(seen, seat)):",
        "if why := _why_hopeless(seen, seat):",
        "a learner that is about to catch up is dropped for a lost voter",
    ),
    Mutant(
        _LEARNER,
        "for voter, why in replace.removable(seen))",
        "for voter, why in list[tuple[Seat, str]]())",
        "a learner that cannot start keeps a lost voter from being replaced",
    ),
    Mutant(
        _LEARNER,
        "if seat.pod is None or seat.pod.age < STUCK_SECONDS or",
        "if True or",
        "a learner that runs and gets nowhere keeps a lost voter from being replaced for ever",
    ),
    Mutant(
        _LEARNER,
        "if seat.pod is None or seat.pod.age < STUCK_SECONDS or",
        "if seat.pod is None or",
        "a learner that is copying is dropped for a lost voter at once",
    ),
    Mutant(
        _LEARNER,
        "is_learner = seat.status is not None and seat.status.learner",
        "is_learner = True",
        "a learner that says it is none is promoted",
    ),
    Mutant(
        _LEARNER,
        "seat.status.learner and seat.hears_leader\n",
        "seat.status.learner\n",
        "a learner that hears no leader gets a vote that the quorum needs (I1)",
    ),
    Mutant(
        _PLANNER,
        "    learner.in_flight,\n",
        "",
        "others are added and removed beside a learner (I2)",
    ),
    # Growth.
    Mutant(
        _GROW,
        "if not seat.volume_is_empty or seat.pod is None:",
        "if seat.pod is None:",
        "a pod that has not said that it is empty is made a member",
    ),
    Mutant(
        _GROW,
        "if seat.durable and (claim is None or claim.deleting or claim.damage):",
        "if seat.durable and claim is None:",
        "a member on a claim that is on its way out",
    ),
    Mutant(
        _GROW,
        "return tried or not seen.cluster.durable or none_to_spare",
        "return True",
        "an image that cannot be had makes a member that never starts",
    ),
    Mutant(
        _GROW,
        "return tried or not seen.cluster.durable or none_to_spare",
        "return tried or not seen.cluster.durable",
        "a lost member waits for an image that none of the two others may try",
    ),
    Mutant(
        _GROW,
        "return _add(seen, due[0])",
        "return _add(seen, due[-1])",
        "the highest is added first, and goes again when the size does",
    ),
    Mutant(
        _GROW,
        "if len(voters) > 1 and len(serving) < roster.quorum(len(voters) + 1):",
        "if False:",
        "etcd is asked for what it refuses, again and again",
    ),
    Mutant(
        _GROW,
        "wanted = (seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size)",
        "wanted = roster.seats(seen)",
        "members are added beyond the size",
    ),
    # Shrinking.
    Mutant(
        _SHRINK,
        "    if not roster.keeps_quorum_without(seen, top):\n",
        "    if False:\n",
        "the removal of a member costs the quorum (I1)",
    ),
    Mutant(
        _SHRINK,
        "    if len(voters) == 1 or (",
        "    if len(voters) > 1 and (",
        "the last member beyond the size is waited for, for ever",
    ),
    Mutant(
        _SHRINK,
        "if not voters or voters[-1].ordinal < size or",
        "if not voters or voters[-1].ordinal <= size or",
        "one member beyond the size stays",
    ),
    # Replacement.
    Mutant(
        _REPLACE,
        "if roster.keeps_quorum_without(seen, seat) and not (vacant and",
        "if not (vacant and",
        "a lost member is removed without a quorum of the rest (I1)",
    ),
    Mutant(
        _REPLACE,
        "if roster.keeps_quorum_without(seen, seat) and not (vacant and _is_of_use(seen, seat))",
        "if roster.keeps_quorum_without(seen, seat)",
        "members that still serve are removed all at once",
    ),
    Mutant(
        _REPLACE,
        "key=lambda one: (one[0].serves, not is_outvoted",
        "key=lambda one: (not is_outvoted",
        "one that still serves goes before one that is dead",
    ),
    Mutant(
        _REPLACE,
        "    if leftovers.is_removed_members(seen, claim):\n",
        "    if True:\n",
        "a claim of nobody knows whom is deleted (I6)",
    ),
    Mutant(
        _REPLACE,
        "        return _force(seen, pod) if pod.overdue else None\n",
        "        return _force(seen, pod)\n",
        "a pod that stops in time is given up, and may run on beside the next",
    ),
    Mutant(
        _REPLACE,
        "_unusable(seen, seat, pod) if pod.ordinal < seen.replicas else _surplus(seen, pod)",
        "_unusable(seen, seat, pod)",
        "pods that the StatefulSet takes away are deleted beside it",
    ),
    Mutant(
        _REPLACE,
        "            if not others:\n",
        "            if False:\n",
        "the only member is lost, and nobody is told what to do",
    ),
    Mutant(
        _PLANNER,
        "    replace.not_replaceable,\n",
        "",
        "settled, or restarted, with a member that is lost",
    ),
    # Changes.
    Mutant(
        _CHANGES,
        "stays = seat.ordinal < seen.cluster.size",
        "stays = True",
        "the heir is the next to go, and leadership moves with each removal",
    ),
    Mutant(
        _CHANGES,
        "is_newest = seat.name not in seen.outdated",
        "is_newest = True",
        "the heir is the next to be restarted (I8)",
    ),
    Mutant(
        _CHANGES,
        "roster.counts(seen, one) and not why_lost(seen, one)]",
        "roster.counts(seen, one)]",
        "a lost member that still serves is made the leader",
    ),
    Mutant(
        _ROSTER,
        "return max(led, default=(0, 0))[1]",
        "return min(led, default=(0, 0))[1]",
        "a leader that was voted out and has yet to learn it is asked",
    ),
    # Claims of removed members.
    Mutant(
        _LEFTOVERS,
        "        and record.member_id not in listed\n",
        "",
        "the claim of a member is deleted (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "    record, bootstrap = claim.own_record, recorded(seen)\n",
        "    record, bootstrap = claim.record, recorded(seen)\n",
        "a restored claim is deleted by the record of another (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "record.cluster_id == bootstrap.cluster_id == seen.etcd.cluster_id",
        "record.cluster_id == bootstrap.cluster_id",
        "a claim is deleted by another cluster's member list (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "        record.cluster_uid in ours\n        and ",
        "        ",
        "another cluster's claim is deleted (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        'seen.cluster.retained_claims.adopt} - {""}',
        'seen.cluster.retained_claims.adopt, ""}',
        "a claim that nobody has put on record is deleted (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "if claim.ordinal < seen.replicas or seen.pod(claim.ordinal) or claim.deleting:",
        "if claim.ordinal < seen.replicas or claim.deleting:",
        "a claim is deleted under the pod that still uses it",
    ),
    # Sizes on record.
    Mutant(
        _REPLICAS,
        "    record, listed = recorded(seen), _by_list(seen)\n",
        "    record, listed = recorded(seen), wanted(seen)\n",
        "without a member list any size goes on record (I5)",
    ),
    Mutant(
        _PLANNER,
        "    _Starts(replicas.record),\n    _children,\n",
        "    _children,\n",
        "a StatefulSet that is lost after a shrink comes back with pods of before it",
    ),
    # Alarms.
    Mutant(
        _ALARMS,
        "    if _all_agree(seen):\n",
        "    if True:\n",
        "the alarm is taken back while the data still differs",
    ),
    Mutant(
        _ALARMS,
        "return len(_hashes(seen)) == len(roster.voters(seen)) > 1 and not _some_differ(seen)",
        "return len(set(_hashes(seen))) == 1",
        "one answer is called agreement",
    ),
    Mutant(
        _ALARMS,
        " and not seen.is_corrupt\n",
        "\n",
        "etcd 3.5 takes writes of members that differ, once there is room",
    ),
    Mutant(
        _ALARMS,
        "compared = not _some_differ(seen) and ",
        "compared = ",
        "the alarm goes with whom it blamed, and the member that differs stays",
    ),
    Mutant(
        _ALARMS,
        "compared = not _some_differ(seen) and not _uncompared(seen)",
        "compared = not _some_differ(seen)",
        "the alarm goes with whom it blamed, and nobody has compared the others",
    ),
    Mutant(
        _ALARMS,
        "    if not _hashes(seen) or _may_answer(seen):\n",
        "    if not _hashes(seen):\n",
        "members are called undecided before all have told",
    ),
    Mutant(
        _ALARMS,
        "(seat.pod and seat.pod.runs_undisturbed) or not why_lost(seen, seat)",
        "not why_lost(seen, seat)",
        "members are called undecided while one still runs on the claim that somebody deletes",
    ),
    Mutant(
        _ALARMS,
        "(seat.pod and seat.pod.runs_undisturbed) or not why_lost(seen, seat) for seat in unknown",
        "unknown",
        "a learner and a lost member keep it back for ten minutes that the data differs",
    ),
    Mutant(
        _PLANNER,
        "    alarms.undecided,\n",
        "",
        "nobody is asked which data is right, and pods are waited for, for ever",
    ),
    Mutant(
        _REPLACE,
        "not is_outvoted(seen, one[0].ordinal), ",
        "",
        "the witness goes before the member that differs",
    ),
    Mutant(
        _PLANNER,
        "    alarms.disarm,\n",
        "",
        "etcd refuses writes long after the member that differed has gone",
    ),
    Mutant(
        "operator/etcd_operator/etcd/changes.py",
        "for asked in _asked(step):",
        "for asked in _asked(step)[:1]:",
        "a leader that wrongly believes itself cut off (etcd issue 14523) stops every change",
    ),
    Mutant(
        "operator/etcd_operator/etcd/changes.py",
        "if one.member_id != leaves)",
        "if one.member_id)",
        "a member that leaves is asked to remove itself",
    ),
    Mutant(
        "membership/members/changes.py",
        "if seat.serves and not seat.leads)",
        "if not seat.leads)",
        "a voter that does not serve is asked beside the leader",
    ),
    Mutant(
        "operator/etcd_operator/cluster/sweep.py",
        "if not rouse and not corruption",
        "if not corruption",
        "a learner that begins with a snapshot waits for ever where nobody writes",
    ),
    Mutant(
        "operator/etcd_operator/cluster/sweep.py",
        "return silent and places.keys() != statuses.keys()",
        "return silent",
        "every look at a pod that has not started yet is written into etcd's log",
    ),
]
