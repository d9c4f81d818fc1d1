"""Failures that other operators had (F and a number: a table of them is in the project's notes).

Those of disruption budgets are in `guards`, those of TLS in `tls`, those of backups in `backups`.
"""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BOOTSTRAP = "membership/beginning/bootstrap.py"
_LEARNER = "membership/members/learner.py"
_LEFTOVERS = "membership/beginning/leftovers.py"
_LOSS = "membership/members/loss.py"
_POD = "manifests/pod.py"
_REPLACE = "membership/members/replace.py"
_REPLICAS = "membership/members/replicas.py"
_ROLL = "membership/rolling/roll.py"
_ROSTER = "membership/roster.py"
_SHRINK = "membership/members/shrink.py"
_STATEFUL_SET = "manifests/statefulset.py"
_TICKETS = "membership/beginning/tickets.py"

DO_NOT_FIT: Final = {
    16: "each backup is a whole snapshot: there are none that could overlap or have a gap",
}
"""By number: failures of which there is no mutant, and why."""

MUTANTS: Final = [
    Mutant(
        "start/configuration.py",
        '            "initial-cluster-state": "existing",\n',
        '            "initial-cluster-state": "new",\n',
        "F1: a container that restarts on an emptied volume begins a second cluster",
    ),
    Mutant(
        _TICKETS,
        'state: ClusterState = "existing" if bootstrap.latched else "new"',
        'state: ClusterState = "new"',
        "F1: an empty volume of a formed cluster is started as `new` (I4)",
    ),
    Mutant(
        _TICKETS,
        "_listed_cluster(seen) if bootstrap.latched else bootstrap.initial_cluster",
        'f"{pod.name}={seen.cluster.peer_url(pod.ordinal)}"',
        "F2: each member is told of itself alone, and they form as many clusters",
    ),
    Mutant(
        _BOOTSTRAP,
        "if others := remembered.answering(seen) - {record.cluster_id}:",
        "if others := set[int]():",
        "F2: a second cluster goes unnoticed and is latched (I7)",
    ),
    Mutant(
        _TICKETS,
        "_listed_cluster(seen) if bootstrap.latched else bootstrap.initial_cluster",
        "bootstrap.initial_cluster",
        "F3: who joins later is given the initial cluster of the first day",
    ),
    Mutant(
        _LEARNER,
        '    return "etcd keeps failing in it" if fails else ""',
        '    return ""',
        "F3: a learner that cannot start is never removed, and nothing behind it goes on",
    ),
    Mutant(
        _TICKETS,
        "if recorded(seen).challenge(member_id) is not None or _had_lost_ticket(seen, pod):",
        "if recorded(seen).challenge(member_id) is not None:",
        "F4: with the ledger lost, an emptied volume comes back under its old ID (I3)",
    ),
    Mutant(
        _LOSS,
        "if seat.volume_is_empty and had_ticket(seen, seat):",
        "if False:",
        "F4: a member whose data is gone stays on the list, a vote lost in silence",
    ),
    Mutant(
        "membership/planner.py",
        "    leftovers.delete_claims_of_removed,\n",
        "",
        "F5: the claim of a removed member is kept, and found again at regrowth",
    ),
    Mutant(
        _REPLICAS,
        "    stop = in_the_way(seen)\n",
        "    stop = None\n",
        "F5: a pod is made while its ordinal's old claim is still on its way out",
    ),
    Mutant(
        "membership/planner.py",
        "    leftovers.surplus_pods,\n",
        "",
        "F5: a cluster is called as declared while a removed member's claim is still there",
    ),
    Mutant(
        _REPLACE,
        "if not (runs or broken or",
        "if not (broken or",
        "F5: the pod of a removed member runs on, on its old data, for ever",
    ),
    Mutant(
        _STATEFUL_SET,
        '                "whenDeleted": "Retain",\n',
        '                "whenDeleted": "Delete",\n',
        "F6: volumes go when the StatefulSet is deleted",
    ),
    Mutant(
        _STATEFUL_SET,
        '            "labels": naming.labels(cluster.name),\n            "annotations": {\n',
        '            "labels": naming.labels(cluster.name),\n'
        '            "ownerReferences": metadata(cluster, "")["ownerReferences"],\n'
        '            "annotations": {\n',
        "F6: claims are owned by the cluster, and go with it",
    ),
    Mutant(
        _REPLACE,
        '        return _delete(seen, pod, f"claim {claim.name} is being deleted")\n',
        "        return None\n",
        "F7: a claim that is being deleted waits for its pod, and the pod for its claim",
    ),
    Mutant(
        _LEARNER,
        "running and is_learner and roster.has_caught_up(seen, seat) and _keeps_quorum(seen)",
        "running and is_learner and _keeps_quorum(seen)",
        "F8: a learner votes before it has caught up",
    ),
    Mutant(
        _LEARNER,
        "running and is_learner and roster.has_caught_up(seen, seat) and _keeps_quorum(seen)",
        "running and is_learner and roster.has_caught_up(seen, seat)",
        "F8: one voter more, and too few of them serve (I1)",
    ),
    Mutant(
        _REPLICAS,
        "size = max(used, seen",
        "size = max(seen.replicas, seen",
        "F9: who was removed just before a crash keeps its pod and claim for ever",
    ),
    Mutant(
        "membership/planner.py",
        "    learner.promote_or_drop,\n",
        "",
        "F9: a learner that was added just before a crash stays one",
    ),
    Mutant(
        _SHRINK,
        "    top = voters[-1]\n",
        "    top = voters[0]\n",
        "F10: the lowest member goes instead of the highest",
    ),
    Mutant(
        "membership/members/changes.py",
        "if seat.leads and (step := hand_over(",
        "if False and (step := hand_over(",
        "F10: the leader is removed without handing over (I8)",
    ),
    Mutant(
        _ROSTER,
        "    return _ordinal_in(seen.cluster.name, seen.cluster.namespace, member.peer_urls)\n",
        "    return naming.ordinal_of(seen.cluster.name, member.name)\n",
        "F10: members are told apart by what they call themselves",
    ),
    Mutant(
        _LEARNER,
        "    if seat.ordinal >= seen.cluster.size:\n",
        "    if False:\n",
        "F11: a learner that the edited size has no place for is promoted first",
    ),
    Mutant(
        _LOSS,
        '    if seat.member is None:\n        return ""\n',
        '    if seat.member is None:\n        return ""\n'
        '    if seat.pod and seat.pod.deleting:\n        return "its pod stops"\n',
        "F12: each pod that stops costs its member the place",
    ),
    Mutant(
        "membership/beginning/attempts.py",
        "    if bootstrap.latched or seen.etcd is not None:\n        return None",
        "    if seen.etcd is not None:\n        return None",
        "F13: after the loss of all volumes an empty cluster is begun (I4, I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if known:\n        return _rebuild",
        "    if False:\n        return _rebuild",
        "F13: a lost Secret of a formed cluster begins an empty one (I11)",
    ),
    Mutant(
        "membership/epochs/quorum.py",
        "    if enough or _is_survivor_starting(seen, lost):\n",
        "    if True:\n",
        "F14: a quorum that is lost for good is waited for without a word",
    ),
    Mutant(
        "status/conditions.py",
        'return Condition("Available", "False", "NoQuorum", away or "no member is ready")',
        'return Condition("Available", "True", "NoQuorum", away or "no member is ready")',
        "F14: available without a quorum",
    ),
    Mutant(
        "records/bootstrap.py",
        "return replace(record, epoch=record.next_epoch, survivor=survivor)",
        "return replace(record, survivor=survivor)",
        "F15: what was recovered goes on beside volumes of before it",
    ),
    Mutant(
        "membership/beginning/remembered.py",
        "    return begun if begun > epoch else 0\n",
        "    return 0\n",
        "a recovery begins the epoch of one that is off the record and whose pod waits",
    ),
    Mutant(
        "manifests/services.py",
        '            "publishNotReadyAddresses": True,\n',
        '            "publishNotReadyAddresses": False,\n',
        "F18: members that are not ready find nobody, and so never become it",
    ),
    Mutant(
        "api/tls.py",
        'return MANAGED if text == "Managed" else PLAINTEXT',
        "return PLAINTEXT",
        "F20: plaintext in the place of TLS",
    ),
    Mutant(
        "api/cluster.py",
        '"etcd": spec.get("etcd"), "repository"',
        '"repository"',
        "F21: an edit of etcd's options is passed over in silence",
    ),
    Mutant(
        "status/member_status.py",
        "own = status if status and status.member_id == member.member_id else None",
        "own = status",
        "F22: the status of one member is told as another's",
    ),
    Mutant(
        _ROSTER,
        "self.member and self.status and self.status.member_id == self.member.member_id",
        "self.member and self.status",
        "F22: whoever answers at its address passes for the member",
    ),
    Mutant(
        "operator/etcd_operator/queue/workqueue.py",
        "for number in range(self._workers):",
        "for number in range(1):",
        "F23: one worker, so whoever is slow keeps every cluster waiting",
    ),
    Mutant(
        "operator/etcd_operator/queue/workqueue.py",
        "deadline = asyncio.timeout(self._pass_seconds)",
        "deadline = asyncio.timeout(None)",
        "F23: a pass that hangs keeps its worker for good",
    ),
    Mutant(
        "operator/etcd_operator/etcd/client.py",
        "method)(request, timeout=seconds)",
        "method)(request)",
        "F23: a member that hangs is waited for without a deadline",
    ),
    Mutant(
        _ROSTER,
        "return len(some) >= quorum(len(of))",
        "return len(some) == len(of)",
        "F24: one dead member keeps another from being replaced",
    ),
    Mutant(
        _LEARNER,
        "running = seat.pod is not None and not seat.pod.deleting and not seat.pod.crashing",
        "running = seat.pod is not None and seat.pod.ready and not seat.pod.deleting",
        "F25: a learner is waited for to be Ready, which it never is",
    ),
    Mutant(
        _POD,
        '"livenessProbe": _probe("/livez", period=10',
        '"livenessProbe": _probe("/readyz", period=10',
        "F25: a lost quorum restarts every member",
    ),
    Mutant(
        _POD,
        "LIVENESS_DELAY: Final = 1800",
        "LIVENESS_DELAY: Final = 30",
        "F25: a member with a large database is killed while it opens it",
    ),
    Mutant(
        _STATEFUL_SET,
        '"updateStrategy": {"type": "OnDelete"}',
        '"updateStrategy": {"type": "RollingUpdate"}',
        "F27: the StatefulSet restarts pods by itself, whoever leads",
    ),
    Mutant(
        _ROLL,
        "pod.spec_hash != version_first.template_hash(seen)",
        "pod.image != seen.cluster.image",
        "F27: a pod with the newest image counts as one of the newest template",
    ),
    Mutant(
        _ROLL,
        "key=lambda one: (not one.leads, may_be_cured(seen, one), one.ordinal)",
        "key=lambda one: one.ordinal",
        "F27: the leader is restarted in its turn, and leadership moves each time (I8)",
    ),
    Mutant(
        "membership/planner.py",
        "    roll.restart_unready,\n",
        "",
        "F27: a pod that fails on the old template keeps the new one from everybody",
    ),
    Mutant(
        "versions.py",
        "Version(3, 5, 32)",
        "Version(3, 5, 0)",
        "F28: a 3.5 that 3.6 finds zombie members in",
    ),
    Mutant(
        "membership/upkeep/alarms.py",
        "space.has_room(seen) and not seen.is_corrupt",
        "not seen.is_corrupt",
        "F30: NOSPACE is taken back without a byte being freed, again and again",
    ),
    Mutant(
        _LOSS,
        '        return f"pod {seat.name} runs on the data of another member"\n',
        '        return ""\n',
        "F33: a removed member's volume that comes back is run for ever",
    ),
    Mutant(
        _LEFTOVERS,
        "if claim.record and claim.record.cluster_uid != seen.cluster.uid",
        "if False",
        "F33: old data at ordinal 0 is served, or begun beside, by accident",
    ),
    Mutant(
        _LOSS,
        "    if claim.deleting:\n",
        "    if False:\n",
        "F34: a member serves on while its volume is on its way out",
    ),
    Mutant(
        _LOSS,
        'return f"the claim of pod {seat.name} is gone" if pod and pod.etcd_started else ""',
        'return ""',
        "F34: a member serves on without a claim until it stops",
    ),
    Mutant(
        "api/options.py",
        "return chosen | _corruption_checks(version)",
        "return chosen",
        "F36: nobody looks whether the members' data is the same",
    ),
    Mutant(
        _LOSS,
        "if seen.is_corrupt and is_outvoted(seen, seat.ordinal):",
        "if seat.member and seat.member.member_id in [one.member_id for one in seen.alarms]:",
        "F36: the member that the alarm names goes, which may be a sound one",
    ),
]
