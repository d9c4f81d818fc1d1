"""Decides a cluster's one next step, from one observation and nothing else.

`decide` asks the questions listed at the end of this module, in order of priority. The first one
that has an answer wins. If the operator is killed after any step, it asks the same questions after
its restart and goes on from there. So this order alone produces the sequence of steps of every
operation; each operation describes its own in its module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import awaited, blocked, children, put_off, roster, stalled, wording
from etcd_stateful.membership.beginning import attempts, bootstrap, leftovers, tickets
from etcd_stateful.membership.epochs import in_place, quorum, recovery, restore, volume_jobs
from etcd_stateful.membership.members import (
    claim_expansion,
    grow,
    learner,
    replace,
    replicas,
    shrink,
    unknown,
)
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.rolling import roll, rollback, upgrade, version_first
from etcd_stateful.membership.steps import ApplyChild, Hold, Settled, Step, Wait
from etcd_stateful.membership.tls import certificates, issued, links, rotation, tls_switch
from etcd_stateful.membership.upkeep import alarms, authentication, space
from etcd_stateful.observed.objects import Foreign, Live

Question = Callable[[Observation], Step | None]


@dataclass(frozen=True, slots=True)
class _Starts:
    """A question whose step leads to pods being started or restarted, or relies on it. It is not
    asked while none may be (`blocked.starts`): such a pod might not come back."""

    ask: Question

    def __call__(self, seen: Observation) -> Step | None:
        return self.ask(seen)


class _Edits(_Starts):
    """A question whose step leads to a new pod template, or to restarts because of one. It is not
    asked either while the StatefulSet's template cannot be written."""


PAUSED: Final = "spec.paused is true: nothing is written until it is false"


def decide(seen: Observation) -> Step:
    """The next step."""
    may_hold = is_latched(seen) and not seen.cluster.paused
    held = blocked.starts(seen) if may_hold else None
    step = _first(seen) if held is None else _without_starts(seen)
    step = _or_change_of_users(seen, _or_cause(seen, step))
    return step if held is None else certificates.combine(held, step)


def _first(seen: Observation) -> Step:
    """The answer to the first question that has one."""
    template_waits = put_off.holds_up_template(seen)
    asked = (ask for ask in _QUESTIONS if not (template_waits and isinstance(ask, _Edits)))
    return next((step for ask in asked if (step := ask(seen)) is not None), Settled())


def _without_starts(seen: Observation) -> Step:
    """The next step among those that neither start nor restart a pod."""
    for question in _QUESTIONS:
        step = None if isinstance(question, _Starts) else question(seen)
        if step is not None and not certificates.starts_pods(seen, step):
            return step
    return Settled()


def _or_change_of_users(seen: Observation, step: Step) -> Step:
    """The step; in place of a wait, a hold or a write that fails, a change of etcd's users and
    roles. A quorum is enough for it, and who is to lose access must not keep it meanwhile."""
    rests = isinstance(step, Wait | Hold) or put_off.is_tried_again(seen, step)
    if seen.cluster.left_alone or not (rests and is_latched(seen)):
        return step
    unsure = bootstrap.secret(seen) or bootstrap.two_clusters(seen)
    return step if unsure else authentication.next_change(seen) or step


def _or_cause(seen: Observation, step: Step) -> Step:
    """The step; in place of a wait, why a pod cannot get its ticket or be created, if there is such
    a pod. Many waits are for that pod, and must not hide for ever what the user can do.

    Not without a quorum: then the wait is for a way out of that, and volumes of a cluster that is
    being replaced look wrong.
    """
    if not isinstance(step, Wait) or seen.cluster.deleting:
        return step
    if seen.etcd is None or not is_latched(seen):
        return step
    cause = (
        blocked.in_start(seen)
        or blocked.unreadable_volume(seen)
        or awaited.pod_of_a_taken_name(seen)
    )
    if not isinstance(cause, Wait | Hold):
        return step
    return dataclasses.replace(cause, soon=cause.soon or step.soon)


def _deleting(seen: Observation) -> Step | None:
    """With foreground deletion, the resource exists until its children are gone."""
    return Wait("the cluster's objects to be deleted") if seen.cluster.deleting else None


def _paused(seen: Observation) -> Step | None:
    return Hold("Paused", PAUSED) if seen.cluster.paused else None


def _names_taken(seen: Observation) -> Step | None:
    """Holds if an object of another owner has a name that the cluster needs (I10)."""
    required = [foreign for foreign in seen.foreign if not _is_optional(seen, foreign)]
    first = min(required, key=lambda foreign: not foreign.passing, default=None)
    return _name_taken(first) if first else None


def _name_taken(foreign: Foreign) -> Wait | Hold:
    if foreign.passing:
        words = f"{foreign.kind} {foreign.name} of {foreign.owner} to be gone"
        return Wait(f"{words} ({wording.kept_by(foreign.kept_by)})" if foreign.kept_by else words)
    return Hold(
        "NameTaken",
        f"{foreign.kind} {foreign.name} belongs to {foreign.owner}. It is left alone; delete it, "
        "or recreate it under another name, or choose another name for the cluster",
    )


