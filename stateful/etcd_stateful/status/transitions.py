"""The conditions Scaling, Upgrading and Recovering, with coreos's names. Present only while true.

The member list does not show whether a new member makes the cluster larger or replaces a lost one.
If no volume shows it either, the condition stays what it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from etcd_stateful import stored_conditions
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning.bootstrap import running_version
from etcd_stateful.membership.epochs import in_place_request, survivor
from etcd_stateful.membership.members.loss import why_lost
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold
from etcd_stateful.status.outcome import Condition, Outcome
from etcd_stateful.versions import Version, reported_version


def scaling(outcome: Outcome) -> Condition | None:
    """While there are more or fewer members than `spec.size`, not counting lost ones."""
    seen = outcome.observation
    if seen is None or not is_latched(seen) or survivor.halted(seen):
        return None
    if seen.etcd is None:
        return _scaling_unseen(outcome, seen)
    size, vacant = seen.cluster.size, _vacant(outcome, seen)
    beyond = any(seat.member and seat.ordinal >= size for seat in roster.seats(seen))
    if not beyond and not vacant.to_grow:
        return None
    have = len(roster.voters(seen)) + len(vacant.to_replace)
    way = "ScalingDown" if beyond else "ScalingUp"
    return _true("Scaling", way, f"from {have} to {size} members", outcome)


def _scaling_unseen(outcome: Outcome, seen: Observation) -> Condition | None:
    """Without a member list, the record tells: its number is raised before a member is added, and
    lowered after it is removed. The replicas may have been changed by hand."""
    have, size = recorded(seen).ordinals, seen.cluster.size
    if have == size and not outcome.was("Scaling"):
        return None
    way = "ScalingDown" if have > size else "ScalingUp"
    return _true("Scaling", way, f"to {size} members", outcome)


def upgrading(outcome: Outcome) -> Condition | None:
    """While the spec asks for another version than the members run, up or down."""
    seen = outcome.observation
    if seen is None or not is_latched(seen):
        return None
    wanted, now = upgrade.target(seen), running_version(seen)
    made_for = [version for seat in _members(seen) if (version := _made_for(seat))]
    others = [version for version in made_for if version != now]
    if wanted == now and not others:
        return None
    begun = now if wanted != now else min(others)
    way = "Downgrading" if wanted < begun else "Upgrading"
    words = f"from etcd {begun} to {wanted}"
    if counts := _who_runs_what(seen):
        words += f"; {counts}"
    return _true("Upgrading", way, words, outcome)


def recovering(outcome: Outcome) -> Condition | None:
    """While a member is lost or being replaced; also during a recovery or a restore in place."""
    seen = outcome.observation
    if seen is None or not is_latched(seen):
        return None
    if (alone := _recovery_or_restore(seen)) is not None:
        return _true("Recovering", *alone, outcome)
    if seen.etcd is None:
        if not _goes_on("Recovering", outcome, seen):
            return None
        return _true("Recovering", "MemberLost", "a member was lost", outcome)
    lost = [f"{seat.name}: {why}" for seat in roster.voters(seen) if (why := why_lost(seen, seat))]
    again = [f"{seat.name} is being replaced" for seat in _vacant(outcome, seen).to_replace]
    if not lost and not again:
        return None
    reason = "MemberLost" if lost else "MemberReplaced"
    return _true("Recovering", reason, ", ".join(lost + again), outcome)


def _recovery_or_restore(seen: Observation) -> tuple[str, str] | None:
    """Reason and message of a recovery or a restore in place, which the user asked for."""
    if in_place_request.halted(seen) or recorded(seen).retired:
        return "RestoreInPlace", "the cluster is replaced with a backup"
    return ("QuorumLost", "spec.recovery is carried out") if survivor.halted(seen) else None


def _true(kind: str, reason: str, words: str, outcome: Outcome) -> Condition:
    """The condition as True. If the planner holds, the hold's reason is the condition's."""
    if isinstance(outcome.step, Hold):
        reason = outcome.step.reason
    return Condition(kind, "True", reason, f"{words}; {outcome.words}" if outcome.words else words)


@dataclass(frozen=True, slots=True)
class _Vacant:
    """Seats below `spec.size` that have no voter."""

    to_grow: tuple[Seat, ...]
    to_replace: tuple[Seat, ...]


def _vacant(outcome: Outcome, seen: Observation) -> _Vacant:
    """A lost member leaves its volume, and is below others. But its volume may be lost too, and a
    pod that starts late joins after higher ones. Then what was reported before goes on."""
    top = max((seat.ordinal for seat in roster.voters(seen)), default=-1)
    grew, replaced = (_goes_on(kind, outcome, seen) for kind in ("Scaling", "Recovering"))
    every = [
        seat
        for seat in roster.seats(seen)
        if seat.ordinal < seen.cluster.size and not seat.is_voter
    ]
    again = [
        seat
        for seat in every
        if _had_a_member(seat) or (seat.ordinal < top if grew == replaced else replaced)
    ]
    return _Vacant(tuple(seat for seat in every if seat not in again), tuple(again))


def _goes_on(kind: str, outcome: Outcome, seen: Observation) -> bool:
    """Whether what this condition has reported goes on: the spec is the same, or at least its size
    is. The replicas follow an edit of the size only after it has been reported."""
    same_size = seen.replicas == seen.cluster.size
    return outcome.was(kind) or (same_size and stored_conditions.is_true(outcome.stored, kind))


def _had_a_member(seat: Seat) -> bool:
    """Whether the volume is recorded for a removed member. Growth never finds such a volume,
    because it is deleted first; so the new member there is a replacement."""
    record, member = seat.record, seat.member
    return record is not None and (member is None or member.member_id != record.member_id)


def _members(seen: Observation) -> list[Seat]:
    """The members on the list; without a list, all seats that have a pod."""
    every = roster.seats(seen)
    return [seat for seat in every if (seat.member if seen.etcd else seat.pod)]


def _made_for(seat: Seat) -> Version | None:
    """The version that the pod was created for; if that is unknown, the one that etcd reports."""
    pod = seat.pod
    made = pod.made_for if pod else None
    return made or (reported_version(seat.status.version) if seat.status else None)


def _who_runs_what(seen: Observation) -> str:
    """How many members run which version, by their own status."""
    every = _members(seen)
    said = Counter(seat.status.version for seat in every if seat.status)
    if not said:
        return ""
    runs = ", ".join(f"{n} of {len(every)} run {version}" for version, n in sorted(said.items()))
    silent = wording.in_words([seat for seat in every if not seat.status])
    return f"{runs}, no answer from {silent}" if silent else runs
