"""Chooses the member to take a snapshot from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from etcd_stateful.identity import to_hex


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The status of the member behind one endpoint."""

    endpoint: str
    cluster_id: int
    member_id: int
    leader_id: int
    learner: bool
    revision: int
    version: str
    db_size: int
    errors: tuple[str, ...] = ()


class NoUsableMember(Exception):
    """None of the members that answered can be used. The message says why, but names no field."""


def candidates(answers: Iterable[EndpointStatus], cluster_id: int = 0) -> list[EndpointStatus]:
    """The members to try in turn: followers by their revision, and the leader last.

    The leader has the most to do already. The order does not affect what the backup contains,
    because any member catches up with the leader before its snapshot is taken.

    Args:
        cluster_id: the etcd cluster to back up; 0 accepts any.
    """
    found = list(answers)
    clusters = {one.cluster_id for one in found}
    if cluster_id and cluster_id not in clusters:
        raise NoUsableMember(
            f"they answer for {_ids(clusters)}, but {to_hex(cluster_id)} is to be backed up"
        )
    if not cluster_id and len(clusters) > 1:
        raise NoUsableMember(f"they belong to different clusters: {_ids(clusters)}")
    own = [one for one in found if not cluster_id or one.cluster_id == cluster_id]
    voters = [one for one in own if not one.learner]
    if not voters:
        raise NoUsableMember("only a learner answers, and its data may be behind")
    if any("CORRUPT" in words for one in own for words in one.errors):
        raise NoUsableMember(
            "etcd has raised the alarm CORRUPT: the data of some member differs from that of the "
            "others, and the backup might be of that one"
        )
    led = [one for one in voters if one.leader_id]
    if not led:
        raise NoUsableMember("no member that answers has a leader: there is no quorum")
    return sorted(led, key=lambda one: (one.member_id == one.leader_id, -one.revision))


def _ids(clusters: Iterable[int]) -> str:
    return ", ".join(f"cluster {to_hex(one)}" for one in sorted(clusters))
