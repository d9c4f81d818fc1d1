"""Takes back a CORRUPT alarm once nothing is corrupt any more; until then etcd refuses writes."""

from __future__ import annotations

from etcd_stateful.membership import changes, roster
from etcd_stateful.membership.identity import to_hex
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import DisarmAlarm, Step


def disarm(seen: Observation) -> Step | None:
    listed = {member.member_id for member in (seen.etcd.members if seen.etcd else ())}
    for alarm in seen.alarms:
        over = alarm.member_id not in listed or _all_agree(seen)
        if alarm.kind == "CORRUPT" and listed and over:
            return _disarm(seen, alarm.member_id)
    return None


def _all_agree(seen: Observation) -> bool:
    """The alarm may blame the wrong member; then the one that differed has gone in its place."""
    voters = roster.voters(seen)
    hashes = [seen.hashes[seat.ordinal] for seat in voters if seat.ordinal in seen.hashes]
    return len(hashes) == len(voters) > 1 and len(set(hashes)) == 1


def _disarm(seen: Observation, member_id: int) -> Step:
    words = f"the CORRUPT alarm of member {to_hex(member_id)} is over: all members agree again"
    return changes.ask(seen, lambda asked: DisarmAlarm(asked, member_id, words))
