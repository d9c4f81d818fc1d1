"""Members on the list that belong to none of the cluster's pods, by their peer URLs."""

from __future__ import annotations

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold
from etcd_stateful.membership.upkeep import by_hand
from etcd_stateful.observed.members import Member


def hold(seen: Observation) -> Hold | None:
    """Holds if a member belongs to none of this cluster's pods: somebody else is changing the
    membership, and it is unknown what they rely on."""
    if not (unknown := roster.unknown_members(seen)):
        return None
    homes = [(one, roster.home_of(seen, one)) for one in unknown]
    strange = [_listed_as(one) for one, home in homes if home is None]
    moved = [_to_move_back(seen, one, home) for one, home in homes if home is not None]
    none_of_ours = (
        f"the member list has {', '.join(strange)}, which is none of this cluster's pods. The "
        "operator does not change the membership until that member is removed "
        f"({by_hand.etcdctl(seen, 'member remove')})"
    )
    return Hold("UnknownMember", ". ".join([*moved, *([none_of_ours] if strange else [])]))


def _listed_as(member: Member) -> str:
    return f"{to_hex(member.member_id)} at {' '.join(member.peer_urls)}"


def _to_move_back(seen: Observation, member: Member, home: Seat) -> str:
    own = seen.cluster.peer_url(home.ordinal)
    command = f"member update {to_hex(member.member_id)} --peer-urls={own}"
    return (
        f"the member list has {_listed_as(member)}, which runs in pod {home.name}: somebody has "
        "changed its peer URLs. The operator does not change the membership until they are back "
        f"({by_hand.etcdctl(seen, command)})"
    )
