"""Decides the one next step of a cluster from what is observed, and from nothing else.

`decide` asks the questions at the end of this module, in order of priority; the first that has an
answer wins. An operator that is killed after any step and started again asks them anew and goes on.
The chains of steps of each operation, each in its own module, come out of this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.identity import to_hex
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import (
    alarms,
    attempts,
    authentication,
    awaited,
    blocked,
    bootstrap,
    certificates,
    children,
    filling,
    going_back,
    grow,
    in_place,
    issued,
    larger,
    learner,
    leftovers,
    links,
    quorum,
    recovery,
    replace,
    replicas,
    restore,
    roll,
    roster,
    rotation,
    shrink,
    space,
    stalled,
    switch,
    tickets,
    upgrade,
    version_first,
)
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.steps import ApplyChild, Hold, Settled, Step, Wait
from etcd_stateful.observed.objects import Foreign, Live

Question = Callable[[Observation], Step | None]


@dataclass(frozen=True, slots=True)
class _Starts:
    """A question that leads to pods that start or are restarted, or counts on that."""

    ask: Question

    def __call__(self, seen: Observation) -> Step | None:
        return self.ask(seen)


class _Edits(_Starts):
    """A question that leads to another template, or to restarts for one."""


PAUSED: Final = "spec.paused is true: nothing is written until it is false"


def decide(seen: Observation) -> Step:
    """The next step."""
    held = certificates.unusable(seen) if is_latched(seen) else None
    template_waits = children.is_template_put_off(seen)
    if held is None or seen.cluster.paused:
        asked = (ask for ask in _QUESTIONS if not (template_waits and isinstance(ask, _Edits)))
        return next((step for ask in asked if (step := ask(seen)) is not None), Settled())
    return certificates.besides(held, _without_starts(seen))


def _without_starts(seen: Observation) -> Step:
    """The next step of all that neither start nor restart a pod."""
    for question in _QUESTIONS:
        step = None if isinstance(question, _Starts) else question(seen)
        if step is not None and not certificates.starts_pods(seen, step):
            return step
    return Settled()


def _deleting(seen: Observation) -> Step | None:
    """With foreground deletion the resource is there until its children are gone."""
    return Wait("the cluster's objects to be deleted") if seen.cluster.deleting else None


def _paused(seen: Observation) -> Step | None:
    if seen.cluster.paused:
        return Hold("Paused", PAUSED)
    return None


def _names_taken(seen: Observation) -> Step | None:
    """Another owner's object under a name that the cluster cannot do without."""
    vital = [foreign for foreign in seen.foreign if not _is_lesser(seen, foreign)]
    if passing := next((foreign for foreign in vital if foreign.passing), None):
        return Wait(f"{passing.kind} {passing.name} of {passing.owner} to be gone")
    return _name_taken(vital[0]) if vital else None


def _name_taken(foreign: Foreign) -> Hold:
    return Hold(
        "NameTaken",
        f"{foreign.kind} {foreign.name} belongs to {foreign.owner}. It is left alone; delete it, "
        "or make it again under another name, or choose another name for the cluster",
    )


def _children(seen: Observation) -> Step | None:
    """Puts back what was deleted or altered; the version stays as it is (I9)."""
    step = _put_back(seen, children.vital(seen))
    return step or _put_back(seen, children.lesser(seen), waits=False)


def _put_back(
    seen: Observation, wanted: Iterable[tuple[Live | None, Manifest]], *, waits: bool = True
) -> Step | None:
    """The first of these children that is not as it should be, other owners' left alone."""
    taken = {(one.kind, one.name) for one in seen.foreign}
    steps = (
        children.put_back(live, manifest)
        for live, manifest in wanted
        if children.kind_and_name(manifest) not in taken
    )
    due = (step for step in steps if step and not _is_held(seen, step))
    return next((step for step in due if waits or not isinstance(step, Wait)), None)


