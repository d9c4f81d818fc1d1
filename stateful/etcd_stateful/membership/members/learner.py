"""The learner: promoted when it has caught up, removed when it cannot.

At most one at a time (I2), which is etcd's own default as well (`--max-learners`).
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.members import budget, changes, replace
from etcd_stateful.membership.members.loss import is_outvoted, why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.rolling import roll, version_first
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import MemberPromote, Step, Wait
from etcd_stateful.membership.upkeep import alarms
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.pods import Pod

STUCK_SECONDS: Final = 600.0
"""After this time, measured by the age of its pod, a learner is removed if a lost voter waits to be
replaced. The learner may only be slow, so it is not removed for any other reason. That happens
once: after the replacement no lost voter waits any more."""


def promote_or_drop(seen: Observation) -> Step | None:
    """Promotes the learner once it has caught up, or removes it (I2)."""
    seat = roster.learner(seen)
    if seat is None or seat.member is None:
        return None
    if seat.ordinal >= seen.cluster.size:
        return changes.remove(seen, seat, f"spec.size is {seen.cluster.size}")
    suspect = _why_suspect(seen) or _why_accused(seen, seat) or _why_tied(seen)
    if why := why_lost(seen, seat) or suspect:
        return changes.remove(seen, seat, why)
    if not seat.answers and (why := _why_hopeless(seen, seat)):
        return changes.remove(seen, seat, why)
    may_vote = budget.protects(seen, len(seen.members)) and not alarms.is_undecided(seen)
    if may_vote and _is_ready(seen, seat):
        return _promote(seen, seat.name, seat.member)
    why = _why_too_slow(seen, seat)
    return changes.remove(seen, seat, why) if why else None


def restart_slow(seen: Observation) -> Step | None:
    """Restarts an outdated pod whose learner has not caught up for long, or hears no leader: it may
    need the edit for that. Not one that copies to an emptyDir, as it would have to begin anew."""
    seat = roster.learner(seen)
    if seat is None or seat.pod is None or seat.pod.age < STUCK_SECONDS or not seat.answers:
        return None
    lags = seat.durable and not roster.has_caught_up(seen, seat)
    if not (lags or not seat.hears_leader) or not roll.may_cure(seen, seat):
        return None
    return roll.restart(seen, seat.pod, "it has not caught up, and its template is outdated")


def in_flight(seen: Observation) -> Step | None:
    """Waits for the learner: no other membership change begins until it is a voter or removed."""
    seat = roster.learner(seen)
    if seat is None:
        return None
    if alarms.is_undecided(seen):
        return alarms.undecided(seen) or _held_by_alarm(seat)
    if _is_ready(seen, seat):
        return _held_by_budget(seat)
    if roster.has_caught_up(seen, seat) and not _keeps_quorum(seen):
        down = wording.not_serving(seen, roster.voters(seen))
        return Wait(f"{down} to serve, before learner {seat.name} may vote", soon=True)
    if why := _why_not_started(seen, seat):
        advice = version_first.advice(seen)
        return Wait(f"learner {seat.name} to start: {why}{advice}", soon=True)
    does = "start" if not seat.answers else "catch up" if seat.hears_leader else "hear the leader"
    return Wait(f"learner {seat.name} to {does}", soon=True)


def _why_not_started(seen: Observation, seat: Seat) -> str:
    """What is wrong with its pod; empty if nothing is known to be."""
    pod = seat.pod
    if pod is None:
        return wording.not_created(seen, seat.ordinal)
    if awaited := wording.awaited_name(seen, pod):
        return f"it waits for {awaited}"
    silent = wording.why_silent(pod)
    return pod.trouble or (f"its init container start does not answer{silent}" if silent else "")


def _held_by_budget(seat: Seat) -> Wait:
    return Wait(f"the PodDisruptionBudget to be raised, before learner {seat.name} may vote")


def _held_by_alarm(seat: Seat) -> Wait:
    return Wait(
        f"the members' data to be compared, before learner {seat.name} may vote: etcd has raised "
        "the alarm CORRUPT",
        soon=True,
    )


def _why_suspect(seen: Observation) -> str:
    """Why the learner's data may be wrong; empty if nothing speaks against it.

    It copied from whoever led then. With the vote of a copy, data that the others contradict could
    make a tie.
    """
    voters = (voter for voter, _ in replace.removable(seen))
    wrong = next((voter for voter in voters if is_outvoted(seen, voter.ordinal)), None)
    if wrong is None:
        return ""
    return f"it may have copied {wrong.name}, whose data differs from what most members have"


def _why_accused(seen: Observation, seat: Seat) -> str:
    """Why the learner's data may be wrong by etcd's alarm; empty if that does not say so.

    etcd compares learners too, but tells nobody else their hash. Beside a single voter it cannot
    say which of the two is wrong, and names none (the ID is 0).
    """
    accused = {alarm.member_id for alarm in seen.alarms if alarm.kind == "CORRUPT"}
    own = {seat.member.member_id} if seat.member else set()
    alone = {0} if len(roster.voters(seen)) == 1 else set()
    if not accused & (own | alone):
        return ""
    return "etcd has raised the alarm CORRUPT, and its data may be what differs"


def _why_tied(seen: Observation) -> str:
    """Why the learner, which may not vote while no majority has the same data, is removed: there is
    one without the lost voters, which are removed next."""
    lost = replace.removable(seen)
    if not alarms.is_undecided(seen) or alarms.is_undecided(seen, without=len(lost)):
        return ""
    return f"it may not vote before most members have the same data, and {_who_waits(seen)}"


def _why_hopeless(seen: Observation, seat: Seat) -> str:
    """Why a learner that does not run is removed; its pod and claim are then recreated."""
    pod = seat.pod
    if not _has_started(pod) and (waits := _who_waits(seen)):
        return f"it has not started, and {waits}"
    fails = pod and pod.crashing and pod.age > roll.CRASH_SECONDS
    return "etcd keeps failing in it" if fails else ""


def _why_too_slow(seen: Observation, seat: Seat) -> str:
    """Why a learner that runs but does not catch up is removed; empty if no lost voter waits."""
    if seat.pod is None or seat.pod.age < STUCK_SECONDS or not (waits := _who_waits(seen)):
        return ""
    return f"it is still a learner after {STUCK_SECONDS / 60:.0f} minutes, and {waits}"


def _who_waits(seen: Observation) -> str:
    """The lost voter that waits to be replaced, and why; empty if there is none."""
    lost = (f"{voter.name} has to be replaced: {why}" for voter, why in replace.removable(seen))
    return next(lost, "")


def _has_started(pod: Pod | None) -> bool:
    """Whether etcd runs in the pod, so that a missing answer may be a moment's; it may have copied
    nearly everything."""
    return bool(pod and pod.runs_undisturbed and not pod.crashing)


def _is_ready(seen: Observation, seat: Seat) -> bool:
    """Judged by its own status in this pass. etcd judges by what the leader last heard, so it would
    promote one that has since died or been wiped, or was restarted and no longer reaches it."""
    running = seat.pod is not None and not seat.pod.deleting and not seat.pod.crashing
    is_learner = seat.status is not None and seat.status.learner and seat.hears_leader
    return running and is_learner and roster.has_caught_up(seen, seat) and _keeps_quorum(seen)


def _keeps_quorum(seen: Observation) -> bool:
    """Whether a quorum serves after the promotion: one more voter may raise the quorum (I1)."""
    voters = roster.voters(seen)
    return sum(seat.serves for seat in voters) + 1 >= roster.quorum(len(voters) + 1)


def _promote(seen: Observation, name: str, learner: Member) -> Step:
    words = f"{name} has caught up and may vote"
    return changes.request(seen, lambda asked: MemberPromote(asked, learner.member_id, words))