def _children(seen: Observation) -> Step | None:
    """Restores children that were deleted or changed. The version stays as it is (I9)."""
    service, stateful_set = children.required(seen)
    step = _put_back(seen, [service], waits=not is_latched(seen)) or _put_back(seen, [stateful_set])
    return step or _put_back(seen, children.optional(seen), waits=False)


def _put_back(
    seen: Observation, wanted: Iterable[tuple[Live | None, Manifest]], *, waits: bool = True
) -> Step | None:
    """Restores the first of these children that is missing or differs from its manifest. Objects of
    other owners are left alone.

    Args:
        waits: whether the answer may be a Wait, for a child that is being deleted.
    """
    steps = (
        children.put_back(live, manifest)
        for live, manifest in wanted
        if not seen.is_taken(*children.kind_and_name(manifest))
    )
    due = (step for step in steps if step and not _is_held(seen, step))
    return next((step for step in due if waits or not isinstance(step, Wait)), None)


def _is_held(seen: Observation, step: Step) -> bool:
    """Whether this write has to wait, for one of these reasons:

    - The same write has just failed.
    - It would make pods run an older etcd on data that may be a newer one's (I9).
    - It changes the template, but the version has to change first.
    - It would start pods, and none may be started now.
    """
    if put_off.last_failure(seen, step):
        return True
    if not is_latched(seen):
        return False
    if isinstance(step, ApplyChild) and step.kind == "StatefulSet":
        live = seen.stateful_set
        if live and rollback.is_unsafe_downgrade(seen, version_of(live)):
            return True
        if _is_edited(seen, step) and _of_version(seen) is not None:
            return True
    return certificates.starts_pods(seen, step) and blocked.starts(seen) is not None


def _is_edited(seen: Observation, step: ApplyChild) -> bool:
    """Whether the step changes the template that pods are created from. With zero replicas none
    are created, so the step does not have to wait for the version."""
    has, to_be = version_first.spec_hash(seen.stateful_set), version_first.spec_hash(step.manifest)
    return step.manifest["spec"]["replicas"] != 0 and has != to_be


def _asked_of_issuer(seen: Observation) -> Step | None:
    """Restores the cert-manager Certificates. Asked before everything that uses what cert-manager
    issues for them."""
    return _put_back(seen, issued.children(seen), waits=not is_latched(seen))


def _predecessors(seen: Observation) -> Step | None:
    """Waits for pods that a deleted StatefulSet left behind. If a new one were created while they
    still have its pods' names, its controller would fail and back off, for up to minutes: it does
    not retry when those pods are gone."""
    if seen.stateful_set is not None or not seen.predecessors:
        return None
    return Wait(f"pods {', '.join(seen.predecessors)} of the previous StatefulSet to stop")


def _optional_name_taken(seen: Observation) -> Step | None:
    """The same as `_names_taken`, for names that members do without. So it is asked last."""
    taken = next((foreign for foreign in seen.foreign if _is_optional(seen, foreign)), None)
    return _name_taken(taken) if taken else None


def _is_optional(seen: Observation, foreign: Foreign) -> bool:
    return children.is_optional(seen, foreign.kind, foreign.name)


def _tls_back(seen: Observation) -> Step | None:
    """Records the next step towards plaintext, unless the StatefulSet's template cannot be written
    now, or is kept until the version has changed. If certificates are unusable, plaintext is a way
    out. So this is not one of `_Edits`, and does not wait for the version then."""
    waits = version_first.keeps_template(seen) and certificates.unusable(seen) is None
    if waits or put_off.holds_up_template(seen):
        return None
    return tls_switch.towards_plaintext(seen)


def _version_first(seen: Observation) -> Step | None:
    """Changes the version first if an edit changes the version and other fields: the old version
    must not get an option that only the new one knows, and one restart is then enough for both.

    If the change has to wait, `upgrade.advance` reports that later. Until then the StatefulSet
    keeps its template (`version_first`).
    """
    step = _of_version(seen)
    return None if isinstance(step, Wait) else step


def _of_version(seen: Observation) -> Step | None:
    """The next step of a version change, if the cluster is otherwise at rest."""
    if not is_latched(seen) or seen.etcd is None or seen.stateful_set is None:
        return None
    if version_of(seen.stateful_set) != bootstrap.running_version(seen):
        return None  # the template does not have the recorded version yet
    every = roster.seats(seen)
    at_rest = all(seat.is_voter == (seat.ordinal < seen.cluster.size) for seat in every)
    if not at_rest or not roll.is_complete(seen) or awaited.unserving_pod(seen):
        return None
    return upgrade.confirm_assumed(seen) or upgrade.advance(seen)


def _no_quorum(seen: Observation) -> Step | None:
    """Says why no quorum of a formed cluster answers. All questions after this one may then rely on
    a member list that a quorum agrees on."""
    if seen.etcd:
        return None
    step = (
        blocked.in_start(seen)
        or certificates.no_client_certificate(seen)
        or issued.no_client_certificate(seen)
        or quorum.missing(seen)
    )
    return rollback.with_version_advice(seen, step)