def _is_held(seen: Observation, step: Step) -> bool:
    """Whether pods start by it, and could not come back to those that serve; or by less than the
    edit asks for, as the version goes first; or below what the data may be of. Or it has just been
    in vain."""
    if isinstance(step, ApplyChild) and children.is_put_off(seen, step):
        return True
    if not is_latched(seen):
        return False
    if isinstance(step, ApplyChild) and step.kind == "StatefulSet":
        live = seen.stateful_set
        if live and going_back.lowers_blindly(seen, version_of(live)):
            return True
        if _is_edited(seen, step) and _of_version(seen) is not None:
            return True
    return certificates.starts_pods(seen, step) and certificates.unusable(seen) is not None


def _is_edited(seen: Observation, step: ApplyChild) -> bool:
    """Whether pods come from another template by it. Those that it stops wait for no version."""
    spec: Any = step.manifest["spec"]
    has, to_be = version_first.spec_hash(seen.stateful_set), version_first.spec_hash(step.manifest)
    return spec["replicas"] != 0 and has != to_be


def _asked_of_issuer(seen: Observation) -> Step | None:
    """Before all that needs what comes of it."""
    return _put_back(seen, issued.children(seen), waits=not is_latched(seen))


def _predecessors(seen: Observation) -> Step | None:
    """A StatefulSet made while pods of the one before still bear their names would back off from
    them, up to minutes: the end of those pods does not wake its controller."""
    if seen.stateful_set is not None or not seen.predecessors:
        return None
    return Wait(f"pods {', '.join(seen.predecessors)} of the StatefulSet before to stop")


def _lesser_name_taken(seen: Observation) -> Step | None:
    """Last, as members do without it."""
    taken = next((foreign for foreign in seen.foreign if _is_lesser(seen, foreign)), None)
    if taken is None:
        return None
    if taken.passing:
        return Wait(f"{taken.kind} {taken.name} of {taken.owner} to be gone")
    return _name_taken(taken)


def _is_lesser(seen: Observation, foreign: Foreign) -> bool:
    return children.is_lesser(seen, foreign.kind, foreign.name)


def _tls_back(seen: Observation) -> Step | None:
    """Not towards a template that no pod would be made from, nor before a version that the rest of
    the edit waits for. With unusable certificates it is a way out, so it is none of `_Edits`."""
    waits = version_first.keeps_template(seen) and certificates.unusable(seen) is None
    return None if waits or children.is_template_put_off(seen) else switch.go_back(seen)


def _version_first(seen: Observation) -> Step | None:
    """Of an edit of the version and more, the version comes first: an option that only the new one
    knows must not be given to the old; and one restart is enough for both.

    What it only waits for is told last. Until then the StatefulSet keeps its template
    (`version_first`).
    """
    step = _of_version(seen)
    return None if isinstance(step, Wait) else step


def _of_version(seen: Observation) -> Step | None:
    """What comes next on the way to another version, in a cluster that is at rest otherwise."""
    if not is_latched(seen) or seen.etcd is None or seen.stateful_set is None:
        return None
    if version_of(seen.stateful_set) != bootstrap.running_version(seen):
        return None  # the last step of the version has yet to reach the template
    every = roster.seats(seen)
    at_rest = all(seat.is_voter == (seat.ordinal < seen.cluster.size) for seat in every)
    if not at_rest or not roll.is_over(seen) or awaited.every_pod_serves(seen):
        return None
    return upgrade.go_on(seen)


def _no_quorum(seen: Observation) -> Step | None:
    """Nothing below is asked without a member list that a quorum agrees on."""
    if seen.etcd:
        return None
    step = blocked.starts(seen) or certificates.cannot_ask(seen) or quorum.missing(seen)
    return going_back.besides(seen, step)


def _unknown_members(seen: Observation) -> Step | None:
    """Somebody else changes this cluster; who knows what they count on."""
    if not (unknown := roster.unknown_members(seen)):
        return None
    names = ", ".join(f"{to_hex(one.member_id)} at {' '.join(one.peer_urls)}" for one in unknown)
    return Hold(
        "UnknownMember",
        f"on the member list is {names}, which is none of this cluster's pods. The membership is "
        "left as it is until that member is removed (etcdctl member remove)",
    )


