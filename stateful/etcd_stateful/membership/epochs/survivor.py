"""Which member can be the survivor when the quorum is lost, and whether the user asked for it.

Applied entries are committed, and committed entries are the same sequence on all members. So the
member with the highest applied index has everything that the others have. The term does not count:
a member without a leader may raise it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from etcd_stateful import naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.identity import to_hex
from etcd_stateful.manifests.disruption_budget import least_of
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.epochs import in_place_request
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.upkeep import by_hand
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod


def requested(seen: Observation) -> Recovery | None:
    """The recovery that the spec asks for, unless it was carried out already: then it names an
    earlier epoch."""
    asked = seen.cluster.recovery
    if asked is None or not is_latched(seen) or asked.epoch < recorded(seen).epoch:
        return None
    return asked


def accepted(seen: Observation) -> Recovery | None:
    """The recovery that the spec asks for, if it may begin.

    That the operator reaches no member does not prove that the quorum is lost: the kubelets must
    not see one either (`still_serving`), nor may there be one that they cannot see (`unheard`).
    """
    asked = requested(seen)
    if asked is None or seen.etcd is not None or why_not(seen, asked) or still_serving(seen, asked):
        return None
    return None if unheard(seen, asked) else asked


def halted(seen: Observation) -> bool:
    """Whether no pod of the cluster may run, because of a recovery or a restore."""
    record = seen.bootstrap
    begun = record is not None and (record.restoring or bool(record.survivor))
    return begun or in_place_request.halted(seen) or accepted(seen) is not None


def needs_lookup(seen: Observation) -> bool:
    """Whether the shell has to look up the Job and other pods that may use the volumes."""
    record = seen.bootstrap
    if record and (record.restoring or record.survivor or record.successor):
        return True
    asked = requested(seen)
    return asked is not None and not why_not(seen, asked)


def job_name(seen: Observation) -> str:
    """The name of the recovery or restore Job to look up."""
    record = seen.bootstrap
    restores = record and not record.survivor and (record.restoring or record.successor)
    name = seen.cluster.name
    return naming.restore_job(name) if restores else naming.recovery_job(name)


def why_not(seen: Observation, asked: Recovery) -> str:
    """What is wrong with the requested recovery; empty if it may be carried out."""
    if not seen.cluster.durable:
        return (
            "the data of this cluster is in emptyDir volumes and is lost with the pods, which a "
            "recovery has to stop"
        )
    if why := _why_not_meant(seen, asked) or in_place_request.off_record(seen, asked.survivor):
        return why
    if alive := [pod.name for pod in seen.pods if pod.name in asked.fenced and _answers(seen, pod)]:
        return f"spec.recovery.fenced lists {', '.join(alive)}, but {', '.join(alive)} answers"
    seat = roster.seat_named(seen, asked.survivor)
    return _why_no_survivor(seen, asked.survivor, seat) or _why_over(seen, seat)


def _why_over(seen: Observation, seat: Seat | None) -> str:
    """Why such a recovery was carried out before, though the record, which was put back from before
    it, does not know; empty if it was not."""
    held, record = seat.claim.record if seat and seat.claim else None, recorded(seen)
    if held is None or held.epoch <= record.latest_epoch:
        return ""
    return (
        f"it is over, as the claim of its survivor is of epoch {held.epoch} already: remove it, "
        f"and delete Secret {naming.start_secret(seen.cluster.name)}: its record is older, and is "
        "rebuilt from the claims"
    )


def _why_not_meant(seen: Observation, asked: Recovery) -> str:
    """Why the request does not match this cluster, its epoch or this loss of quorum."""
    record = recorded(seen)
    if asked.cluster_id != record.cluster_id:
        return (
            f"it names cluster {to_hex(asked.cluster_id)}, but this one is "
            f"{to_hex(record.cluster_id)} (status.clusterID)"
        )
    if asked.epoch != record.epoch:
        return f"it names epoch {asked.epoch}, but status.epoch of the cluster is {record.epoch}"
    if record.declined:
        return (
            "it was set while a quorum answered, so it does not count for this loss of the quorum: "
            "remove it, and set it again if you still want it"
        )
    return ""


def still_serving(seen: Observation, asked: Recovery) -> list[str]:
    """Pods that may still be part of a quorum: Ready, or with a leader by their own status.

    A pod that is stopping counts until it is gone. Fenced pods do not count: the user says that
    their nodes are off.
    """
    pods = [pod for pod in seen.pods if pod.name not in asked.fenced]
    return [pod.name for pod in pods if pod.ready or _leader(seen, pod.ordinal)]


def _leader(seen: Observation, ordinal: int) -> int:
    status = seen.statuses.get(ordinal)
    return status.leader_id if status else 0


def unheard(seen: Observation, asked: Recovery) -> list[str]:
    """Pods that may serve as a quorum, out of the operator's reach and although none is Ready.

    Under CORRUPT no pod is Ready, nor is one whose node Kubernetes does not reach. Nor is it known
    of a pod that is not the StatefulSet's any more, as somebody has changed its labels. A member
    that answers without a leader speaks for itself alone: the others may go on without it. Once the
    pods are to stop, their silence says nothing any more.
    """
    if seen.stateful_set is not None and seen.replicas == 0:
        return []
    name = seen.cluster.name
    pods = [pod.name for pod in seen.pods if pod.runs_etcd and not pod.crashing]
    pods += [one for one in seen.occupants if naming.ordinal_of(name, one) is not None]
    heard = {naming.pod(name, one) for one in (*seen.statuses, *seen.strangers)}
    names = [one for one in pods if one not in {*asked.fenced, *heard}]
    return names if len(names) >= _least_quorum(seen) else []


def before_may_have_served(seen: Observation, epoch: int) -> bool:
    """Whether members of an epoch before this one may have served since it began: it had begun when
    the record was rebuilt, or enough of their claims are left."""
    held = (one.own_record for one in seen.claims if not one.deleting and is_ours(seen, one))
    before = [one for one in held if one and one.epoch < epoch]
    return epoch <= recorded(seen).begun or len(before) >= _least_quorum(seen)


def _least_quorum(seen: Observation) -> int:
    """How many members are a quorum, without a list: by the record, or fewer by the budget, which
    does not count ordinals that have yet to join."""
    most = roster.quorum(recorded(seen).ordinals)
    return min(most, least_of(seen.disruption_budget or {}) or most)


def candidates(seen: Observation) -> list[Seat]:
    """Members that can be the survivor, the one with the highest applied index first."""
    usable = [seat for seat in roster.seats(seen) if not _why_no_survivor(seen, seat.name, seat)]
    return sorted(usable, key=_order)


def ways_out(seen: Observation) -> str:
    """How the user can get the cluster back. The choice of a survivor is theirs: none is proposed,
    but how far each candidate is."""
    if not seen.cluster.durable:
        return _with_empty_dir(seen)
    usable = candidates(seen)
    if not usable:
        return _without_any_data(seen)
    return (
        "Give the lost members their volumes back; or restore a backup; or continue with the data "
        f"of one member, and lose what only others have: {_how_to_ask(seen, usable)}"
    )


def way_on_alone(seen: Observation) -> str:
    """How the only member goes on without a voter that never ran."""
    usable = candidates(seen)
    if not (usable and seen.cluster.durable):
        return ways_out(seen)
    return f"To continue with it alone, {_how_to_ask(seen, usable)}"


def _how_to_ask(seen: Observation, usable: Sequence[Seat]) -> str:
    record = recorded(seen)
    return (
        "set spec.recovery (docs/recovery.md), with "
        f'clusterID "{to_hex(record.cluster_id)}", epoch {record.epoch} and the survivor that you '
        f"choose: {_choice(usable)}"
    )


def _with_empty_dir(seen: Observation) -> str:
    """What to do if the data is in emptyDir volumes, which a recovery or restore cannot use."""
    return (
        f"{_still_running(seen)}Data in emptyDir volumes is not recovered: restore a backup into a "
        "new cluster with claims, or delete the EtcdCluster and create it again to begin empty"
    )


def _still_running(seen: Observation) -> str:
    """Which members still have data that goes with their pods; empty if none has."""
    left = [seat for seat in roster.seats(seen) if seat.status]
    if not left:
        return ""
    return (
        f"There is data in {wording.in_words(left)}: as long as a pod lives, "
        f"{by_hand.save(seen, 'it')} makes a backup. "
    )


def _without_any_data(seen: Observation) -> str:
    """What to do if no volume has data that could be recovered. If the Secret was lost too, the
    claims' records do not show whether the cluster had formed. Only the user knows."""
    ways, record = "bring a volume back, or restore a backup", recorded(seen)
    if running := _still_running(seen):
        return f"{running}No volume can be recovered: {ways}"
    taken_on = record.attempt == 0 and not record.issued
    empty = all(seat.volume_is_empty for seat in roster.seats(seen))
    if not (taken_on and empty and seen.last_version is None):
        return f"No member's data is left here: {ways}"
    return (
        "No member's data is left here, and nothing shows that there ever was any. If the cluster "
        "has never served, delete the EtcdCluster and its claims, and create it again; otherwise "
        f"{ways}"
    )


