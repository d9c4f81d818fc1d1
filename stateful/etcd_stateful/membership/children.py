"""The objects that a cluster owns besides its Secrets: how they should be, and what restores them.

Objects that members or the safety of their data depend on come first, and everything else waits for
them. The others hold nothing up: if the API server refuses a write, or somebody undoes it each
time, it is reported and retried after a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.network_policy import network_policy
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.start_settings import epoch_in, levels_in
from etcd_stateful.manifests.statefulset import is_assumed, stateful_set, version_of
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning import bootstrap, leftovers
from etcd_stateful.membership.members import budget, replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    DeletePod,
    IssueCertificate,
    PushTicket,
    RecordMember,
    RotateAuthority,
    Step,
    TakeCertificate,
    TouchStatefulSet,
    Wait,
)
from etcd_stateful.membership.tls import issued
from etcd_stateful.observed.objects import Live
from etcd_stateful.observed.put_off import (
    CERTIFICATE,
    DELETION,
    POD_DELETION,
    of_secret,
    of_uid,
)

_OfSecret = IssueCertificate | TakeCertificate | RotateAuthority
_OfPod = RecordMember | DeleteClaim | DeletePod | CreateJob | PushTicket
Postponable = ApplyChild | TouchStatefulSet | _OfPod | _OfSecret

_TOUCH: Final = "a touch of StatefulSet"
_TICKET: Final = "the start ticket of pod"
_RECORD: Final = "the member record on"

_OPTIONAL: Final = frozenset({"PodDisruptionBudget", "NetworkPolicy"})
"""Kinds of children that members form and serve without."""

_OF_KUBERNETES: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that the garbage collector removes by itself."""

_JOB: Final = "Job"
_FOR_RESTORES: Final = frozenset({"PersistentVolumeClaim", _JOB})
"""Kinds of what a restore in place creates beside a cluster that serves."""

_KINDS: Final[Mapping[type[Step], str]] = {
    TouchStatefulSet: _TOUCH,
    RecordMember: _RECORD,
    DeleteClaim: DELETION,
    DeletePod: POD_DELETION,
    CreateJob: _JOB,
}
"""In `Observation.put_off`, in place of the kind that an ApplyChild names."""


def required(seen: Observation) -> tuple[tuple[Live | None, Manifest], ...]:
    """The objects that pods need to start and to find each other."""
    return (
        (seen.headless_service, headless_service(seen.cluster)),
        (seen.stateful_set, _stateful_set(seen)),
    )


def optional(seen: Observation) -> Iterator[tuple[Live | None, Manifest]]:
    """The objects that members can form a cluster and serve without, as far as they are due."""
    if seen.operator is not None:
        yield seen.network_policy, network_policy(seen.cluster, seen.operator)
    if is_latched(seen):
        yield seen.client_service, client_service(seen.cluster)
        yield seen.disruption_budget, budget.manifest(seen)


def is_optional(seen: Observation, kind: str, name: str) -> bool:
    """Whether members can do without this object. Once the cluster has formed, that is also true of
    the applications' client certificate, and of the cert-manager Certificates: their first results
    are in use by then."""
    if kind in ("Certificate", "Secret"):
        shown = naming.client_certificate(seen.cluster.name)
        return is_latched(seen) and (name == shown or name in issued.names(seen))
    return kind in _OPTIONAL or name == naming.client_service(seen.cluster.name)


def put_back(live: Live | None, manifest: Manifest) -> ApplyChild | Wait | None:
    kind, name = kind_and_name(manifest)
    if live is None:
        # Final, so that it is decided again from a fresh read. A stale cache may have old claims,
        # and so the wrong replicas (I5), or an old record, and so the wrong version: the record may
        # be rewritten until the cluster has formed (I9).
        final = kind == "StatefulSet"
        return ApplyChild(kind, name, manifest, f"{kind} {name} does not exist", final)
    if live["metadata"].get("deletionTimestamp"):
        return _to_be_gone(kind, live)
    if where := drift(live, manifest):
        # A decision from a stale cache must not undo later changes, above all of the replicas.
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        reason = f"{kind} {name} differs at {where}"
        return ApplyChild(kind, name, manifest, reason, _takes_away(live, manifest))
    return None


