"""A formed cluster without a quorum: the operator explains it, and never does anything
destructive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.members import budget, replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold, Step, Wait
from etcd_stateful.records.bootstrap import FIRST_EPOCH

START_SECONDS: Final = 120.0
"""From the creation of a pod, a single-member etcd leads itself within this time, image pull
included."""

VOLUMES: Final[Mapping[str, str]] = {
    "no-data": "its volume is empty",
    "foreign-data": "its volume holds other data",
    "unreadable": "its volume cannot be read",
    "damaged": "its log is damaged",
}
"""Why `start` waits, by what it found on the volume. With its ticket, a pod "is starting"."""


def missing(seen: Observation) -> Step | None:
    """Waits for members that may come back; holds if too many cannot."""
    if seen.etcd is not None or not is_latched(seen):
        return None
    size = replicas.wanted(seen)
    every = [seat for seat in roster.seats(seen) if seat.ordinal < size]
    without = [*_never_started(seen, every), *(seat for seat in every if _is_learner(seat))]
    every, size = [seat for seat in every if seat not in without], size - len(without)
    silent = [seat for seat in every if not seat.hears_leader or _may_hang(seat)]
    lost = [seat for seat in every if is_lost(seat)]
    whys = (_why(seen, seat) for seat in silent)
    said = (*whys, _where_to_look(seen, silent), upgrade.hint_if_assumed(seen))
    words = "; ".join(filter(None, said))
    enough = size - len(lost) >= roster.quorum(size) or _is_seen_to_serve(every)
    if enough or _is_survivor_starting(seen, lost):
        words = f"a quorum to answer: {words}" if words else "a quorum to answer"
        return Wait(f"{words}{_if_outvoted(seen, every)}{_if_refused(seen, silent)}", soon=True)
    return Hold(
        "QuorumLost",
        f"the data of {wording.in_words(lost)} is lost and too few members are left for a quorum. "
        f"Without one, no member is replaced. {_may_be_back(lost) or _may_only_start(seen, lost)}"
        f"{survivor.ways_out(seen)}. {words}",
    )


def _never_started(seen: Observation, every: list[Seat]) -> list[Seat]:
    """The ordinals that never had a member, which therefore do not count as lost.

    They wait with an empty volume and no member record. But a lost member's new claim looks the
    same. So all of them count only if every ticket there was is recorded on some claim. Otherwise
    only the highest count, as many as there are ordinals beyond the members that the disruption
    budget allows for.
    """
    waiting = [seat for seat in every if seat.volume_is_empty and seat.record is None]
    if _every_ticket_is_held(seen, every):
        return waiting
    most = budget.max_members(seen)
    spare = len(every) - most if most else 0
    return waiting[-spare:] if spare > 0 else []


def _is_learner(seat: Seat) -> bool:
    """Whether the member has no vote, by its own status. If it was promoted a moment ago, it may
    not know yet; then the next leader tells it."""
    return bool(seat.status and seat.status.learner)


def _every_ticket_is_held(seen: Observation, every: list[Seat]) -> bool:
    """Whether every member that ever had a ticket is recorded on some claim. Without first members
    the ledger is incomplete: the cluster is older than its record."""
    record = recorded(seen)
    began = {one.member_id for one in record.members} | {member for member, _ in record.issued}
    return bool(record.members) and began <= {one.record.member_id for one in every if one.record}


def _is_seen_to_serve(every: list[Seat]) -> bool:
    """Whether the kubelet sees a quorum: a pod is Ready only by a read that needs one. If only the
    operator cannot reach it, or only for a moment, that is no proof of a loss."""
    ready = (seat for seat in every if seat.takes_traffic)
    return any(seat.status is None or seat.hears_leader for seat in ready)


def _is_survivor_starting(seen: Observation, lost: list[Seat]) -> bool:
    """Whether this is the short time after a recovery or a restore in which the survivor, or the
    first member, has yet to answer and to lead itself. It is the only member.

    Only its claim has a record then. It may last no longer than `START_SECONDS`, because it looks
    the same when members that joined later have lost their claims.
    """
    known = [seat for seat in roster.seats(seen) if seat.record]
    kept = [seat for seat in known if seat not in lost]
    young = all(seat.pod is None or seat.pod.age < START_SECONDS for seat in kept)
    return _had_one_member(seen) and bool(kept) and young and (kept == known or not seen.statuses)


def _if_outvoted(seen: Observation, every: list[Seat]) -> str:
    """What to say if the only member runs without a leader. etcd lets anyone add a second voter to
    a cluster of one (3.7.3, `IsReadyToAddVotingMember`), and there is no leader until it runs."""
    if len(every) != 1:
        return ""
    [seat] = every
    leaderless = seat.status is not None and not seat.hears_leader
    if not leaderless or seat.pod is None or seat.pod.age < START_SECONDS:
        return ""
    return (
        ". A member that is alone leads itself, unless somebody has added a voter to its list. If "
        f"that voter never ran, {seat.name} has all the data. {survivor.way_on_alone(seen)}"
    )


def _if_refused(seen: Observation, silent: list[Seat]) -> str:
    """What to say if members refuse a TLS connection, and the user provides the certificates."""
    link = seen.cluster.links.client
    refused = any(seat.pod and seat.pod.no_handshake for seat in silent)
    if not refused or link.mode != "Static":
        return ""
    return (
        ". etcd reads the authorities that it trusts only when it starts: if one was replaced at "
        f"once, put the previous content of Secrets {link.secret} and {link.operator} back, and "
        "replace it step by step (docs/tls.md, Static)"
    )


def _may_be_back(lost: list[Seat]) -> str:
    """What to say of volumes that only lack a node: if that of one comes back, or any in the zone
    of a network volume, nothing was lost."""
    away = (one for one in lost if one.pod and one.pod.node_gone)
    bound = [one for one in away if one.claim and one.claim.phase == "Bound"]
    if not bound:
        return ""
    return (
        f"If the volume of {wording.in_words(bound)} still exists, such as in a zone that has no "
        "node for a while, only wait for a node that can use it: nothing is lost then. Otherwise: "
    )


def _may_only_start(seen: Observation, lost: list[Seat]) -> str:
    """What to say if the only member with data may still be starting, later than in time: a large
    database takes minutes to be attached and opened. Another recovery would start it over."""
    kept = [seat for seat in roster.seats(seen) if seat.record and seat not in lost]
    if not _had_one_member(seen) or len(kept) != 1 or seen.statuses:
        return ""
    [seat] = kept
    if seat.pod is not None and (seat.pod.crashing or seat.pod.tried_again):
        return ""
    return (
        f"But if no other member has joined {seat.name} since the last recovery or restore, only "
        "wait: nothing is lost, and it serves alone once its database is open. Otherwise: "
    )


def _may_hang(seat: Seat) -> bool:
    """Whether it names a leader from memory alone: its probe, which reads with a quorum, fails."""
    return seat.hears_leader and seat.pod is not None and not (seat.pod.ready or seat.pod.unready)


def _had_one_member(seen: Observation) -> bool:
    """Whether the cluster began with one member, or went on with one: by a restore or a
    recovery."""
    record = recorded(seen)
    return record.epoch > FIRST_EPOCH or record.bump > 0


def is_lost(seat: Seat) -> bool:
    """Whether the data of this ordinal is lost. Without a member list, only `start` and the claims
    can prove it."""
    claim, pod = seat.claim, seat.pod
    if seat.durable and claim and (claim.phase == "Lost" or (pod and pod.node_gone)):
        return True
    return seat.found in ("no-data", "damaged")


def _where_to_look(seen: Observation, silent: list[Seat]) -> str:
    """Where it says why pods are not created; empty if all are, or another pod has the name."""
    absent = [seat for seat in silent if seat.pod is None]
    known = any(wording.name_taken(seen, seat.ordinal) for seat in absent)
    return wording.why_no_pod(seen, absent[0].ordinal) if absent and not known else ""


def _why(seen: Observation, seat: Seat) -> str:
    pod = seat.pod
    if pod is None:
        taken = wording.name_taken(seen, seat.ordinal)
        return f"{seat.name} has no pod{f' ({taken})' if taken else ''}"
    if pod.deleting:
        return f"{wording.stopping(pod)} is stopping"
    if pod.trouble:
        return f"{seat.name}: {pod.trouble}"
    if seat.found:
        words = VOLUMES.get(seat.found, "is starting")
        detail = pod.answer.finding.detail if pod.answer else ""
        return f"{seat.name}: {words} ({detail})" if detail else f"{seat.name}: {words}"
    if seat.status is not None:
        hangs = "names a leader and is not Ready: its disk may hang, or it lacks CPU"
        return f"{seat.name} {hangs if seat.hears_leader else 'runs without a leader'}"
    return f"{seat.name} does not answer{wording.why_silent(pod)}"
