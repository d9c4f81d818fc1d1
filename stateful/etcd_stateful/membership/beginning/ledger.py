"""Which entries of the ticket ledger have to be kept.

An entry keeps its member from getting a second ticket (I3). But a learner that fails repeatedly is
removed and added again, each time with a new member ID and another ticket, and a Secret holds at
most 1 MiB. Once the Secret is full, no record can be written at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.records.bootstrap import Bootstrap

MANY: Final = 200
"""Up to this many entries (about 18 KB) all are kept, as they show what has happened."""


def pruned(seen: Observation) -> Bootstrap:
    """The record; if its ledger is long, without the tickets of members that no longer exist.

    After the latch only members on the linearizable member list get tickets, and a removed member
    ID never comes back: etcd remembers removed IDs and refuses them (`ErrIDRemoved`,
    membership/cluster.go), and a new ID is a hash that includes the time (`computeMemberID`,
    membership/member.go; 3.5.35, 3.6.16, 3.7.3). An operator that writes the next ticket has read
    this Secret first, or the write fails at its resourceVersion, and the member list after it.

    First members stay, because only the ledger can tell that one of them never had a ticket. So do
    members that a claim or pod names, because a recovery may continue from their volume.
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
    """Members that own a volume, also by what `start` finds now."""
    found = {pod.answer.finding.member_id or 0 for pod in seen.pods if pod.answer}
    return roster.owning_volumes(seen) | found