_QUESTIONS: Final[tuple[Question, ...]] = (
    # Nothing is written to a cluster that goes or is paused, nor to what is another owner's (I10).
    _deleting,
    _paused,
    _names_taken,
    # What this cluster is. All that follows reads the record, so nothing begins without it, nor
    # beside the data of another cluster (I11).
    leftovers.before_anything,
    bootstrap.secret,
    bootstrap.one_cluster,
    attempts.as_edited,
    # A record and a StatefulSet that do not fit each other, before a template is made by either.
    _predecessors,
    switch.as_run,
    upgrade.as_run,
    # What pods mount, before the pods.
    _Edits(rotation.turn),
    _asked_of_issuer,
    issued.go_on,
    certificates.of_members,
    # What is left of removed members and of Jobs, before a pod comes that would take it up.
    filling.late,
    leftovers.of_removed_members,
    # Back from an upgrade that failed. Before the template, and before all that needs a quorum: the
    # version may be why there is none.
    _Edits(going_back.go_back),
    going_back.cross,
    # The objects of the cluster. Replicas first, or a lost StatefulSet would come back with pods of
    # removed members (I5); the version before the rest of an edit.
    _Starts(replicas.keep),
    _children,
    _Starts(stalled.wake),
    _Edits(_version_first),
    larger.next_claim,
    # Data put on a volume while no pod may run: a restore, a restore in place, a recovery.
    restore.carry_out,
    in_place.go_on,
    certificates.of_clients,
    recovery.carry_out,
    # Starts. The latch before tickets: none of kind `new` goes out once a quorum has answered (I4).
    leftovers.damaged,
    attempts.without_backup,
    bootstrap.latch,
    recovery.decline,
    _Starts(tickets.hand_out),
    upgrade.tried,
    # No ticket is due, and it has not formed, or runs a version that nobody knows to be its own.
    attempts.another_attempt,
    blocked.cannot_form,
    attempts.look_again,
    _Edits(upgrade.try_another),
    # Ways out for pods that do not serve. None of them needs a quorum.
    _tls_back,
    roll.unready,
    recovery.refused,
    in_place.settle,
    in_place.meanwhile,
    # From here on there is a member list that a quorum agrees on, and all members on it are ours.
    # A denial first: members that answer nobody without a name look like none.
    authentication.denied,
    _no_quorum,
    _unknown_members,
    # The membership, one change at a time (I2): first what is half-way, then members that are lost,
    # and only then the size that the spec asks for.
    learner.promote_or_drop,
    replace.lost_voter,
    replace.remains,
    alarms.disarm,
    roll.crashing,
    learner.in_flight,
    _Edits(upgrade.prepare),
    shrink.highest,
    grow.lowest,
    replace.not_replaceable,
    # Pods that do not serve hold up all that follows. What a human has to mend is told before what
    # may pass by itself.
    blocked.starts,
    blocked.tried_again,
    blocked.unreadable,
    attempts.not_taken,
    alarms.undecided,
    awaited.every_pod_serves,
    blocked.unformed,
    # All members serve: now one may be restarted (I8), and what can wait is done.
    switch.addresses,
    _Edits(roll.next_pod),
    _Edits(upgrade.finish),
    authentication.go_on,
    _Edits(upgrade.go_on),
    _Edits(switch.go_on),
    space.reclaim,
    # Nothing is left to do. What the spec asks for in vain, and what is still awaited, is told.
    space.full,
    _lesser_name_taken,
    upgrade.impossible,
    in_place.awaited,
    recovery.not_needed,
    certificates.authority_lost,
    issued.held,
    links.changed,
    switch.held,
    authentication.held,
    larger.outcome,
    children.going,
    leftovers.stopping,
    space.awaited,
    roll.not_looked_at,
)
"""The table of contents of the operator: the order is the design, and each group says why."""
