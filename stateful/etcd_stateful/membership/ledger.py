"""Which tickets the ledger still has to know of.

An entry keeps its member from a second ticket (I3). A learner that fails again and again is removed
and added anew, each time under another ID and with another ticket, and a Secret holds 1 MiB. Once
it is full no record can be written any more, of whatever kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.records.bootstrap import Bootstrap

MANY: Final = 200
"""Entries, some 18 KB. Below that all are kept: they tell what has happened."""


def kept(seen: Observation) -> Bootstrap:
    """The record, of a long ledger without the tickets of members that are no more.

    Once it is latched, tickets are for members on the linearizable list only, and an ID that was
    taken off the list is never on it again: etcd keeps those it removed and refuses them
    (`ErrIDRemoved`, membership/cluster.go), and a new one is a hash that the time goes into
    (`computeMemberID`, membership/member.go; 3.5.35, 3.6.16, 3.7.3). Whoever writes the next ticket
    has read this Secret first, or fails at its resourceVersion, and the list after it.

    First members stay, as the ledger alone tells that one of them never had a ticket; and whomever
    a claim or a pod names, as a recovery goes on with what is on a volume.
    """
    record, etcd = recorded(seen), seen.etcd
    if len(record.issued) < MANY or not record.latched:
        return record
    if etcd is None or etcd.cluster_id != record.cluster_id:
        return record
    listed = {one.member_id for one in etcd.members}
    first = {one.member_id for one in record.members}
    known = listed | first | _named(seen)
    return replace(record, issued=tuple(one for one in record.issued if one[0] in known))


def _named(seen: Observation) -> set[int]:
    """Members that some volume is on record for, or is said to be of."""
    held = [one.record for one in seen.claims] + [one.record for one in seen.pods]
    found = [pod.answer.finding.member_id or 0 for pod in seen.pods if pod.answer]
    return {one.member_id for one in held if one} | {pod.ran_as for pod in seen.pods} | {*found}
