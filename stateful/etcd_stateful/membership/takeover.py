"""A cluster whose place is taken by its successor: the records before and after."""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful.records.bootstrap import Bootstrap, FirstMember
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.records.successor import Successor


def to_be(record: Bootstrap, taking: Successor) -> Bootstrap:
    """The record of the successor as its first volume is filled: with one first member."""
    first = FirstMember(taking.name, taking.peer_url, taking.member_id)
    return replace(
        record,
        epoch=record.epoch + 1,
        token=taking.token,
        members=(first,),
        cluster_id=taking.cluster_id,
        bump=taking.bump,
    )


def taken_over(record: Bootstrap, taking: Successor) -> Bootstrap:
    """From here on every volume but the successor's is of an epoch and a cluster that are over.

    The ledger stays: no member gets two tickets.
    """
    return replace(
        to_be(record, taking),
        members=(),
        size=taking.ordinal + 1,
        oldest=record.version,
        before="",
        declined=False,
        successor=None,
        retired=(*record.retired, record.cluster_id),
        restored_by=taking.restore,
    )


def member_record(record: Bootstrap, taking: Successor, claim_uid: str) -> MemberRecord:
    """Of the claim that the successor begins with."""
    return MemberRecord(
        cluster_uid=record.cluster_uid,
        claim_uid=claim_uid,
        member_id=taking.member_id,
        cluster_id=taking.cluster_id,
        epoch=record.epoch + 1,
        peer_scheme=record.links.levels.peer_scheme,
    )