_QUESTIONS: Final[tuple[Question, ...]] = (
    # Nothing is written for a cluster that is being deleted or is paused, and never to an object of
    # another owner (I10).
    _deleting,
    _paused,
    _names_taken,
    # Which cluster this is. Everything below reads the bootstrap record, so nothing starts without
    # it, or while claims hold the data of another cluster (I11).
    leftovers.claims_of_another_cluster,
    bootstrap.secret,
    bootstrap.two_clusters,
    bootstrap.latch_again,
    attempts.rewrite_record,
    # Pods of a deleted StatefulSet, and a record that contradicts the live one, before anything is
    # rendered from the record.
    _predecessors,
    tls_switch.correct_record,
    tls_switch.take_back,
    upgrade.correct_record,
    recovery.correct_record,
    bootstrap.older_record,
    # Secrets that pods mount, before the pods.
    _Edits(rotation.advance),
    _asked_of_issuer,
    issued.take_next,
    certificates.of_members,
    # Leftovers of Jobs and removed members, before a new pod can use them.
    volume_jobs.delete_unneeded_job,
    leftovers.delete_claims_of_removed,
    # The way back from a failed upgrade. Before the template is written, and before everything that
    # needs a quorum: the version may be the reason that there is none.
    _Edits(rollback.roll_back),
    rollback.record_newer_format,
    # The objects of the cluster. The number of replicas is recorded first, or a deleted StatefulSet
    # would come back with pods for removed members (I5). The version is changed before the rest of
    # an edit.
    _Starts(replicas.record),
    _children,
    _Starts(stalled.touch),
    _Edits(_version_first),
    claim_expansion.next_claim,
    # Operations that write data to a volume while no pod may use it: a restore, a restore in place,
    # a recovery.
    restore.carry_out,
    in_place.advance,
    certificates.of_clients,
    recovery.carry_out,
    # Pods that wait in `start`. The latch comes before the tickets: no ticket of kind `new` is
    # handed out once a quorum has answered (I4).
    leftovers.damaged_claim,
    attempts.late_backup,
    bootstrap.latch,
    recovery.decline,
    _Starts(tickets.hand_out),
    upgrade.confirm_assumed,
    # No ticket is due, but the cluster has not formed, or its version is only a guess.
    attempts.another_attempt,
    blocked.cannot_form,
    attempts.recreate_unpullable,
    _Edits(upgrade.replace_assumed),
    # Remedies for pods that do not serve. None of them needs a quorum.
    _tls_back,
    roll.restart_unready,
    roll.give_way,
    recovery.refused,
    in_place.clean_up,
    in_place.without_quorum,
    # After these three, a formed cluster has a member list that a quorum agrees on, and all members
    # on it are ours. Denied access comes first: members that deny it look as if they were silent.
    authentication.denied,
    _no_quorum,
    unknown.hold,
    # While authentication is off, everybody with a certificate may read and write all keys.
    authentication.turn_on_again,
    # The membership, one change at a time (I2): first a change that is half done, then lost
    # members, and only then the size that the spec asks for.
    learner.promote_or_drop,
    replace.remove_lost_voter,
    replace.delete_remains,
    alarms.disarm,
    roll.recreate_crashing,
    space.reclaim_for_writes,
    _Edits(learner.restart_slow),
    learner.in_flight,
    _Edits(upgrade.prepare),
    shrink.remove_highest,
    grow.add_lowest,
    replace.unrecorded_remains,
    replace.not_replaceable,
    # Pods that do not serve hold up everything below. Problems that the user has to fix are
    # reported before those that may pass by themselves.
    blocked.in_start,
    blocked.restarted_etcd,
    blocked.unreadable_volume,
    attempts.late_edits,
    alarms.undecided,
    alarms.unheard,
    _Edits(roll.ailing_pod),
    awaited.unserving_pod,
    blocked.first_quorum,
    leftovers.claim_of_a_third_member,
    # All members serve: now one may be restarted (I8), and less urgent work is done.
    tls_switch.update_peer_urls,
    _Edits(roll.next_pod),
    _Edits(upgrade.finish),
    authentication.advance,
    _Edits(upgrade.advance),
    _Edits(tls_switch.towards_tls),
    space.reclaim,
    # Nothing is left to write. Reports what the spec asks for but cannot have, and what is still
    # awaited.
    space.full,
    _optional_name_taken,
    upgrade.impossible,
    in_place.report,
    recovery.not_needed,
    certificates.authority_lost,
    issued.problems,
    links.unsupported_edit,
    tls_switch.why_not_changed,
    _Edits(tls_switch.missing_secrets),
    authentication.why_not_applied,
    claim_expansion.not_expanded,
    children.being_deleted,
    leftovers.damaged_leftover,
    leftovers.claim_in_the_way,
    leftovers.surplus_pods,
    space.running_backup,
    roll.unobserved_edit,
    _Edits(tls_switch.waiting_for),
)
"""The table of contents of the operator. The order is the design, and each group says why."""
