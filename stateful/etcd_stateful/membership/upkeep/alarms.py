"""Disarms an alarm once its cause is gone; until then etcd refuses writes.

If it cannot be told which data is right, the user has to decide. No pod is ready until then.
"""

from __future__ import annotations

from collections import Counter

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.members.loss import hashes_of_voters, why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import DisarmAlarm, Hold, Step, Wait
from etcd_stateful.membership.upkeep import by_hand, space
from etcd_stateful.observed.members import Alarm


def disarm(seen: Observation) -> Step | None:
    """Disarms the next alarm whose cause is gone."""
    if not seen.members:
        return None
    why = ((alarm, _why_over(seen, alarm)) for alarm in seen.alarms)
    return next((_disarm(seen, alarm, words) for alarm, words in why if words), None)


def _why_over(seen: Observation, alarm: Alarm) -> str:
    """Why the alarm can be disarmed; empty if it cannot.

    NOSPACE counts for all members: after the member that raised it is removed, the others may have
    as little space left. It is not disarmed while CORRUPT is raised: etcd 3.5 accepts writes again
    after any alarm is disarmed, even if others are still raised (seen on 3.5.35, not on 3.6.16 and
    3.7.3).
    """
    if alarm.kind == "NOSPACE":
        over = space.has_room(seen) and not seen.is_corrupt
        return "no member is near its quota any more" if over else ""
    if _all_agree(seen):
        return "all members agree again"
    listed = {member.member_id for member in seen.members}
    if len(roster.voters(seen)) > 1:
        listed.add(0)  # etcd names none if no majority has the same data: it may be any of them
    compared = not _some_differ(seen) and not _uncompared(seen)
    gone = alarm.member_id not in listed and compared
    return "it is no member any more" if gone else ""


def _all_agree(seen: Observation) -> bool:
    """Whether all voters have the same hash. The alarm may name the wrong member, so it is over
    when all agree, whichever member was replaced."""
    return len(_hashes(seen)) == len(roster.voters(seen)) > 1 and not _some_differ(seen)


def _some_differ(seen: Observation) -> bool:
    """Whether two voters have different hashes. If the member that the alarm named is gone, it was
    not the bad one, or not the only one."""
    return len(set(_hashes(seen))) > 1


def _hashes(seen: Observation) -> list[int]:
    """The hashes of the voters that answered."""
    return list(hashes_of_voters(seen).values())


def _uncompared(seen: Observation) -> list[roster.Seat]:
    """The voters that answer, but whose hash is unknown: the one that differs may be among them. A
    single member has nothing to be compared with."""
    voters = roster.voters(seen)
    unknown = [seat for seat in voters if seat.answers and seat.ordinal not in seen.hashes]
    return unknown if len(voters) > 1 else []


def is_undecided(seen: Observation, *, without: int = 0) -> bool:
    """Whether CORRUPT is raised, and no majority of the voters is known to have the same data.
    Nobody may join or leave the voters then, or the size alone would decide which data is kept: a
    new member has a copy of the leader's.

    Args:
        without: so many voters without a hash are left out, as if they were removed.
    """
    voters = len(roster.voters(seen)) - without
    most = max(Counter(_hashes(seen)).values(), default=0)
    return seen.is_corrupt and voters > 1 and most < roster.quorum(voters)


def undecided(seen: Observation) -> Step | None:
    """Holds if no majority agrees, and no voter's answer could change that: all others are lost.
    Asked after `replace`, which removes a member that the majority disagrees with."""
    if not seen.is_corrupt:
        return None
    if unknown := _uncompared(seen):
        names = wording.in_words(unknown)
        return Wait(f"the data of {names} to be compared: etcd has raised the alarm CORRUPT")
    if not _hashes(seen) or _may_answer(seen):
        return None
    voters = roster.voters(seen)
    saved = f"save the data that you trust ({by_hand.save(seen, 'its pod')}) and restore it"
    where = "in place (EtcdRestore)" if seen.cluster.durable else "into a new cluster"
    ways = f"Restore a backup {where}; or {saved}"
    if len(voters) == 1:
        why = f"{voters[0].name} is the only member, so nothing shows whether its data is right"
        ways = f"{ways}; or keep it as it is ({by_hand.etcdctl(seen, 'alarm disarm')})"
    elif max(Counter(_hashes(seen)).values()) < roster.quorum(len(_hashes(seen))):
        why = f"no majority of the members has the same data: {_groups(seen)}"
    else:
        return None
    return Hold("DataDiffers", f"etcd has raised the alarm CORRUPT, and {why}. {ways}")


def unheard(seen: Observation) -> Step | None:
    """Waits for voters whose etcd runs, for all that is known, and does not answer. Asked after
    `undecided`: as no pod is Ready under CORRUPT, nothing else tells that these hold up all
    others."""
    voters = [seat for seat in roster.voters(seen) if not seat.answers]
    silent = [one for one in voters if one.pod and one.pod.runs_untroubled]
    if not seen.is_corrupt or not silent:
        return None
    names, way = wording.in_words(silent), ""
    if not is_undecided(seen):
        lost = f"claim {silent[0].claim.name}" if silent[0].claim else f"pod {silent[0].name}"
        way = (
            f". Most members agree: if {silent[0].name} will not come back, delete {lost}, and a "
            "new member takes its place"
        )
    return Wait(
        f"etcd in {names} to answer, so that its data can be compared: etcd has raised the alarm "
        f"CORRUPT, and serves nobody until then{way}",
        soon=True,
    )


def _may_answer(seen: Observation) -> bool:
    """Whether a voter without a hash may have one later. One that has lost its data has none, and
    is not removed while a learner copies."""
    unknown = (seat for seat in roster.voters(seen) if seat.ordinal not in seen.hashes)
    return any(
        (seat.pod and seat.pod.runs_undisturbed) or not why_lost(seen, seat) for seat in unknown
    )


def _groups(seen: Observation) -> str:
    """Which members have the same hash, for a message."""
    groups: dict[int, list[roster.Seat]] = {}
    for seat in roster.voters(seen):
        if seat.ordinal in seen.hashes:
            groups.setdefault(seen.hashes[seat.ordinal], []).append(seat)
    return " against ".join(wording.in_words(one) for one in groups.values())


def _disarm(seen: Observation, alarm: Alarm, why: str) -> Step:
    words = f"the {alarm.kind} alarm of member {to_hex(alarm.member_id)} is over: {why}"
    return changes.request(seen, lambda asked: DisarmAlarm(asked, alarm, words))
