"""Bugs in the order of questions, children and records, and in what is left behind."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_AWAITED = "membership/awaited.py"
_BLOCKED = "membership/blocked.py"
_CHILDREN = "membership/children.py"
_LEDGER = "membership/beginning/ledger.py"
_LEFTOVERS = "membership/beginning/leftovers.py"
_MEMBER = "records/member.py"
_PLANNER = "membership/planner.py"
_RECORDS = "records/bootstrap.py"
_UNTRUSTED = "untrusted.py"

MUTANTS: Final = [
    # Pods that can get no ticket.
    Mutant(
        _BLOCKED,
        "if bootstrap.latched or not left or size - len(spent) > size // 2:",
        "if True:",
        "a cluster that can never form waits without a word",
    ),
    Mutant(
        _BLOCKED,
        "if bootstrap.latched or not left or size - len(spent) > size // 2:",
        "if bootstrap.latched or not left:",
        "one lost volume stops a cluster that forms without it",
    ),
    Mutant(
        _BLOCKED,
        "if not one.deleting and one.ordinal < seen.replicas",
        "if not one.deleting",
        "a pod that is taken away anyway is called a lost member",
    ),
    Mutant(
        _BLOCKED,
        "not seen.cluster.durable or (claim and not claim.deleting):",
        "not seen.cluster.durable or claim:",
        "a pod on a claim that is being deleted waits without a word",
    ),
    Mutant(
        _BLOCKED,
        "    if seen.etcd is None:\n        return survivor.ways_out(seen)\n",
        "    if True:\n        return survivor.ways_out(seen)\n",
        "a volume beside a quorum waits for a recovery that is declined",
    ),
    Mutant(
        "membership/epochs/quorum.py",
        "enough = size - len(lost) >= roster.quorum(size)",
        "enough = size - len(silent) >= roster.quorum(size)",
        "a moment without a leader is reported as a lost quorum",
    ),
    # What a deleted cluster left behind.
    Mutant(
        _LEFTOVERS,
        "if discard and claim.record and claim.record.cluster_uid == discard:",
        "if claim.record and claim.record.cluster_uid == discard:",
        "a claim with a blank UID is deleted without a human's word (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "if discard and claim.record and claim.record.cluster_uid == discard:",
        "if discard and claim.record:",
        "discarding one cluster's claims deletes another's too (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "return bool(adopt) and adopt in uids and alike",
        "return adopt in uids and alike",
        "a claim with a blank UID is adopted without a human's word",
    ),
    Mutant(
        _LEFTOVERS,
        "return bool(adopt) and adopt in uids and alike",
        "return bool(adopt) and adopt in uids",
        "adopting one of two old clusters takes the other along",
    ),
    Mutant(
        _LEFTOVERS,
        "seen.secret is not None and (seen.stateful_set is not None or is_latched(seen)):",
        "seen.secret is not None:",
        "claims that show up before the StatefulSet is there are overlooked",
    ),
    Mutant(
        _LEFTOVERS,
        "(seen.stateful_set is not None or is_latched(seen))",
        "seen.stateful_set is not None",
        "an old claim keeps a formed cluster's StatefulSet from being made again",
    ),
    Mutant(
        _LEFTOVERS,
        "if not uid or seen.secret is not None or any(claim.record for claim in seen.claims):",
        "if True:",
        "who means to adopt gets an empty cluster (I11)",
    ),
    Mutant(
        _LEFTOVERS,
        "if claim.record and not claim.own_record:",
        "if False:",
        "a restored or cloned claim is served",
    ),
    Mutant(
        _LEFTOVERS,
        "    if claim.deleting:\n        return Wait",
        "    if False:\n        return Wait",
        "a claim that is being deleted is deleted over and over",
    ),
    Mutant(
        _LEFTOVERS,
        "if broken := next((claim for claim in seen.claims if claim.damage), None):",
        "if broken := None:",
        "a cluster is begun over claims whose record cannot be read",
    ),
    # The order of questions, and the children.
    Mutant(
        _PLANNER,
        "    _paused,\n    _names_taken,\n",
        "    _names_taken,\n",
        "paused clusters are written to",
    ),
    Mutant(
        _PLANNER,
        "    _deleting,\n    _paused,\n",
        "    _paused,\n",
        "children are made again while the cluster is being deleted",
    ),
    Mutant(
        _PLANNER,
        "    _paused,\n    _names_taken,\n",
        "    _paused,\n",
        "another owner's object is not noticed (I10)",
    ),
    Mutant(
        _PLANNER,
        "    leftovers.claims_of_another_cluster,\n",
        "",
        "the claims of a deleted cluster are not noticed",
    ),
    Mutant(
        _PLANNER,
        "    leftovers.damaged_claim,\n",
        "",
        "claims that were tampered with are not noticed",
    ),
    Mutant(
        _PLANNER,
        "    leftovers.damaged_leftover,\n",
        "",
        "nobody is told of a claim that was tampered with before the cluster grows to it",
    ),
    Mutant(
        _PLANNER,
        "    bootstrap.latch,\n    recovery.decline,\n    _Starts(tickets.hand_out),\n",
        "    _Starts(tickets.hand_out),\n    bootstrap.latch,\n    recovery.decline,\n",
        "tickets before the latch: `new` although a quorum answers (I4)",
    ),
    Mutant(
        _PLANNER,
        "    blocked.cannot_form,\n",
        "",
        "a cluster that can never form waits without a word",
    ),
    Mutant(
        _PLANNER,
        "    blocked.first_quorum,\n",
        "",
        "settled before anyone has answered",
    ),
    Mutant(
        _CHILDREN,
        "    if is_latched(seen):\n        yield seen.client_service",
        "    if True:\n        yield seen.client_service",
        "clients are let in before the latch",
    ),
    Mutant(
        _PLANNER,
        "        if not seen.is_taken(*children.kind_and_name(manifest))\n",
        "\n",
        "another cluster's Service is taken over (I10)",
    ),
    Mutant(
        _CHILDREN,
        '        final = kind == "StatefulSet"\n',
        "        final = False\n",
        "a StatefulSet is made again with the replicas of an old view (I5)",
    ),
    Mutant(
        _CHILDREN,
        '    if live["metadata"].get("deletionTimestamp"):\n',
        "    if False:\n",
        "a child that is being deleted is written to",
    ),
    Mutant(
        _CHILDREN,
        '        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]\n',
        "",
        "an old view lowers replicas (I5)",
    ),
    Mutant(
        _AWAITED,
        "    return rollback.with_version_advice(seen, Wait(words))",
        "    return None",
        "settled with a pod that does not serve",
    ),
    Mutant(
        _AWAITED,
        "if (pod := seen.pod(ordinal)) is None or not pod.takes_traffic",
        "if (pod := seen.pod(ordinal)) is None or not pod.ready",
        "settled with a pod on its way out",
    ),
    Mutant(
        _CHILDREN,
        "        bootstrap.at_running_version(seen),\n        replicas",
        "        seen.cluster,\n        replicas",
        "an edited version goes into the template without a gate (I9)",
    ),
    # The records.
    Mutant(
        _RECORDS,
        "    if clash := [member for member in tickets if record.challenge(member) is not None]:",
        "    if clash := list[int]():",
        "the ledger takes a second run for one member (I3)",
    ),
    Mutant(
        _RECORDS,
        "return replace(record, issued=tuple(sorted((*record.issued, *tickets.items()))))",
        "return replace(record, issued=tuple(sorted(tickets.items())))",
        "the ledger forgets earlier tickets (I3)",
    ),
    Mutant(
        _LEDGER,
        "known = listed | first | _named(seen)",
        "known = first | _named(seen)",
        "the ticket of a listed member is forgotten: it may get another (I3)",
    ),
    Mutant(
        _LEDGER,
        "known = listed | first | _named(seen)",
        "known = listed | _named(seen)",
        "a first member that was removed counts as one that never had a ticket (I3)",
    ),
    Mutant(
        _LEDGER,
        "    if len(record.issued) < MANY or not record.latched:\n",
        "    if True:\n",
        "a learner that keeps failing fills the Secret",
    ),
    Mutant(
        _LEFTOVERS,
        "        if claim.deleting:\n            continue\n        if claim.damage:\n",
        "        if claim.damage:\n",
        "a human deletes a damaged claim, and its pod runs on for ever",
    ),
    Mutant(
        _RECORDS,
        'token = f"{cluster_uid}-{attempt}"',
        'token = f"{cluster_uid}"',
        "every attempt has the same member IDs (I3)",
    ),
    Mutant(
        "records/bootstrap_json.py",
        "    if written > FORMAT:\n",
        "    if False:\n",
        "an operator that is put back by a version erases what the later one wrote",
    ),
    Mutant(
        _UNTRUSTED,
        "    if not isinstance(value, bool):\n",
        "    if False:\n",
        "a latch that was edited reads as something else than it says",
    ),
    Mutant(
        _MEMBER,
        "    if not annotations[key]:\n",
        "    if False:\n",
        "a blank UID in a record equals one that nobody has set (I6)",
    ),
    Mutant(
        _MEMBER,
        "if not {naming.CLAIM_UID, naming.MEMBER_ID, naming.CLUSTER_ID} & annotations.keys():",
        "if naming.MEMBER_ID not in annotations:",
        "a record whose member was edited away reads as none",
    ),
]
