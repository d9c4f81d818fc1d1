"""Asks etcd for one change: of the members, the leader, the alarms, the version, or a database.

The request goes to the leader, or to the member whose database it is, and only to that member of
that cluster. No answer means that the change may have happened. A refusal by etcd means that it has
not, and that a later try may succeed. If the leader believes that it is cut off, the others are
asked in turn: see etcd_stateful's `changes`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from etcd_operator.etcd.api import Denied, Endpoint, Etcd, Identity, NoAnswer, Refused, Stranger
from etcd_operator.step_result import Declined, Done, Outdated, Uncertain
from etcd_stateful.identity import to_hex
from etcd_stateful.membership.steps import (
    CancelDowngrade,
    Defragment,
    DisarmAlarm,
    EnableDowngrade,
    EtcdChange,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MemberUpdate,
    MoveLeader,
    Voter,
)

CUT_OFF: Final = "unhealthy cluster"
"""The message of a member that has not been connected to enough voters for five seconds."""

_DENIED: Final = (
    "authentication is on, and etcd takes the operator for the user that its certificate names, "
    "which must be root"
)


async def change(
    etcd: Etcd, step: EtcdChange, identity: Identity | None = None
) -> Done | Outdated | Uncertain | Declined:
    """Carries out the step. `identity`: what the operator presents to etcd; None for plaintext."""
    for asked in _asked(step):
        found = await outcome(_ask(etcd, endpoint(asked, identity), step))
        if found != Declined(CUT_OFF):
            return found
    return Declined(CUT_OFF)


async def outcome(
    asked: Awaitable[str | None], done: str = ""
) -> Done | Outdated | Uncertain | Declined:
    """What became of a change. `done` describes it, if its own result says nothing."""
    try:
        return Done(await asked or done)
    except Denied as error:
        return Declined(f"{error}: {_DENIED}")
    except Refused as error:
        return Declined(str(error))
    except Stranger as error:
        return Outdated(f"nothing was changed: {error}")
    except NoAnswer as error:
        return Uncertain(f"whether it happened is unknown: {error}")


def _asked(step: EtcdChange) -> tuple[Voter, ...]:
    """The voters to ask, in order. Others follow the leader if etcd decides by the view that the
    member which is asked has of its peers."""
    match step:
        case Defragment(member=member):
            return (member,)
        case MemberAddLearner():
            return step.leader, *step.leader.others
        case MemberRemove(member_id=leaves):
            others = (one for one in step.leader.others if one.member_id != leaves)
            return step.leader, *others
        case _:
            return (step.leader,)


def endpoint(asked: Voter, identity: Identity | None) -> Endpoint:
    """Where a voter is asked; with TLS if the operator has an identity and the voter a name."""
    tls = replace(identity, host=asked.host) if identity and asked.host else None
    return Endpoint(asked.address, asked.cluster_id, asked.member_id, tls=tls)


async def _ask(etcd: Etcd, at: Endpoint, step: EtcdChange) -> str:
    """Asks for the change; returns what was done, in words."""
    match step:
        case MemberAddLearner(peer_url=url, other_peer_urls=others):
            member_id = await etcd.member_add_learner(at, url, *others)
            done = f"added learner {to_hex(member_id)} at {url}"
        case MemberUpdate(member_id=member_id, peer_urls=urls):
            await etcd.member_update(at, member_id, *urls)
            done = f"set the peer URLs of member {to_hex(member_id)} to {' and '.join(urls)}"
        case MemberPromote(member_id=member_id):
            await etcd.member_promote(at, member_id)
            done = f"promoted member {to_hex(member_id)}"
        case MemberRemove(member_id=member_id):
            await etcd.member_remove(at, member_id)
            done = f"removed member {to_hex(member_id)}"
        case MoveLeader(member_id=member_id):
            await etcd.move_leader(at, member_id)
            done = f"made member {to_hex(member_id)} the leader"
        case DisarmAlarm(alarm=alarm):
            await etcd.disarm(at, alarm)
            done = f"disarmed the {alarm.kind} alarm of member {to_hex(alarm.member_id)}"
        case Defragment(name=name):
            await etcd.defragment(at)
            done = f"defragmented {name}"
        case EnableDowngrade(minor=minor):
            await etcd.enable_downgrade(at, minor)
            done = f"enabled the downgrade to {minor} in etcd"
        case CancelDowngrade():
            await etcd.cancel_downgrade(at)
            done = "cancelled the downgrade in etcd"
    return done