def _order(seat: Seat) -> tuple[int, int]:
    """By applied index, highest first. Members that do not answer come last: theirs is unknown."""
    return (-seat.status.applied_index if seat.status else 1, seat.ordinal)


def _choice(usable: Sequence[Seat]) -> str:
    """How far each candidate is, for the user to choose by."""
    said = ", ".join(_progress(seat) for seat in usable)
    if any(seat.status is None for seat in usable) and len(usable) > 1:
        return f"{said}; start those that do not answer first, as one of them may have more"
    return f"{said}; the highest index has all that the others have" if len(usable) > 1 else said


def _progress(seat: Seat) -> str:
    """The term is left out: without a quorum it may rise at every election timeout, and each other
    message is a write of the status and an Event."""
    if seat.status is None:
        return f"{seat.name} (does not answer)"
    return f"{seat.name} (index {seat.status.applied_index})"


def _why_no_survivor(seen: Observation, name: str, seat: Seat | None) -> str:
    claim = seat.claim if seat else None
    if seat is None or claim is None:
        return f"{name} has no claim"
    if why := why_no_claim(seen, claim) or _why_anothers(seen, seat):
        return why
    if seat.found in ("no-data", "damaged"):
        return f"the volume of {name} holds no usable data"
    if seat.status and seat.status.learner:
        return f"{name} is a learner, and etcd cannot make a cluster of one out of a learner"
    return f"the node that the volume of {name} lies on is gone" if _node_gone(seat) else ""


