"""A formed cluster without a quorum: said in full, and nothing destructive, ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from etcd_stateful.membership import budget, replicas, roster, survivor
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold, Step, Wait
from etcd_stateful.records.bootstrap import FIRST_EPOCH

MOMENT_SECONDS: Final = 120.0
"""From the making of a pod to an etcd in it that leads itself, its image pulled and all."""

VOLUMES: Final[Mapping[str, str]] = {
    "no-data": "its volume is empty",
    "foreign-data": "its volume holds other data",
    "unreadable": "its volume cannot be read",
    "damaged": "its log is damaged",
}
"""What keeps `start` waiting, by what it found; one that has its ticket is starting."""


def missing(seen: Observation) -> Step | None:
    """Waits for members that may come back, or for a human when too many cannot."""
    if seen.etcd is not None or not is_latched(seen):
        return None
    size = replicas.wanted(seen)
    every = [seat for seat in roster.seats(seen) if seat.ordinal < size]
    to_grow = _to_grow(seen, every)
    every, size = [seat for seat in every if seat not in to_grow], size - len(to_grow)
    silent = [seat for seat in every if seat.status is None or not seat.status.leader_id]
    lost = [seat for seat in every if _is_lost(seat)]
    words = "; ".join((*(_why(seat) for seat in silent), *_of_the_version(seen)))
    enough = size - len(lost) >= roster.quorum(size) or _is_seen_to_serve(every)
    if enough or _begins_alone(seen, lost):
        return Wait(f"a quorum to answer: {words}" if words else "a quorum to answer", soon=True)
    return Hold(
        "QuorumLost",
        f"the data of {roster.in_words(lost)} is lost and too few members are left for a quorum. "
        f"Nothing is replaced without one. {survivor.ways_out(seen)}. {words}",
    )


def _to_grow(seen: Observation, every: list[Seat]) -> list[Seat]:
    """Those that never had a ticket: the empty ones that no record names, if each ticket there was
    is on record elsewhere. A lost member's claim may be as new; so where that does not tell, and
    there are more ordinals than the budget knew members of, the highest of them."""
    waiting = [seat for seat in every if seat.waits_empty and seat.record is None]
    if _every_ticket_is_held(seen, every):
        return waiting
    most = budget.most(seen)
    spare = len(every) - most if most else 0
    return waiting[-spare:] if spare > 0 else []


def _every_ticket_is_held(seen: Observation, every: list[Seat]) -> bool:
    """Whether every member that ever began is on record at an ordinal. Without first members the
    ledger does not tell: then there was data before it."""
    record = recorded(seen)
    began = {one.member_id for one in record.members} | {member for member, _ in record.issued}
    return bool(record.members) and began <= {one.record.member_id for one in every if one.record}


def _of_the_version(seen: Observation) -> Iterator[str]:
    """A way out that nothing else tells of."""
    record = recorded(seen)
    if record.untried:
        yield (
            f"nothing tells that the data is of etcd {record.version}: if members fail for that, "
            "set spec.version to the one that they ran"
        )


def _is_seen_to_serve(every: list[Seat]) -> bool:
    """A pod is Ready by a read that took a quorum. So one that the operator alone does not hear, or
    not for a moment, is no proof of a loss, whatever other ordinals wait to be grown."""
    ready = (seat for seat in every if seat.pod and seat.pod.takes_traffic)
    return any(seat.status is None or seat.status.leader_id for seat in ready)


def _begins_alone(seen: Observation, lost: list[Seat]) -> bool:
    """After a recovery the survivor alone is a member, and takes a moment to say so, and another to
    lead itself; nobody else's claim has a record then. No more than a moment: those who joined it
    since may have lost their claims, and their records with them."""
    epoch, known = recorded(seen).epoch, [seat for seat in roster.seats(seen) if seat.record]
    kept = [seat for seat in known if seat not in lost]
    young = all(seat.pod is None or seat.pod.age < MOMENT_SECONDS for seat in kept)
    return epoch > FIRST_EPOCH and bool(kept) and young and (kept == known or not seen.statuses)


def _is_lost(seat: Seat) -> bool:
    """No list tells who is a member now, so only what `start` and the claims prove counts."""
    claim, pod = seat.claim, seat.pod
    if seat.durable and claim and (claim.phase == "Lost" or (pod and pod.node_gone)):
        return True
    return seat.found in ("no-data", "damaged")


def _why(seat: Seat) -> str:
    pod = seat.pod
    if pod is None:
        return f"{seat.name} has no pod"
    if pod.deleting:
        return f"{roster.stopping(pod)} is stopping"
    if pod.trouble:
        return f"{seat.name}: {pod.trouble}"
    if seat.found:
        words = VOLUMES.get(seat.found, "is starting")
        detail = pod.answer.finding.detail if pod.answer else ""
        return f"{seat.name}: {words} ({detail})" if detail else f"{seat.name}: {words}"
    if seat.status is not None:
        return f"{seat.name} runs without a leader"
    return f"{seat.name} does not answer"
