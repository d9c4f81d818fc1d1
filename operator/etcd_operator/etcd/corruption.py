"""Reads etcd's alarms and, if one is CORRUPT, finds out which members have the same data.

The alarm may blame the wrong member, so each member is asked for the hash of all that it has up to
one revision. For that it reads its whole database, so this is done rarely, and never without such
an alarm.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from etcd_operator.etcd.api import Endpoint, Etcd, NoAnswer, Refused
from etcd_stateful.observed.members import Alarm, MemberStatus, is_corrupt

SECONDS_BETWEEN: Final = 30.0
"""How long hashes of the same members are reused, in passes that only look. Each may take longer to
make than this, so the time counts from the answers."""

_ALARM: Final = re.compile(r"(?:memberID:([0-9]{1,20})\s+)?alarm:(NOSPACE|CORRUPT)")
"""If no majority of the members has the same data, etcd names none: the ID is 0, and left out."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What was found, and for which members."""

    alarms: tuple[Alarm, ...] = ()
    hashes: Mapping[int, int] = field(default_factory=dict)
    """By ordinal."""

    of: Mapping[int, int] = field(default_factory=dict)
    """Member IDs by ordinal."""

    at: float = 0.0
    """When the hashes had come."""

    calls: int = 0


NONE: Final = Suspicion()


def is_raised(statuses: Iterable[MemberStatus]) -> bool:
    """Whether a status mentions an alarm. To ask for the alarms costs the cluster a log entry."""
    return any("alarm:" in error for status in statuses for error in status.errors)


async def look_into(
    etcd: Etcd,
    voter: Endpoint,
    places: Mapping[int, Endpoint],
    statuses: Mapping[int, MemberStatus],
    *,
    last: Suspicion,
    clock: Callable[[], float],
) -> Suspicion:
    """Reads the alarms from a voter that has just answered and, if needed, every voter's hash."""
    alarms = await _or_none(etcd.alarms(voter))
    if alarms is None:
        alarms = _mentioned(statuses.values())
    if not is_corrupt(alarms):
        return Suspicion(alarms, calls=1)
    of = {n: status.member_id for n, status in statuses.items() if not status.learner}
    if of == last.of and clock() - last.at < SECONDS_BETWEEN:
        return Suspicion(alarms, last.hashes, of, last.at, calls=1)
    common = min(statuses[n].revision for n in of) if of else 0
    hashes = await _hashes(etcd, {n: places[n] for n in of}, common)
    return Suspicion(alarms, hashes, of, clock(), calls=1 + len(of))


def _mentioned(statuses: Iterable[MemberStatus]) -> tuple[Alarm, ...]:
    """The alarms that the members' statuses mention. A request for them is an entry in the log, so
    a slow disk may keep its answer back, and alarms that are raised must not seem to be over."""
    words = " ".join(error for status in statuses for error in status.errors)
    named = {(int(found[1] or 0), found[2]) for found in _ALARM.finditer(words)}
    return tuple(
        Alarm("CORRUPT" if kind == "CORRUPT" else "NOSPACE", member_id)
        for member_id, kind in sorted(named)
    )


async def _hashes(etcd: Etcd, places: Mapping[int, Endpoint], revision: int) -> Mapping[int, int]:
    """Hashes by ordinal: from the last compaction up to this revision, which all have applied."""
    said = await asyncio.gather(*(_or_none(etcd.hash_kv(at, revision)) for at in places.values()))
    found = {n: one for n, one in zip(places, said, strict=True) if one is not None}
    if not found:
        return {}
    compactions = Counter(one.compacted for one in found.values())
    ((compacted, _),) = compactions.most_common(1)
    return {n: one.value for n, one in found.items() if one.compacted == compacted}


async def _or_none(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except (NoAnswer, Refused):
        return None
