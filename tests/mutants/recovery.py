"""Faults in the recovery from a lost quorum."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_GATEWAY = "operator/etcd_operator/recover/gateway.py"
_QUORUM = "membership/epochs/quorum.py"
_RECORDS = "records/bootstrap.py"
_RECOVER = "jobs/recover.py"
_RECOVERY = "membership/epochs/recovery.py"
_REMEMBERED = "membership/beginning/remembered.py"
_REPLICAS = "membership/members/replicas.py"
_SURVIVOR = "membership/epochs/survivor.py"
_TICKETS = "membership/beginning/tickets.py"

MUTANTS: Final = [
    Mutant(
        _RECOVERY,
        'return f"{words}. What it names now is refused: {why}" if why else words',
        "return words",
        "a survivor that cannot be is named without an answer",
    ),
    # When it may begin.
    Mutant(
        _SURVIVOR,
        "or seen.etcd is not None or why_not(seen, asked) or still_serving",
        "or why_not(seen, asked) or still_serving",
        "a cluster with a quorum is stopped",
    ),
    Mutant(
        _SURVIVOR,
        " or still_serving(seen, asked):",
        ":",
        "an operator that reaches nobody stops a cluster that serves",
    ),
    Mutant(
        _SURVIVOR,
        "return None if unheard(seen, asked) else asked",
        "return asked",
        "an operator that reaches nobody stops a cluster that serves under CORRUPT",
    ),
    Mutant(
        _SURVIVOR,
        "if seen.stateful_set is not None and seen.replicas == 0:",
        "if False:",
        "pods that stop for a recovery are started again",
    ),
    Mutant(
        _SURVIVOR,
        "if one not in {*asked.fenced, *heard}]",
        "if one not in {*asked.fenced, *heard} and not seen.statuses]",
        "one member without a leader speaks for those that serve out of the operator's reach",
    ),
    Mutant(
        _SURVIVOR,
        "return min(most, least_of(seen.disruption_budget or {}) or most)",
        "return most",
        "pods that have yet to join make a serving member a minority",
    ),
    Mutant(
        _SURVIVOR,
        "    if running := _still_running(seen):\n",
        "    if running := '':\n",
        "a member that still runs on a deleted claim is said to have no data",
    ),
    Mutant(
        _SURVIVOR,
        "if not (taken_on and empty and seen.last_version is None):",
        "if not (taken_on and empty):",
        "whoever lost a cluster's data is told that there never was any",
    ),
    Mutant(_SURVIVOR, "if pod.ready or _leader(", "if _leader(", "kubelets are not asked"),
    Mutant(
        _SURVIVOR,
        "if pod.ready or _leader(seen, pod.ordinal)]",
        "if pod.ready]",
        "members that follow a leader are stopped",
    ),
    Mutant(
        _SURVIVOR,
        "asked.epoch < recorded(seen).epoch",
        "False",
        "words that are spent hold the cluster for ever",
    ),
    Mutant(
        _SURVIVOR,
        "if asked.cluster_id != record.cluster_id:",
        "if False:",
        "a recovery meant for another cluster",
    ),
    Mutant(
        _SURVIVOR,
        "if asked.epoch != record.epoch:",
        "if False:",
        "a recovery of an epoch to come is carried out",
    ),
    Mutant(
        _SURVIVOR,
        "if record.declined:",
        "if False:",
        "what was asked for on a good day is done on a bad one",
    ),
    Mutant(
        _SURVIVOR,
        "if not seen.cluster.durable:\n        return (",
        "if False:\n        return (",
        "the only copy of the data goes with its pod",
    ),
    Mutant(
        _SURVIVOR,
        'if seat.found in ("no-data", "damaged"):',
        "if False:",
        "an empty volume is gone on with",
    ),
    Mutant(
        _SURVIVOR,
        "if seat.status and seat.status.learner:",
        "if False:",
        "a learner, of which etcd makes no cluster, once its volume is spoilt",
    ),
    Mutant(
        _SURVIVOR,
        "if record.epoch < newest:",
        "if False:",
        "a volume of an epoch that is over is gone on with",
    ),
    Mutant(
        _SURVIVOR,
        "if record.claim_uid != claim.uid:",
        "if False:",
        "a clone of a survivor's claim is gone on with",
    ),
    Mutant(
        _SURVIVOR,
        "if alive := [",
        "if alive := [] and [",
        "a pod that answers is given up by force",
    ),
    Mutant(
        _SURVIVOR,
        "(-seat.status.applied_index if seat.status else 1, seat.ordinal)",
        "(-seat.status.term if seat.status else 1, seat.ordinal)",
        "the member with less data is offered",
    ),
    Mutant(
        _SURVIVOR,
        "pods = [pod for pod in seen.pods if pod.name not in asked.fenced]",
        "pods = [p for p in seen.pods if not p.deleting and p.name not in asked.fenced]",
        "a quorum that came back while all stop is taken for lost",
    ),
    Mutant(
        "membership/members/budget.py",
        "roster.quorum(max(replicas.wanted(seen), recorded(seen).ordinals))",
        "roster.quorum(replicas.wanted(seen))",
        "a budget that is made while all stop lets all but one go",
    ),
    # Up to the raise of the epoch.
    Mutant(
        _RECOVERY,
        "return _stopped(seen, asked.fenced) or _discard_restored(seen)",
        "return _discard_restored(seen)",
        "another epoch begins while pods of this one run",
    ),
    Mutant(
        _RECOVERY,
        "return _stopped(seen, fenced) or _finish(seen)",
        "return _finish(seen)",
        "the Job runs the survivor's volume beside a pod that somebody has had made meanwhile",
    ),
    Mutant(
        _RECOVERY,
        "if pod.name in fenced and pod.deleting and pod.overdue:",
        "if pod.deleting and pod.overdue:",
        "a pod is given up without a human's word",
    ),
    Mutant(
        _RECOVERY,
        "if pod.name in fenced and pod.deleting and pod.overdue:",
        "if pod.name in fenced and pod.deleting:",
        "a pod on a node that answers is given no time to stop",
    ),
    Mutant(
        _RECOVERY,
        "others = [name for name in seen.occupants if not _is_of_job(seen, name)]",
        "others: list[str] = []",
        "a pod without its labels goes on beside the new epoch",
    ),
    Mutant(
        _RECOVERY, "        final=True,\n", "", "the epoch is raised on the word of an old view"
    ),
    Mutant(
        _REPLICAS,
        "if survivor.halted(seen) or _retired_runs(seen):\n        return 0",
        "if _retired_runs(seen):\n        return 0",
        "nothing is ever stopped",
    ),
    Mutant(
        _REPLICAS,
        "if survivor.halted(seen) or _retired_runs(seen):\n        return 0",
        "if survivor.halted(seen):\n        return 0",
        "a restored cluster is started beside pods of the one that it replaced (I11)",
    ),
    # The Job.
    Mutant(
        _RECOVERY,
        "    if step := volume_jobs.wait_for_occupants(seen):\n",
        "    if step := None:\n",
        "two Jobs' pods on one volume",
    ),
    Mutant(
        "membership/epochs/volume_jobs.py",
        " or wait_for_occupants(seen)",
        "",
        "the survivor starts beside a pod of the Job",
    ),
    Mutant(
        _RECOVERY,
        "if (job.survivor, job.epoch) != (record.survivor, record.epoch):",
        "if False:",
        "the Job of an earlier recovery counts for this one",
    ),
    Mutant(
        _RECOVERY,
        "    if job.stranger:\n",
        "    if False:\n",
        "another owner's Job is deleted (I10)",
    ),
    Mutant(
        _RECOVERY,
        'if job.state == "complete":',
        'if job.state != "failed":',
        "a Job that runs counts as done: the others' volumes go before the survivor is safe",
    ),
    Mutant(
        _RECOVERY,
        'if job.state != "complete" and (edited or job.unpullable):',
        "if edited or job.unpullable:",
        "a Job that is done is done again",
    ),
    Mutant(
        "manifests/jobs.py",
        '"podReplacementPolicy": "Failed",',
        "",
        "two pods on the volume",
    ),
    Mutant(
        "manifests/volume_job.py",
        "naming.LABEL_NAME: LABEL,",
        'naming.LABEL_NAME: "etcd",',
        "clients are led to the Job, and its pod may be taken for a member",
    ),
    Mutant(
        _RECOVERY,
        " if held.epoch == record.epoch else _run(seen, claim, held)\n",
        "\n",
        "the others' volumes go, and no Job has ever run",
    ),
    # What follows it.
    Mutant(
        _RECOVERY,
        "old = [claim for claim in others if _is_from_earlier_epoch(seen, claim)]",
        "old = [*(claim for claim in others if _is_from_earlier_epoch(seen, claim)), kept]",
        "the survivor's own claim is deleted",
    ),
    Mutant(
        _RECOVERY,
        "        if claim.deleting and claim.ordinal < kept.ordinal:\n",
        "        if True:\n",
        "a finalizer on one old claim keeps the survivor down for ever",
    ),
    Mutant(
        _RECOVERY,
        "ends = (seen.cluster.size, stop, ",
        "ends = (seen.cluster.size, ",
        "pods are asked for whose old claims are still being deleted",
    ),
    Mutant(
        _RECOVERY,
        " and record.epoch < recorded(seen).epoch)",
        ")",
        "a claim of the new epoch is deleted",
    ),
    Mutant(
        _RECOVERY,
        "    record = claim.own_record\n",
        "    record = claim.record\n",
        "a restored claim is deleted (I6)",
    ),
    Mutant(
        _RECOVERY,
        "return bool(record and survivor.is_ours(seen, claim) and",
        "return bool(record and",
        "another cluster's claim is deleted (I6)",
    ),
    Mutant(
        _RECOVERY,
        "(claim, replace(held, epoch=epoch), reason)",
        "(claim, held, reason)",
        "the claim does not remember the epoch",
    ),
    Mutant(
        _RECORDS,
        'return replace(record, survivor="", members=(), size=size)',
        'return replace(record, survivor="", members=(), size=size, issued=())',
        "the ledger forgets tickets that were given (I3)",
    ),
    Mutant(
        "records/member.py",
        "        epoch=record.epoch,\n        peer_scheme",
        "        epoch=1,\n        peer_scheme",
        "claims of members that join are of an epoch that is over",
    ),
    Mutant(
        "records/member.py",
        "if not text.isascii() or not text.isdigit() or len(text) > 9 or not int(text):",
        "if not text.isascii():",
        "a claim that somebody has edited to epoch 0 is trusted",
    ),
    Mutant(
        "records/bootstrap_json.py",
        "if type(value) is not int or value < FIRST_EPOCH:",
        "if type(value) is not int:",
        "a bootstrap record that somebody has edited to epoch 0 decides which volumes run",
    ),
    Mutant(
        _REMEMBERED,
        "return max(known, default=FIRST_EPOCH)",
        "return FIRST_EPOCH",
        "a Secret that is made again lets volumes of before run",
    ),
    Mutant(
        _REMEMBERED,
        "begun = max([epoch_of_pods(seen), untold, *(one.epoch for one in held)])",
        "begun = max(epoch_of_pods(seen), untold)",
        "a recovery begins the epoch of a volume that a cancelled restore has left",
    ),
    Mutant(
        _REMEMBERED,
        "epoch + _PASSED_OVER if own",
        "0 if own",
        "a restored cluster serves beside the survivor of a recovery that was lost",
    ),
    Mutant(
        _REMEMBERED,
        "epoch + _PASSED_OVER if own and seen",
        "epoch + _PASSED_OVER if seen",
        "the data of an unfinished recovery cannot be adopted",
    ),
    Mutant(
        _RECOVERY,
        " or _take_off_claim(seen, at[0], epoch)",
        "",
        "what was written after a lost recovery is given up with the next loss of the Secret",
    ),
    Mutant(
        _RECOVERY,
        "if [one.name for one, _ in held] != [naming.claim_of(name)]:",
        "if naming.claim_of(name) not in [one.name for one, _ in held]:",
        "the claim of a survivor that others have joined is of an epoch that has ended",
    ),
    Mutant(
        _QUORUM,
        "    if enough or _is_survivor_starting(seen, lost):\n",
        "    if enough:\n",
        "a human is called to a cluster that is just beginning again",
    ),
    Mutant(
        _QUORUM,
        "(kept == known or not seen.statuses)",
        "not seen.statuses",
        "a human is called to a survivor that has yet to lead itself",
    ),
    Mutant(
        "membership/members/replace.py",
        " or _is_from_earlier_epoch(seen, claim, pod)):",
        "):",
        "a volume of before is in the way for ever",
    ),
    Mutant(
        "membership/rolling/roll.py",
        "return edited or is_of_past_epoch(seen, pod)",
        "return edited",
        "a pod of the epoch before waits for ever",
    ),
    Mutant(
        _TICKETS,
        "if pod.finding and not is_of_past_epoch(seen, pod)",
        "if pod.finding",
        "a ticket is sent again and again to a pod of the epoch before",
    ),
    # What the Job does to the volume.
    Mutant(
        _RECOVER,
        "if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):",
        "if False:",
        "another member's volume is made a cluster of one",
    ),
    Mutant(
        _RECOVER,
        "if named.epoch >= order.settings.epoch:",
        "if False:",
        "a volume of a later epoch is taken back to an earlier one",
    ),
    Mutant(
        _RECOVER,
        "if replace(named, epoch=order.settings.epoch) != order.marker:",
        "if False:",
        "another cluster's volume is made this one",
    ),
    Mutant(
        _RECOVER,
        "    if aside is None:\n",
        "    if False:\n",
        "a log without any marker is gone on with",
    ),
    Mutant(
        _RECOVER,
        "options=kept, listen_host=LOOPBACK",
        "options=kept",
        "clients and old members reach the survivor before it is safe",
    ),
    Mutant(
        _RECOVER,
        "if listed.get(order.member_id) is not False:",
        "if order.member_id not in listed:",
        "a learner that is alone counts as a cluster",
    ),
    Mutant(
        _GATEWAY,
        "urllib.request.ProxyHandler({})",
        "urllib.request.ProxyHandler()",
        "a proxy of the environment is told the password of root",
    ),
    Mutant(
        _SURVIVOR,
        "    if not is_ours(seen, claim):\n",
        "    if False:\n",
        "a cluster is gone on with from the data of another",
    ),
]
