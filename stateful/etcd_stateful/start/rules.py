"""The decisions of `start`: run etcd, wait, accept a ticket or refuse one (docs/concepts.md).

A volume with data runs at once; an empty volume waits for a ticket. `start` has these states:

    inspect --Run-------------------------------> etcd
       |                                            ^
       +--Wait--> (greeting: answer) <--refusal--+  |
                  (ticket: accept) --------------+--+ Plan, once per run; the same ticket may be
                                                      sent again

Nothing here does I/O: the shell passes in what it found on the volume and carries out the result.
It has no heavy imports, because every pod start waits for this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful.start import marker, ticket, wal
from etcd_stateful.start.configuration import Settings, own_entry, run_config, ticket_config

FOUND_DATA: Final = "running with the data of"
"""How the termination message of `start` begins if it found data and ran."""

_MAX_DETAIL: Final = 300


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What the shell found on the volume."""

    problem: str = ""
    """Why the volume could not be read. The other fields then mean nothing."""
    heads: tuple[bytes, ...] = ()
    """The first `wal.HEAD` bytes of the newest WAL segments, newest first; empty without a WAL."""
    leftovers: bool = False
    """Whether the data directory has anything in it, although there is no WAL."""
    marker: bytes | None = None
    """Content of the marker file, if it exists."""


@dataclass(frozen=True, slots=True)
class Run:
    """The volume holds this member's data: write `config`, then start etcd."""

    marker: marker.Marker
    config: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """etcd must not start on this volume as it is; `finding` tells the operator why."""

    finding: ticket.Finding


@dataclass(frozen=True, slots=True)
class Plan:
    """Carry out a ticket: make room, write `marker`, then the configurations, then start etcd."""

    marker: bytes
    config: bytes
    """The configuration that cannot bootstrap."""
    first: bytes | None
    """The configuration that can, used until etcd has created its WAL; None to adopt a WAL, for
    which no data is moved."""


@dataclass(frozen=True, slots=True)
class SameTicket:
    """The same ticket as before: the operator did not get the first receipt."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The ticket is genuine, but not for this volume or this run of `start`."""

    why: str


def inspect(settings: Settings, facts: VolumeFacts) -> Run | Wait:
    """Whether etcd may run without a ticket. It depends on nothing but the volume."""
    if facts.problem:
        return _unreadable(facts.problem)
    if not facts.heads:
        left = "left-overs without a log, to be moved aside" if facts.leftovers else ""
        return Wait(ticket.Finding("no-data", detail=left))
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return _inspect_garbled(settings, facts.marker, f"log: {error}")
    return _inspect_marked(settings, facts.marker, log)


def accept(
    settings: Settings,
    facts: VolumeFacts,
    challenge: str,
    offered: ticket.Ticket,
    taken: ticket.Ticket | None = None,
) -> Plan | SameTicket | Refusal:
    """What to do about a genuine ticket. `taken` is the ticket that this run has carried out."""
    if offered.challenge != challenge:
        return Refusal("the ticket is for another run of start")
    if taken is not None:
        return SameTicket() if offered == taken else Refusal("this run has taken another ticket")
    why = _not_ours(settings, offered) or _not_for_volume(settings, facts, offered)
    if why:
        return Refusal(why)
    return Plan(
        marker=marker.serialise(settings.marker(offered.member_id, offered.cluster_id)),
        config=run_config(settings),
        first=None if offered.state == "adopt" else ticket_config(settings, offered),
    )


def stuck(run: Run, why: str) -> Wait:
    """Wait, because the configuration for a volume with good data could not be written."""
    named = run.marker
    detail = f"the data is this member's, but {why}"[:_MAX_DETAIL]
    ids = (named.cluster_uid, named.epoch, named.member, named.member_id, named.cluster_id)
    return Wait(ticket.Finding("unreadable", detail, *ids))


def describe(finding: ticket.Finding) -> str:
    """The finding in one line, for people."""
    if finding.found == "no-data":
        return f"no data on the volume{f' ({finding.detail})' if finding.detail else ''}"
    if finding.found == "unreadable":
        return f"cannot read the volume: {finding.detail}"
    if finding.found == "ticketed":
        return "a ticket was taken"
    ids = f"member {finding.member_id or 0:016x} of etcd cluster {finding.cluster_id or 0:016x}"
    if finding.found == "damaged":
        return f"the data of {ids} is damaged: {finding.detail}"
    return f"data of {ids} on the volume that is not this pod's: {finding.detail}"


