"""Who may go on alone when the quorum is lost, and whether a human has asked for it.

What a survivor has applied was committed, and what is committed is one sequence for all members: of
two, the one with the higher applied index has everything that the other has. So the index chooses;
the term, which a member without a leader may raise by itself, does not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from etcd_stateful import naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import in_place_request, roster
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod


def asked_for(seen: Observation) -> Recovery | None:
    """A recovery that the spec asks for and that has not been carried out.

    One that names an epoch that is over is spent, and no words are lost on it.
    """
    asked = seen.cluster.recovery
    if asked is None or not is_latched(seen) or asked.epoch < recorded(seen).epoch:
        return None
    return asked


def accepted(seen: Observation) -> Recovery | None:
    """The recovery that is asked for, where nothing stands against it.

    An operator that reaches no member is no proof of a lost quorum: the kubelets have to agree.
    """
    asked = asked_for(seen)
    if asked is None or seen.etcd is not None or why_not(seen, asked) or served(seen, asked):
        return None
    return asked


def halted(seen: Observation) -> bool:
    """Whether no pod of the cluster may run: a recovery is to begin, or is not over; or a backup is
    being restored, or is to take the cluster's place."""
    record = seen.bootstrap
    if record is None or not record.latched:
        return bool(record and record.restoring)
    return bool(record.survivor) or in_place_request.halted(seen) or accepted(seen) is not None


def is_looked_at(seen: Observation) -> bool:
    """Whether the Job and strangers in the pods' places matter."""
    record = seen.bootstrap
    if record is None or not record.latched:
        return bool(record and record.restoring)
    if record.survivor or record.successor:
        return True
    asked = asked_for(seen)
    return asked is not None and not why_not(seen, asked)


def job_name(seen: Observation) -> str:
    """Of the Job that is looked at."""
    record = seen.bootstrap
    restores = record and not record.survivor and (record.restoring or record.successor)
    name = seen.cluster.name
    return naming.restore_job(name) if restores else naming.recovery_job(name)


def why_not(seen: Observation, asked: Recovery) -> str:
    """What the recovery gets wrong, in words; empty where it may go ahead without a quorum."""
    if not seen.cluster.durable:
        return (
            "the data of this cluster is in emptyDir volumes and goes with the pods, which a "
            "recovery has to stop"
        )
    if why := _why_not_meant(seen, asked):
        return why
    if alive := [pod.name for pod in seen.pods if pod.name in asked.fenced and _speaks(seen, pod)]:
        return f"it calls {', '.join(alive)} fenced, and {', '.join(alive)} answers"
    return _why_no_survivor(seen, asked.survivor, roster.named(seen, asked.survivor))


def _why_not_meant(seen: Observation, asked: Recovery) -> str:
    """Why these words are not for this cluster, as it is now."""
    record = recorded(seen)
    if asked.cluster_id != record.cluster_id:
        return (
            f"it names cluster {to_hex(asked.cluster_id)}, and this one is "
            f"{to_hex(record.cluster_id)} (status.clusterID)"
        )
    if asked.epoch != record.epoch:
        return f"it names epoch {asked.epoch}, and this is {record.epoch} (status.epoch)"
    if record.declined:
        return (
            "it was set while a quorum answered, so it is no answer to the loss of the quorum: "
            "remove it, and set it anew if it is still what you want"
        )
    return ""


def served(seen: Observation, asked: Recovery) -> list[str]:
    """Pods that may still be of a quorum: Ready to the kubelet, or with a leader by their own word.

    One that is stopping serves until it has. The human knows better about the fenced ones, whose
    nodes do not answer.
    """
    pods = [pod for pod in seen.pods if pod.name not in asked.fenced]
    return [pod.name for pod in pods if pod.ready or _leader(seen, pod.ordinal)]


def _leader(seen: Observation, ordinal: int) -> int:
    status = seen.statuses.get(ordinal)
    return status.leader_id if status else 0


def candidates(seen: Observation) -> list[Seat]:
    """Members whose data may be gone on with, the one that has the most first."""
    able = [seat for seat in roster.seats(seen) if not _why_no_survivor(seen, seat.name, seat)]
    return sorted(able, key=_order)


def ways_out(seen: Observation) -> str:
    """What to put into the spec, and which choice it stands for."""
    if not seen.cluster.durable:
        return _of_pods(seen)
    able = candidates(seen)
    if not able:
        return _without_any_data(seen)
    best = able[0]
    record = recorded(seen)
    text = json.dumps(
        {"survivor": best.name, "clusterID": to_hex(record.cluster_id), "epoch": record.epoch}
    )
    return (
        "Give the lost members their volumes back; or restore a backup; or go on with what one "
        f"member has, at the loss of what only others have: spec.recovery: {text}. "
        f"{_choice(able)}"
    )


