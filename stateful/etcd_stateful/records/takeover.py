"""The records of a cluster that a restore in place replaces with its successor."""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful.api.auth import ROOT
from etcd_stateful.records.bootstrap import Bootstrap, FirstMember
from etcd_stateful.records.successor import Successor


def successor_record(record: Bootstrap, taking: Successor) -> Bootstrap:
    """The record that the restore Job fills the first volume for: one first member, the new
    epoch."""
    first = FirstMember(taking.name, taking.peer_url, taking.member_id)
    return replace(
        record,
        epoch=record.next_epoch,
        token=taking.token,
        members=(first,),
        cluster_id=taking.cluster_id,
        bump=taking.bump,
    )


def taken_over(record: Bootstrap, taking: Successor) -> Bootstrap:
    """The record after the takeover: volumes of the old epoch and cluster may not run any more.

    The ledger stays: no member gets two tickets. A root in the backup is not the one that was
    created for `spec.auth`, and may have no password.
    """
    accounts = record.accounts
    users = tuple(user for user in accounts.users if user != ROOT)
    return replace(
        successor_record(record, taking),
        members=(),
        size=taking.ordinal + 1,
        oldest=record.version,
        before="",
        declined=False,
        successor=None,
        retired=(*record.retired, record.cluster_id),
        restored_by=taking.restore,
        restored_from=taking.source,
        accounts=replace(accounts, users=users),
    )