def being_deleted(seen: Observation) -> Wait | None:
    """Waits for an object that is being deleted. Asked late, because a finalizer may keep it for
    ever, and members do without it, or with it as it is: names resolve until the headless Service
    is gone."""
    issued_ones = seen.certificates.issued.values() if seen.certificates else ()
    found = (
        ("Service", seen.headless_service),
        ("NetworkPolicy", seen.network_policy),
        ("Service", seen.client_service),
        ("PodDisruptionBudget", seen.disruption_budget),
        *(("Certificate", one.certificate) for one in issued_ones),
    )
    for kind, live in found:
        if live is not None and live["metadata"].get("deletionTimestamp"):
            return _to_be_gone(kind, live)
    return None


def _to_be_gone(kind: str, live: Live) -> Wait:
    metadata = live["metadata"]
    words = f"{kind} {metadata['name']}, which is being deleted, to be gone; then it is recreated"
    kept = [one for one in metadata.get("finalizers") or () if one not in _OF_KUBERNETES]
    if kept:
        words += (
            f". Its finalizer {', '.join(kept)} keeps it: if what set that is gone, remove it from "
            "metadata.finalizers"
        )
    return Wait(words)


def kind_and_name(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return str(manifest["kind"]), str(manifest["metadata"]["name"])


def name_of(step: Postponable) -> tuple[str, str]:
    """The key under which a failed write is kept in `Observation.put_off`."""
    if isinstance(step, _OfSecret):
        return CERTIFICATE, step.need.secret
    if isinstance(step, PushTicket):
        return _TICKET, step.pod
    return step.kind if isinstance(step, ApplyChild) else _KINDS[type(step)], step.name


def made_by(step: Postponable) -> Manifest:
    """What was written, to tell whether it is the same write the next time."""
    if isinstance(step, PushTicket):
        return {"metadata": {}, "ticket": step.ticket}
    if isinstance(step, RecordMember):
        return {"metadata": {"uid": step.uid}, "record": step.record}
    if isinstance(step, _OfSecret):
        return of_secret(step.resource_version)
    if isinstance(step, DeleteClaim | DeletePod):
        return of_uid(step.uid)
    return step.manifest if isinstance(step, ApplyChild | CreateJob) else {"metadata": {}}


def may_wait(seen: Observation, step: Step) -> bool:
    """Whether members do not depend on this write, so that nothing has to wait if it fails."""
    match step:
        case TouchStatefulSet() | PushTicket():
            return True  # the controller retries by itself, later; a pod may wait for its ticket
        case RecordMember():
            return _is_before_ticket(seen, step) or _is_of_successor(seen, step.name)
        case DeleteClaim() | DeletePod():
            return _may_stay(seen, step)
        case IssueCertificate() | TakeCertificate() | RotateAuthority():
            return is_latched(seen) and _can_do_without(seen, step)
        case ApplyChild() | CreateJob():
            return _is_dispensable(seen, step)
        case _:
            return False


def _is_dispensable(seen: Observation, step: ApplyChild | CreateJob) -> bool:
    """Whether members can do without the object, or with the live one as it is."""
    kind, name = name_of(step)
    if kind in _FOR_RESTORES:
        return is_latched(seen) and not recorded(seen).survivor
    does = _is_like if kind == "StatefulSet" else _names_pods
    return is_optional(seen, kind, name) or does(seen, step.manifest)


def _is_before_ticket(seen: Observation, step: RecordMember) -> bool:
    """Whether only the ticket of a pod that waits for it depends on the record."""
    waiting = (pod for pod in seen.pods if pod.finding)
    claim = naming.claim
    return any(step.name in (pod.name, claim(seen.cluster.name, pod.ordinal)) for pod in waiting)


def _is_of_successor(seen: Observation, claim: str) -> bool:
    """Whether the claim is that of a restore in place, beside a cluster that serves."""
    taking = seen.bootstrap.successor if seen.bootstrap else None
    if taking is None or seen.etcd is None:
        return False
    return claim == naming.claim(seen.cluster.name, taking.ordinal)


def _is_left(seen: Observation, step: DeleteClaim) -> bool:
    """Whether the claim is of a removed member: at most a new one in its place depends on it."""
    if seen.bootstrap is None:
        return False  # a claim that is discarded, which everything waits for
    of_removed = (one for one in seen.claims if leftovers.is_removed_members(seen, one))
    return any(one.uid == step.uid for one in of_removed)


def _may_stay(seen: Observation, step: DeleteClaim | DeletePod) -> bool:
    """A pod whose member serves may not: an edit for which all pods have to be restarted would go
    on without it."""
    if isinstance(step, DeleteClaim):
        return _is_left(seen, step) or _is_of_successor(seen, step.name)
    seat = roster.seat_named(seen, step.name)
    return seat is None or not seat.serves


def _can_do_without(seen: Observation, step: _OfSecret) -> bool:
    """Whether the certificate in the Secret is usable, or is only for applications."""
    found = seen.certificate(step.need.secret, step.need.role)
    return step.need.role == "application" or bool(found and not found.problem)


def may_touch(seen: Observation) -> bool:
    return not any(kind == _TOUCH for kind, _ in seen.put_off)


def is_put_off(seen: Observation, step: ApplyChild | _OfPod) -> bool:
    """Whether the same write has just failed, and may be retried later."""
    before = seen.put_off.get(name_of(step))
    return before is not None and before.is_of(made_by(step)) and may_wait(seen, step)


def put_off(seen: Observation) -> list[ApplyChild]:
    """The writes that are due, but have just failed and are retried later."""
    if not seen.put_off or seen.bootstrap is None:
        return []  # what is due depends on the record, which is written first
    wanted = (*required(seen), *optional(seen), *issued.children(seen))
    steps = (put_back(live, manifest) for live, manifest in wanted)
    return [step for step in steps if isinstance(step, ApplyChild) and is_put_off(seen, step)]


def is_template_put_off(seen: Observation) -> bool:
    """Whether the StatefulSet has an outdated template because writing it has failed. Then no pod
    is restarted for the new template, and nothing that needs it begins."""
    return version_first.is_held_up(seen) and any(
        step.kind == "StatefulSet" for step in put_off(seen)
    )


def in_words(seen: Observation) -> str:
    """Why writes that nothing waits for have failed; empty if none has."""
    said = [seen.put_off[step.kind, step.name].why for step in put_off(seen)]
    kinds = {CERTIFICATE, DELETION, POD_DELETION, _TICKET, _RECORD}
    kinds.update([_TOUCH] if seen.stalled else ())
    kinds.update(_FOR_RESTORES if seen.restore else ())
    said += [one.why for (kind, _), one in seen.put_off.items() if kind in kinds]
    return "; ".join(said)


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


def _stateful_set(seen: Observation) -> Manifest:
    record = recorded(seen)
    manifest = stateful_set(
        bootstrap.at_running_version(seen),
        replicas=replicas.wanted(seen),
        operator_image=seen.operator_image,
        epoch=record.epoch,
        begun=record.begun,
        assumed=record.untried,
    )
    if seen.stateful_set is not None:
        # Kubernetes lets nobody change them, so they stay as an older operator rendered them.
        live = seen.stateful_set["spec"]
        manifest["spec"]["volumeClaimTemplates"] = live.get("volumeClaimTemplates", [])
        if is_assumed(seen.stateful_set) and not record.untried:
            # What a manifest leaves out is no drift; but this note must not outlive the guess.
            manifest["metadata"]["annotations"][naming.ASSUMED_ANNOTATION] = ""
        if (live.get("ordinals") or {}).get("start"):
            # Left out as well, and the controller stops the pods below it.
            manifest["spec"]["ordinals"] = {"start": 0}
        if version_first.keeps_template(seen):
            manifest["spec"]["template"] = live["template"]
    return manifest


def _takes_away(live: Live, manifest: Manifest) -> bool:
    """Whether the write stops pods, lets others evict them, or makes them come back with another
    version."""
    match manifest["kind"]:
        case "StatefulSet":
            fewer = manifest["spec"]["replicas"] < live["spec"]["replicas"]
            return bool(fewer or version_of(live) != version_of(manifest))
        case "PodDisruptionBudget":
            return budget.allows_more_evictions(live, manifest)
        case _:
            return False
