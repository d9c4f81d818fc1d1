"""Writes that have failed and are put off: until they are retried, what does not depend on them
goes on.

The API server may refuse a write, or somebody may undo it each time. `Observation.put_off` keeps
such writes, each under the kind and name of what it would have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.start_settings import epoch_in, levels_in
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership import children, roster
from etcd_stateful.membership.beginning import leftovers
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    ExpandClaim,
    IssueCertificate,
    PushTicket,
    RecordMember,
    RotateAuthority,
    Step,
    TakeCertificate,
    TouchStatefulSet,
)
from etcd_stateful.membership.tls import issued
from etcd_stateful.observed.certificates import usable
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.put_off import (
    CERTIFICATE,
    DELETION,
    POD_DELETION,
    SIZE,
    PutOff,
    of_secret,
    of_size,
    of_uid,
)

_OfSecret = IssueCertificate | TakeCertificate | RotateAuthority
_OfPod = RecordMember | DeleteClaim | DeletePod | CreateJob | DeleteJob | PushTicket
Postponable = ApplyChild | TouchStatefulSet | ExpandClaim | _OfPod | _OfSecret

_TOUCH: Final = "a touch of StatefulSet"
_TICKET: Final = "the start ticket of pod"
_RECORD: Final = "the member record on"
_JOB_DELETION: Final = "the deletion of Job"

_NEEDED: Final = "what is needed of"
"""Before the kind, for a write that all else waits for."""

_JOB: Final = "Job"
_FOR_RESTORES: Final = frozenset({"PersistentVolumeClaim", _JOB})
"""Kinds of what a restore in place creates beside a cluster that serves."""

_KINDS: Final[Mapping[type[Step], str]] = {
    TouchStatefulSet: _TOUCH,
    RecordMember: _RECORD,
    DeleteClaim: DELETION,
    DeletePod: POD_DELETION,
    ExpandClaim: SIZE,
    CreateJob: _JOB,
    DeleteJob: _JOB_DELETION,
}
"""In `Observation.put_off`, in place of the kind that an ApplyChild names."""


def name_of(step: Postponable) -> tuple[str, str]:
    """The key under which a failed write is kept in `Observation.put_off`."""
    if isinstance(step, _OfSecret):
        return CERTIFICATE, step.need.secret
    if isinstance(step, PushTicket):
        return _TICKET, step.pod
    return step.kind if isinstance(step, ApplyChild) else _KINDS[type(step)], step.name


def name_if_needed(step: Postponable) -> tuple[str, str]:
    """The same for one that all else waits for, but changes of users and roles."""
    kind, name = name_of(step)
    return f"{_NEEDED} {kind}", name


def is_tried_again(seen: Observation, step: Step) -> bool:
    """Whether the same write has just failed, and all else waits for it."""
    if not isinstance(step, Postponable):
        return False
    failed = seen.put_off.get(name_if_needed(step))
    return failed is not None and failed.is_of(made_by(step))


def made_by(step: Postponable) -> Manifest:
    """What was written, to tell whether it is the same write the next time."""
    if isinstance(step, PushTicket):
        return {"metadata": {}, "ticket": step.ticket}
    if isinstance(step, RecordMember):
        return {"metadata": {"uid": step.uid}, "record": step.record}
    if isinstance(step, _OfSecret):
        return of_secret(step.resource_version)
    if isinstance(step, ExpandClaim):
        return of_size(step.uid, step.storage)
    if isinstance(step, DeleteClaim | DeletePod | DeleteJob):
        return of_uid(step.uid)
    return step.manifest if isinstance(step, ApplyChild | CreateJob) else {"metadata": {}}


def may_wait(seen: Observation, step: Step) -> bool:
    """Whether members do not depend on this write, so that nothing has to wait if it fails."""
    match step:
        case TouchStatefulSet() | PushTicket() | ExpandClaim():
            # The controller retries by itself, later; a pod may wait for its ticket; members serve
            # on the volumes that they have.
            return True
        case RecordMember():
            return _is_before_ticket(seen, step) or _is_of_successor(seen, step.name)
        case DeleteClaim() | DeletePod() | DeleteJob():
            return _may_stay(seen, step)
        case IssueCertificate() | TakeCertificate() | RotateAuthority():
            return is_latched(seen) and _can_do_without(seen, step)
        case ApplyChild() | CreateJob():
            return _is_dispensable(seen, step)
        case _:
            return False


def last_failure(seen: Observation, step: Step | None) -> PutOff | None:
    """How the same write has just failed, if nothing waits for it until it is retried."""
    if not isinstance(step, Postponable):
        return None
    failed = seen.put_off.get(name_of(step))
    is_same = failed is not None and failed.is_of(made_by(step))
    return failed if is_same and may_wait(seen, step) else None


def holds_up_template(seen: Observation) -> bool:
    """Whether the StatefulSet has an outdated template because writing it has failed. Then no pod
    is restarted for the new template, and nothing that needs it begins."""
    return version_first.is_held_up(seen) and any(
        step.kind == "StatefulSet" for step in _children(seen)
    )


def in_words(seen: Observation) -> str:
    """Why writes that nothing waits for have failed; empty if none has."""
    said = [seen.put_off[step.kind, step.name].why for step in _children(seen)]
    kinds = {CERTIFICATE, DELETION, POD_DELETION, _JOB_DELETION, SIZE, _TICKET, _RECORD}
    kinds.update([_TOUCH] if seen.stalled else ())
    kinds.update(_FOR_RESTORES if seen.restore else ())
    said += [one.why for (kind, _), one in seen.put_off.items() if kind in kinds]
    return "; ".join(said)


def _children(seen: Observation) -> list[ApplyChild]:
    """The children that are due, but whose write has just failed and is retried later."""
    if not seen.put_off or seen.bootstrap is None:
        return []  # what is due depends on the record, which is written first
    wanted = (*children.required(seen), *children.optional(seen), *issued.children(seen))
    steps = (children.put_back(live, manifest) for live, manifest in wanted)
    return [step for step in steps if isinstance(step, ApplyChild) and last_failure(seen, step)]


def _is_dispensable(seen: Observation, step: ApplyChild | CreateJob) -> bool:
    """Whether members can do without the object, or with the live one as it is."""
    kind, name = name_of(step)
    if kind in _FOR_RESTORES:
        return is_latched(seen) and not recorded(seen).survivor
    does = _is_like if kind == "StatefulSet" else _names_pods
    return children.is_optional(seen, kind, name) or does(seen, step.manifest)


def _is_like(seen: Observation, manifest: Mapping[str, Any]) -> bool:
    """Whether members can do with the live StatefulSet in place of this one: it has no more
    replicas, some if it should, and the same version, epoch, links and trusted authorities."""
    live = seen.stateful_set
    if live is None or version_of(live) != version_of(manifest):
        return False
    has, to_be = live["spec"]["template"]["spec"], manifest["spec"]["template"]["spec"]
    same = all(tell(has) == tell(to_be) for tell in (epoch_in, levels_in, trust_in))
    wanted = manifest["spec"]["replicas"]
    return same and min(1, wanted) <= seen.replicas <= wanted


def _names_pods(seen: Observation, manifest: Mapping[str, Any]) -> bool:
    """Whether it is the headless Service, and the live one differs in metadata alone."""
    live = seen.headless_service if manifest["kind"] == "Service" else None
    return live is not None and drift(live["spec"], manifest["spec"]) is None


def _is_before_ticket(seen: Observation, step: RecordMember) -> bool:
    """Whether only the ticket of a pod that waits for it depends on the record."""
    waiting = (pod.name for pod in seen.pods if pod.finding)
    return any(step.name in (name, naming.claim_of(name)) for name in waiting)


def _is_of_successor(seen: Observation, claim: str) -> bool:
    """Whether the claim is that of a restore in place, beside a cluster that serves."""
    taking = seen.bootstrap.successor if seen.bootstrap else None
    if taking is None or seen.etcd is None:
        return False
    return claim == naming.claim(seen.cluster.name, taking.ordinal)


def _may_stay(seen: Observation, step: DeleteClaim | DeletePod | DeleteJob) -> bool:
    """A pod whose member serves may not: an edit for which all pods have to be restarted would go
    on without it. A Job may if nothing needs it (`blocked.starts`)."""
    if isinstance(step, DeleteJob):
        return is_latched(seen) and not survivor.needs_lookup(seen)
    if isinstance(step, DeleteClaim):
        meant = (claim for claim in seen.claims if claim.uid == step.uid)
        return _is_of_successor(seen, step.name) or any(_is_of_no_use(seen, one) for one in meant)
    seat = roster.seat_named(seen, step.name)
    return seat is None or not seat.serves


def _is_of_no_use(seen: Observation, claim: Claim) -> bool:
    """Whether the claim is of a removed member, so that at most a new one in its place depends on
    it, or of an epoch that a recovery or a restore in place has ended, so that none starts on it.
    """
    record, held = seen.bootstrap, claim.record
    if record is None:
        return False  # a claim that is discarded, which everything waits for
    is_old = held is not None and held.epoch < record.epoch
    return is_old or leftovers.is_removed_members(seen, claim)


def _can_do_without(seen: Observation, step: _OfSecret) -> bool:
    """Whether the certificate in the Secret is usable, or is only for applications."""
    need = step.need
    return need.role == "application" or usable(seen.certificate_for(need)) is not None
