"""Rules for what only a recovery may do, at a human's request: functions as in `rules`.

`excused` says whether a step is part of a recovery, for which some of the other rules do not apply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etcd_stateful import naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.membership import steps
from etcd_stateful.records.bootstrap import Bootstrap
from model.world import orders, tables
from model.world.state import (
    ETCD,
    LEAVING,
    NONE,
    Claim,
    Member,
    State,
    content_of,
    has_quorum,
    listed,
)


def _record(state: State) -> Bootstrap | None:
    return tables.bootstraps[state.secret] if state.secret != NONE else None


def _word(state: State) -> Recovery | None:
    """`spec.recovery`, if it is for this cluster in its present epoch."""
    record, asked = _record(state), tables.specs[state.spec].cluster.recovery
    if record is None or asked is None or not record.latched or record.declined:
        return None
    meant = (asked.cluster_id, asked.epoch) == (record.cluster_id, record.epoch)
    return asked if meant else None


def _survivor(state: State) -> str:
    record = _record(state)
    return record.survivor if record else ""


def excused(state: State, step: object) -> bool:
    """Whether the step stops every pod, or deletes a volume, as part of a recovery."""
    if isinstance(step, steps.ApplyChild) and step.kind == "StatefulSet":
        spec: Any = step.manifest["spec"]
        return spec["replicas"] == 0
    return isinstance(step, steps.DeleteClaim) and bool(_survivor(state))


def members(state: State) -> tuple[Member, ...]:
    """The members; only the survivor in a new epoch in which nothing has run yet. If the Secret is
    lost, the volumes tell the epoch."""
    record, every = _record(state), state.etcd.members if state.etcd else ()
    if state.etcd is None:
        return every
    found = [(one, content) for one in every if (content := content_of(state, one.ordinal))]
    newest = max((content.epoch for _, content in found), default=state.etcd.epoch)
    epoch = record.epoch if record else newest
    if epoch == state.etcd.epoch:
        return every
    return tuple(one for one, content in found if content.epoch == epoch)


# Of every state.


def i3_no_volume_of_before_runs(state: State) -> str:
    """No volume of an earlier epoch runs, nor one that a Job works on beside a running cluster."""
    etcd = state.etcd
    if etcd is None or etcd.epoch == 1:
        return ""
    for ordinal, pod in enumerate(state.pods):
        content = content_of(state, ordinal)
        if pod is None or pod.where != ETCD or content is None or not content.log:
            continue
        if content.cluster == etcd.cluster and (content.epoch < etcd.epoch or content.aside):
            return f"ordinal {ordinal} runs data of epoch {content.epoch} in {etcd.epoch}"
    return ""


def i7_epoch_is_kept(state: State) -> str:
    """A recreated Secret keeps the epoch too, or volumes of an earlier epoch could run again."""
    record, etcd = _record(state), state.etcd
    if record is None or etcd is None or record.epoch >= etcd.epoch:
        return ""
    hidden = [claim.hidden for claim in state.claims if claim]
    every = (content_of(state, ordinal) for ordinal in range(len(state.pods)))
    if any(one and one.log and one.epoch < etcd.epoch for one in (*hidden, *every)):
        return f"the record is of epoch {record.epoch}, and members ran in {etcd.epoch}"
    return ""


# Of every step.


def i1_stopped_by_word(state: State, step: steps.ApplyChild) -> str:
    """All pods stop only for a recovery that has begun, or that is requested without a quorum."""
    stopped = state.sts != NONE and not tables.objects[state.sts].replicas
    if not excused(state, step) or _survivor(state) or stopped:
        return ""
    if _word(state) is None:
        return "all are stopped without a human's word"
    serves = state.etcd is not None and state.etcd.leader and has_quorum(state)
    return "all are stopped while a quorum serves" if serves else ""


def i7_epoch(state: State, step: steps.WriteBootstrap) -> str:
    """The epoch rises by one, once nothing runs in the previous one, and nothing else changes."""
    old, new = _record(state), step.record
    if old is None or new.epoch == old.epoch:
        return ""
    asked = _word(state)
    if asked is None or new.survivor != asked.survivor:
        return "an epoch without a human's word"
    if new.epoch != old.next_epoch:
        return f"from epoch {old.epoch} to {new.epoch}"
    if any(pod is not None for pod in state.pods):
        return "an epoch ends while there are pods of it"
    same = replace(new, epoch=old.epoch, survivor=old.survivor) == old
    return "" if same else "more than the epoch changes"


def i7_recovered(state: State, step: steps.WriteBootstrap) -> str:
    """The survivor is removed from the record once it is safe and nothing is left of the others."""
    old, new = _record(state), step.record
    if old is None or not old.survivor or new.survivor == old.survivor:
        return ""
    if new.epoch != old.epoch:
        return ""  # The spec names another survivor.
    kept = tables.ordinal_of(old.survivor)
    if (claim := state.claims[kept]) is None or claim.deleting or claim.lost:
        return ""  # It was destroyed since.
    if not _is_safe(state.claims[kept], old.epoch):
        return "the recovery is over before the survivor is of the new epoch"
    for ordinal, claim in enumerate(state.claims):
        if claim and claim.content and claim.content.log and ordinal != kept and not claim.deleting:
            return f"the recovery is over, and the volume of ordinal {ordinal} is there"
    return ""


def _is_safe(claim: Claim | None, epoch: int) -> bool:
    """The claim has the survivor's data, and the epoch for a recreated Secret. What was destroyed
    after the Job had checked it, cannot be known."""
    if claim is None or claim.record is None or claim.deleting or claim.record.epoch != epoch:
        return False
    content = claim.content
    if content is None or content.harm:
        return True
    return content.alone and not content.aside and content.epoch == epoch


def i6_claim_of_before(state: State, step: steps.DeleteClaim) -> str:
    """Claims are deleted only once the survivor is safe, and only those of an earlier epoch."""
    record = _record(state)
    ordinal = tables.ordinal_of(step.name.removeprefix("data-"))
    claim = state.claims[ordinal]
    if record is None or not record.survivor or claim is None:
        return ""
    if ordinal == tables.ordinal_of(record.survivor):
        return "it is the survivor's"
    if claim.record is None or not claim.record.own or claim.record.epoch >= record.epoch:
        return "it is not on record as of before"
    if not _is_safe(state.claims[tables.ordinal_of(record.survivor)], record.epoch):
        return "the survivor is not safe yet"
    return ""


def i8_given_up(state: State, step: steps.DeletePod) -> str:
    """A pod that does not confirm that it has stopped is force-deleted only if a human confirms it,
    or if it is not a member any more."""
    if not step.force:
        return ""
    content = content_of(state, tables.ordinal_of(step.name))
    if content is None or content.member not in listed(state):
        return ""
    asked = tables.specs[state.spec].cluster.recovery
    if asked and step.name in asked.fenced and (_word(state) or _survivor(state)):
        return ""
    return "a member that may run is given up"


def i8_one_etcd_on_the_volume(state: State, step: steps.CreateJob) -> str:
    made, record = orders.ordered(step.manifest), _record(state)
    if record is None or (naming.pod(tables.NAME, made.survivor), made.epoch) != (
        record.survivor,
        record.epoch,
    ):
        return "another Job than is on record"
    if any(pod is not None for pod in state.pods):
        return "a Job beside pods"
    leaves = state.job is not None and state.job.going == LEAVING
    return "a Job beside the pod of the one before" if leaves else ""
