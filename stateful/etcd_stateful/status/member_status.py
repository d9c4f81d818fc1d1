"""`status.memberStatus`: each member as it was last seen, with the figures for choosing a survivor.

The figures change with every write of a client. So they are shown only while no quorum answers:
then they stand still, and matter. A settled cluster causes no status writes for them (I12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from etcd_stateful import identity, naming
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.observed.members import Member, MemberStatus
from etcd_stateful.versions import LONGEST_VERSION

Entry = dict[str, Any]

LONGEST_NAME: Final = 253
"""Characters. The CRD allows no more, and the API server would refuse the whole status. A member
that somebody else has added may report a longer one."""


def member_status(seen: Observation, stored: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """The members on the list; without a list, those in the last status, with their figures."""
    known = {str(one["id"]): dict(one) for one in stored if one.get("id")}
    if seen.etcd is not None:
        entries = [_listed(seen, member, known) for member in seen.members]
    else:
        entries = _without_list(seen, known)
    return sorted(entries, key=lambda entry: (str(entry.get("name", "")), entry["id"]))


def _listed(seen: Observation, member: Member, known: Mapping[str, Entry]) -> Entry:
    ordinal, name = roster.ordinal_of(seen, member), member.name
    status = seen.statuses.get(ordinal) if ordinal is not None else None
    own = status if status and status.member_id == member.member_id else None
    entry = {
        "name": name[:LONGEST_NAME] if ordinal is None else naming.pod(seen.cluster.name, ordinal),
        "id": identity.to_hex(member.member_id),
        "role": _role(seen, member),
    }
    version = own.version if own else known.get(entry["id"], {}).get("version", "")
    return entry | ({"version": version[:LONGEST_VERSION]} if version else {})


def _role(seen: Observation, member: Member) -> str:
    """The role, from any member that answers: a leader that misses one query is still the
    leader."""
    if member.learner:
        return "learner"
    return "leader" if roster.leader_id(seen) == member.member_id else "voter"


def _without_list(seen: Observation, known: Mapping[str, Entry]) -> list[Entry]:
    entries = dict(known)
    if seen.bootstrap is None:
        return list(entries.values())
    for ordinal, status in seen.statuses.items():
        if status.cluster_id == recorded(seen).cluster_id:
            member = identity.to_hex(status.member_id)
            name = naming.pod(seen.cluster.name, ordinal)
            entries[member] = _answering(name, member, status, entries.get(member, {}))
    return list(entries.values())


def _answering(name: str, member: str, status: MemberStatus, before: Mapping[str, Any]) -> Entry:
    """The entry of a member that answers. A new term alone does not change it: without a quorum the
    term rises at every election timeout."""
    entry = {"name": name, "id": member, "role": "learner" if status.learner else "voter"}
    if status.leader_id == status.member_id:
        entry["role"] = "leader"
    if status.version:
        entry["version"] = status.version[:LONGEST_VERSION]
    if before.get("appliedIndex") == status.applied_index:
        return entry | {key: before[key] for key in _FIGURES if key in before}
    return entry | {
        "term": status.term,
        "appliedIndex": status.applied_index,
        "dbSize": status.db_size,
    }


_FIGURES = ("term", "appliedIndex", "dbSize")