def _of_pods(seen: Observation) -> str:
    """Nothing lasts beyond its pod there, and neither a recovery nor a restore can use it."""
    left = [seat for seat in roster.seats(seen) if seat.status]
    kept = (
        f"There is data in {roster.in_words(left)}: as long as a pod lives, etcdctl snapshot save "
        "in it makes a backup. "
    )
    return (
        f"{kept if left else ''}Data in emptyDir volumes is not recovered: restore a backup into a "
        "new cluster with claims, or delete the EtcdCluster and create it again to begin empty"
    )


def _without_any_data(seen: Observation) -> str:
    """A Secret that was lost before the cluster had formed leaves claims with records, which may as
    well be of one that had: only a human knows."""
    ways, record = "bring a volume back, or restore a backup", recorded(seen)
    taken_on = record.attempt == 0 and not record.issued
    empty = all(seat.waits_empty for seat in roster.seats(seen))
    if not (taken_on and empty and seen.last_version is None):
        return f"No member's data is left here: {ways}"
    return (
        "No member's data is left here, and nothing tells that there ever was any. If the cluster "
        f"has never served, delete the EtcdCluster and its claims, and create it again; else {ways}"
    )


def _order(seat: Seat) -> tuple[int, int]:
    """Those that do not answer come last: they may have any index."""
    return (-seat.status.applied_index if seat.status else 1, seat.ordinal)


def _choice(able: Sequence[Seat]) -> str:
    said = ", ".join(_progress(seat) for seat in able)
    if any(seat.status is None for seat in able) and len(able) > 1:
        return f"Of {said}, start those that do not answer first: one of them may have more"
    return f"{said}: the highest index has all that the others have" if len(able) > 1 else said


def _progress(seat: Seat) -> str:
    if seat.status is None:
        return f"{seat.name} (does not answer)"
    return f"{seat.name} (index {seat.status.applied_index}, term {seat.status.term})"


def _why_no_survivor(seen: Observation, name: str, seat: Seat | None) -> str:
    claim = seat.claim if seat else None
    if seat is None or claim is None:
        return f"{name} has no claim"
    if why := why_no_claim(seen, claim):
        return why
    if seat.found in ("no-data", "damaged"):
        return f"the volume of {name} holds no usable data"
    if _holds_anothers(seat):
        return f"the volume of {name} holds the data of another member"
    if seat.status and seat.status.learner:
        return f"{name} is a learner, and etcd makes no cluster of one out of a learner"
    return f"the node that the volume of {name} lies on is gone" if _node_gone(seat) else ""


def _holds_anothers(seat: Seat) -> bool:
    """By the log. A marker of another epoch may be of a recovery that is on record no more."""
    if seat.found != "foreign-data" or seat.pod is None or seat.pod.answer is None:
        return False
    finding, record = seat.pod.answer.finding, seat.record
    held = (record.member_id, record.cluster_id) if record else None
    return finding.member_id is not None and (finding.member_id, finding.cluster_id) != held


def why_no_claim(seen: Observation, claim: Claim) -> str:
    """Why the volume of a claim cannot be gone on with, as far as its record tells."""
    record = claim.record
    if claim.damage or record is None:
        return f"claim {claim.name} does not say whose data it holds"
    if claim.deleting or claim.phase == "Lost":
        return f"the volume of claim {claim.name} is lost"
    if record.claim_uid != claim.uid:
        return f"claim {claim.name} was restored or cloned"
    if not is_ours(seen, claim):
        return f"claim {claim.name} holds data of another cluster"
    newest = max(one.record.epoch for one in seen.claims if one.record and is_ours(seen, one))
    if record.epoch < newest:
        return f"claim {claim.name} is of epoch {record.epoch}, and others of {newest}"
    return ""


def is_ours(seen: Observation, claim: Claim) -> bool:
    """Whether it is on record that the claim holds data of this very cluster."""
    record = claim.record
    return bool(
        record
        and record.cluster_uid == seen.cluster.uid
        and record.cluster_id == recorded(seen).cluster_id
    )


def _speaks(seen: Observation, pod: Pod) -> bool:
    return pod.answer is not None or pod.ordinal in seen.statuses


def _node_gone(seat: Seat) -> bool:
    return bool(seat.pod and seat.pod.node_gone)
