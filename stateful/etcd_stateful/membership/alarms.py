"""Takes back an alarm once there is no reason for it any more; until then etcd refuses writes.

Where nobody can tell which data is right, a human is asked: no pod is ready until that is decided.
"""

from __future__ import annotations

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import changes, roster, space
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import DisarmAlarm, Hold, Step
from etcd_stateful.observed.members import Alarm


def disarm(seen: Observation) -> Step | None:
    """The next alarm to take back."""
    if seen.etcd is None or not seen.etcd.members:
        return None
    why = ((alarm, _why_over(seen, alarm)) for alarm in seen.alarms)
    return next((_disarm(seen, alarm, words) for alarm, words in why if words), None)


def _why_over(seen: Observation, alarm: Alarm) -> str:
    """Empty while it is not. One that ran out of space is no reason for the others to take writes
    once it is gone, if they have as little."""
    if alarm.kind == "NOSPACE":
        over = space.has_room(seen) and not is_corrupt(seen)
        return "no member is near the quota any more" if over else ""
    if _all_agree(seen):
        return "all members agree again"
    listed = {member.member_id for member in (seen.etcd.members if seen.etcd else ())}
    gone = alarm.member_id not in listed and not _some_differ(seen)
    return "it is no member any more" if gone else ""


def is_corrupt(seen: Observation) -> bool:
    """While it is, no other alarm is taken back: etcd 3.5 takes writes again as soon as any alarm
    is, whichever others are raised (seen on 3.5.35, not on 3.6.16 and 3.7.3)."""
    return any(alarm.kind == "CORRUPT" for alarm in seen.alarms)


def _all_agree(seen: Observation) -> bool:
    """The alarm may blame the wrong member; then the one that differed has gone in its place."""
    return len(_hashes(seen)) == len(roster.voters(seen)) > 1 and not _some_differ(seen)


def _some_differ(seen: Observation) -> bool:
    """Then whoever was blamed and has gone was the wrong one, or not the only one."""
    return len(set(_hashes(seen))) > 1


def _hashes(seen: Observation) -> list[int]:
    """Of the voters that could tell."""
    voters = roster.voters(seen)
    return [seen.hashes[seat.ordinal] for seat in voters if seat.ordinal in seen.hashes]


def undecided(seen: Observation) -> Step | None:
    """Asked when nobody is to be replaced: by then a majority would have been heard."""
    voters = roster.voters(seen)
    if not is_corrupt(seen) or len(_hashes(seen)) < len(voters):
        return None
    saved = "save what you take for right (etcdctl snapshot save in its pod) and restore that"
    where = "in place (EtcdRestore)" if seen.cluster.durable else "into a new cluster"
    ways = f"Restore a backup {where}; or {saved}"
    if len(voters) == 1:
        why = f"{voters[0].name} is the only member, so nothing tells whether its data is right"
        ways = f"{ways}; or go on with it as it is (etcdctl alarm disarm)"
    elif _some_differ(seen):
        why = f"no majority of the members has the same data: {_sides(seen)}"
    else:
        return None
    return Hold("DataDiffers", f"etcd has raised the alarm CORRUPT, and {why}. {ways}")


def _sides(seen: Observation) -> str:
    """Who agrees with whom, in words."""
    sides: dict[int, list[roster.Seat]] = {}
    for seat in roster.voters(seen):
        sides.setdefault(seen.hashes[seat.ordinal], []).append(seat)
    return " against ".join(roster.in_words(one) for one in sides.values())


def _disarm(seen: Observation, alarm: Alarm, why: str) -> Step:
    words = f"the {alarm.kind} alarm of member {to_hex(alarm.member_id)} is over: {why}"
    return changes.ask(seen, lambda asked: DisarmAlarm(asked, alarm, words))