def _inspect_marked(settings: Settings, marked: bytes | None, log: wal.Identity) -> Run | Wait:
    if marked is None:
        return _foreign("a log without a marker", None, log)
    named = marker.parse(marked)
    if isinstance(named, marker.Malformed):
        return _foreign(named.why, None, log)
    differences = _differences(settings, named, log)
    if differences:
        return _foreign("; ".join(differences), named, log)
    return Run(named, run_config(settings))


def _inspect_garbled(settings: Settings, marked: bytes | None, why: str) -> Wait:
    """A WAL that was read, but is not one. It counts as damage only beside a marker of this pod,
    because a damaged member is replaced. The IDs are those of the marker."""
    named = None if marked is None else marker.parse(marked)
    if not isinstance(named, marker.Marker) or _not_named(settings, named):
        return _unreadable(why)
    ids = (named.cluster_uid, named.epoch, named.member, named.member_id, named.cluster_id)
    return Wait(ticket.Finding("damaged", why[:_MAX_DETAIL], *ids))


def _differences(settings: Settings, named: marker.Marker, log: wal.Identity) -> list[str]:
    """Why the marker, or the WAL beside it, is not this pod's."""
    differences = _not_named(settings, named)
    if (named.member_id, named.cluster_id) != (log.member_id, log.cluster_id):
        ids = f"member {named.member_id:016x} of etcd cluster {named.cluster_id:016x}"
        differences.append(f"the marker names {ids}, the log another")
    return differences


def _not_named(settings: Settings, named: marker.Marker) -> list[str]:
    """Why the marker is not this pod's, regardless of the WAL beside it."""
    differences = []
    if named.cluster_uid != settings.cluster_uid:
        differences.append(f"the marker names cluster {named.cluster_uid}")
    if named.epoch != settings.epoch:
        differences.append(f"the marker is of epoch {named.epoch}, not {settings.epoch}")
    if named.member != settings.member:
        differences.append(f"the marker names pod {named.member}")
    return differences


def _not_ours(settings: Settings, offered: ticket.Ticket) -> str:
    """Why a ticket is not for this member; empty if it is."""
    if offered.cluster_uid != settings.cluster_uid:
        return f"the ticket is for cluster {offered.cluster_uid}, not {settings.cluster_uid}"
    if offered.epoch != settings.epoch:
        return f"the ticket is of epoch {offered.epoch}, this pod of {settings.epoch}"
    if offered.member != settings.member:
        return f"the ticket is for {offered.member}, not {settings.member}"
    if not all(0 < some <= marker.MAX_ID for some in (offered.member_id, offered.cluster_id)):
        return "the ticket lacks a member or cluster ID"
    return ""


def _not_for_volume(settings: Settings, facts: VolumeFacts, offered: ticket.Ticket) -> str:
    """Why a ticket does not fit what is on the volume now; empty if it does."""
    if facts.problem:
        return f"cannot read the volume: {facts.problem}"
    if offered.state == "adopt":
        return _not_adoptable(facts, offered)
    if facts.heads:
        return f"the volume holds a log: state {offered.state} is for one without data"
    # etcd would refuse to start, and the member ID, which gets one ticket only, would be lost.
    if own_entry(settings) not in offered.initial_cluster.split(","):
        return f"the ticket's initial cluster lacks {own_entry(settings)}"
    if not offered.token:
        return "the ticket has no token"
    return ""


def _not_adoptable(facts: VolumeFacts, offered: ticket.Ticket) -> str:
    if not facts.heads:
        return "there is no log to adopt"
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return f"cannot read the volume: log: {error}"
    if (log.member_id, log.cluster_id) != (offered.member_id, offered.cluster_id):
        return (
            f"the log is of member {log.member_id:016x} of etcd cluster {log.cluster_id:016x}, "
            f"not {offered.member_id:016x} of {offered.cluster_id:016x}"
        )
    return ""


def _foreign(detail: str, named: marker.Marker | None, log: wal.Identity) -> Wait:
    return Wait(
        ticket.Finding(
            "foreign-data",
            detail=detail[:_MAX_DETAIL],
            cluster_uid=named.cluster_uid if named else None,
            epoch=named.epoch if named else None,
            member=named.member if named else None,
            member_id=log.member_id,
            cluster_id=log.cluster_id,
        )
    )


def _unreadable(detail: str) -> Wait:
    return Wait(ticket.Finding("unreadable", detail=detail[:_MAX_DETAIL]))