def _why_anothers(seen: Observation, seat: Seat) -> str:
    """Why the data on the volume is not, or not yet, this member's; empty if it is.

    That is so if etcd's log is another member's, or if the marker names another cluster: the claim
    is recorded before the pod has its ticket to adopt the data, and the Job goes by the marker. A
    marker of another epoch alone does not say so: it may be from a recovery that is no longer on
    record.
    """
    if seat.found != "foreign-data" or seat.pod is None or seat.pod.answer is None:
        return ""
    finding, record = seat.pod.answer.finding, seat.record
    held = (record.member_id, record.cluster_id) if record else None
    if finding.member_id is not None and (finding.member_id, finding.cluster_id) != held:
        return f"the volume of {seat.name} holds the data of another member"
    if finding.cluster_uid in (None, seen.cluster.uid):
        return ""
    return (
        f"{seat.name} has not adopted its data from cluster {finding.cluster_uid} yet "
        "(spec.retainedClaims.adopt)"
    )


def why_no_claim(seen: Observation, claim: Claim) -> str:
    """Why the volume of a claim cannot be used, as far as its record tells."""
    record = claim.record
    if claim.damage or record is None:
        return f"claim {claim.name} does not say whose data it holds"
    if claim.deleting or claim.phase == "Lost":
        return f"the volume of claim {claim.name} is lost"
    if record.claim_uid != claim.uid:
        return f"claim {claim.name} was restored or cloned"
    if not is_ours(seen, claim):
        return f"claim {claim.name} holds data of another cluster"
    every = [one.record.epoch for one in seen.claims if one.record and is_ours(seen, one)]
    # A recovery that was lost with the Secret has ended nothing: either data may be the right one.
    newest = max((one for one in every if one > recorded(seen).begun), default=0)
    if record.epoch < newest:
        return f"claim {claim.name} is of epoch {record.epoch}, but others are of {newest}"
    return ""


def is_ours(seen: Observation, claim: Claim) -> bool:
    """Whether the claim is recorded to hold data of this very cluster."""
    record = claim.record
    return bool(
        record
        and record.cluster_uid == seen.cluster.uid
        and record.cluster_id == recorded(seen).cluster_id
    )


def _answers(seen: Observation, pod: Pod) -> bool:
    return pod.answer is not None or pod.ordinal in seen.statuses


def _node_gone(seat: Seat) -> bool:
    return bool(seat.pod and seat.pod.node_gone)
