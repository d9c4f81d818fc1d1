"""Decides which steps get an Event, for users of `kubectl describe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etcd_operator.kube.events import Severity
from etcd_stateful import naming
from etcd_stateful.manifests.disruption_budget import least_of
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
    ChangeAuth,
    CreateJob,
    Defragment,
    DeleteClaim,
    DeletePod,
    DisarmAlarm,
    EnableDowngrade,
    ExpandClaim,
    Hold,
    IssueCertificate,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MemberUpdate,
    MoveLeader,
    PushTicket,
    RotateAuthority,
    Settled,
    Step,
    TakeCertificate,
    TouchStatefulSet,
    Wait,
    Write,
    WriteBootstrap,
)
from etcd_stateful.membership.upkeep.accounts import Change, Disable, Enable, SetPassword
from etcd_stateful.observed.objects import Live
from etcd_stateful.records.bootstrap import Bootstrap

StepEvent = tuple[Severity, str, str]
"""Severity, reason and message of an Event."""

_REASONS: Final[Mapping[type[Write], str]] = {
    PushTicket: "TicketGiven",
    DeleteClaim: "ClaimDeleted",
    ExpandClaim: "ClaimExpanded",
    DeletePod: "PodRestarted",
    TouchStatefulSet: "StatefulSetTouched",
    MemberAddLearner: "MemberAdded",
    MemberPromote: "MemberPromoted",
    MemberRemove: "MemberRemoved",
    MemberUpdate: "MemberUpdated",
    MoveLeader: "LeaderMoved",
    DisarmAlarm: "AlarmDisarmed",
    Defragment: "Defragmented",
    EnableDowngrade: "DowngradeEnabled",
    CancelDowngrade: "DowngradeCancelled",
    IssueCertificate: "CertificateIssued",
    TakeCertificate: "CertificateTaken",
    RotateAuthority: "AuthorityRotates",
}
"""Steps that always get an Event, and its reason."""

_OF_AUTH: Final[Mapping[type[Change], str]] = {
    Enable: "AuthenticationOn",
    Disable: "AuthenticationOff",
    SetPassword: "PasswordChanged",
}

_LATER: Final = frozenset({"PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim"})
"""Children that may be new in a running cluster: an older operator did not create them, and a claim
is created only for a restore in place."""


def event_of(
    before: Step | None, step: Step, seen: Observation, *, created: bool = False
) -> StepEvent | None:
    """The Event for a step; None if it gets none.

    Args:
        before: the last pass's step. The same step again gets no Event.
        created: whether the write created an object.
    """
    if before == step:
        return None
    match step:
        case Hold(reason="Paused"):
            return "Normal", "Paused", step.message
        case Hold():
            return "Warning", step.reason, step.message
        case Settled() if before is not None:
            number = _members(seen)
            words = f"{number} members serve" if number > 1 else "its one member serves"
            return "Normal", "AsDeclared", f"{words}, as declared"
        case Wait() | Settled():
            return None
        case _:
            return _of_write(step, seen, created=created)


def _of_write(step: Write, seen: Observation, *, created: bool) -> StepEvent | None:
    if isinstance(step, ApplyChild):
        return _of_child(step, seen, created=created)
    reason = _of_record(step, seen) if isinstance(step, WriteBootstrap) else _of_step(step, seen)
    return ("Normal", reason, step.reason) if reason else None


def _of_step(step: Write, seen: Observation) -> str | None:
    if isinstance(step, CreateJob):
        restores = step.name == naming.restore_job(seen.cluster.name)
        return "RestoreRuns" if restores else "RecoveryRuns"
    if isinstance(step, ChangeAuth):
        return _OF_AUTH.get(type(step.change), "AccountsChanged")
    if isinstance(step, ExpandClaim) and step.less:
        return "ClaimSizeTakenBack"
    return _REASONS.get(type(step))


def _of_record(step: WriteBootstrap, seen: Observation) -> str | None:
    before = seen.bootstrap
    if step.record.latched and not is_latched(seen):
        return "Formed"
    if before is not None and before.version != step.record.version:
        return "VersionChange"
    if before is not None and before.links != step.record.links:
        return "TLSChanges"
    if before is not None and before.survivor != step.record.survivor:
        return "RecoveryBegun" if step.record.survivor else "Recovered"
    return _of_replacement(before, step.record) if before is not None else None


def _of_replacement(before: Bootstrap, after: Bootstrap) -> str | None:
    if before.cluster_id != after.cluster_id and after.retired:
        return "ClusterReplaced"
    if before.retired and not after.retired:
        return "Restored"
    if before.successor == after.successor:
        return None
    if after.successor is None:
        return "RestoreCalledOff"
    return "BackupRestored" if after.successor.claim else "RestoreBegun"


def _of_child(step: ApplyChild, seen: Observation, *, created: bool) -> StepEvent:
    """The Event for a child. It is new while the cluster forms, and until the client Service
    exists, which is created right after, before the budget. Later it was put back."""
    is_new = seen.client_service is None and seen.disruption_budget is None
    first = not is_latched(seen) or is_new
    later = step.kind in _LATER
    if created and (first or later):
        return "Normal", "Created", f"created {step.kind} {step.name}"
    if step.kind == "PodDisruptionBudget" and seen.disruption_budget is not None:
        return _of_budget(step, seen.disruption_budget)
    if step.kind == "StatefulSet" and seen.stateful_set is not None:
        return _of_stateful_set(step, seen, seen.stateful_set)
    return _put_back(step)


def _of_budget(step: ApplyChild, live: Live) -> StepEvent:
    """A budget that follows the number of members was changed, not put back."""
    before, now = least_of(live), least_of(step.manifest)
    if before in (None, now):
        return _put_back(step)
    words = f"minAvailable of {step.name} goes from {before} to {now}, a quorum of the members"
    return "Normal", "BudgetChanged", words


def _of_stateful_set(step: ApplyChild, seen: Observation, live: Live) -> StepEvent:
    """A StatefulSet that follows the cluster's size or spec was changed, not put back."""
    replicas = step.manifest["spec"]["replicas"]
    if replicas != seen.replicas:
        return "Normal", "Resized", f"replicas of {step.name} go from {seen.replicas} to {replicas}"
    if version_first.spec_hash(step.manifest) != version_first.spec_hash(live):
        return "Normal", "TemplateChanged", f"pods of {step.name} are recreated: {step.reason}"
    return _put_back(step)


def _put_back(step: ApplyChild) -> StepEvent:
    return "Normal", "PutBack", f"put back {step.kind} {step.name}: {step.reason}"


def _members(seen: Observation) -> int:
    return len(seen.etcd.members) if seen.etcd else seen.cluster.size
