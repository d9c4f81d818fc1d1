"""A tiny etcd: member list, leader, cluster version, and the requests that etcd refuses.

A refusal raises Conflict, because real etcd changes nothing then either.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from etcd_stateful import identity
from etcd_stateful.observed.members import Alarm, Member


class Conflict(Exception):
    """A precondition of the step does not hold, or etcd refuses the request: nothing changed."""


@dataclass(frozen=True, slots=True)
class Data:
    """What the marker and the log on a volume say."""

    cluster_uid: str
    member: str
    member_id: int
    cluster_id: int
    applied: int = 0
    storage: str = ""
    """The minor whose format the data is in."""


def minor(version: str) -> tuple[int, int]:
    """The minor of `3.6.14` or of `3.6`; (0, 0) for empty text."""
    first, _, rest = version.partition(".")
    return (int(first), int(rest.partition(".")[0])) if rest else (0, 0)


def refuse(wrong: bool, words: str) -> None:
    if wrong:
        raise Conflict(words)


@dataclass
class Etcd:
    """One etcd cluster. Arguments named `alive` map IDs of running members to the version that they
    run."""

    members: dict[int, Member] = field(default_factory=dict)
    leader: int = 0
    term: int = 1
    index: int = 100
    minor: str = ""
    """The cluster version: the format that all members write, and the lowest version that may
    join."""
    downgrade: str = ""
    ends_downgrades: bool = True
    """False while etcd has yet to look whether a downgrade is over (`downgrade-check-time`)."""
    alarms: list[Alarm] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    added: int = 0
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Bytes of each member's file, and how many of them are in use."""
    differing: dict[int, int] = field(default_factory=dict)
    """Hashes of the members whose data differs from the others'."""

    @property
    def voters(self) -> list[int]:
        return [one.member_id for one in self.members.values() if not one.learner]

    @property
    def learners(self) -> list[int]:
        return [one.member_id for one in self.members.values() if one.learner]

    def alone(self, member: Member, minor: str) -> Etcd:
        """The cluster that this member is once its etcd has run with `force-new-cluster`."""
        following = replace(copy.deepcopy(self), members={member.member_id: member}, minor=minor)
        following.leader, following.added = 0, self.added + 1000  # IDs of members never come again
        return following

    def elect(self, alive: Mapping[int, str]) -> None:
        up = [one for one in self.voters if one in alive]
        if len(up) <= len(self.voters) // 2:
            self.leader = 0
        elif self.leader not in up:
            self.leader = min(up)
            self.term += 1

    def agree(self, alive: Mapping[int, str]) -> None:
        """Agrees on a cluster version, once the leader knows the version of every member."""
        if not self.leader or not all(one in alive for one in self.members):
            return
        every = {minor(version) for version in alive.values()}
        if self.downgrade:
            self.minor = self.downgrade
            if self.ends_downgrades and every == {minor(self.downgrade)}:
                self.downgrade = ""
        elif min(every) > minor(self.minor):
            self.minor = "{}.{}".format(*min(every))

    def add_learner(self, url: str, alive: Mapping[int, str], others: tuple[str, ...] = ()) -> None:
        refuse(bool(self.learners), "too many learner members in cluster")
        taken = any(url in member.peer_urls for member in self.members.values())
        refuse(taken, "peer URL exists")
        up = sum(one in alive for one in self.voters)
        needed = (len(self.voters) + 1) // 2 + 1
        refuse(len(self.voters) > 1 and up < needed, "unhealthy cluster")
        self.added += 1
        member = identity.member_id([url], f"added-{self.added}-{min(self.members)}")
        self.members[member] = Member(member, "", (url, *others), learner=True)
        if self.leader in self.differing:
            self.differing[member] = self.differing[self.leader]  # it copies the leader's data

    def update(self, member: int, urls: tuple[str, ...]) -> None:
        refuse(member not in self.members, "member not found")
        others = [one for one in self.members.values() if one.member_id != member]
        taken = any(url in one.peer_urls for url in urls for one in others)
        refuse(taken, "peer URL exists")
        self.members[member] = replace(self.members[member], peer_urls=urls)

    def promote(self, member: int) -> None:
        """Promotes a learner by the progress that the leader last heard of, which may be long
        ago."""
        refuse(member not in self.learners, "can only promote a learner member")
        self.members[member] = replace(self.members[member], learner=False)

    def remove(self, member: int) -> None:
        refuse(member not in self.members, "member not found")
        del self.members[member]
        self.removed.append(member)

    def move_leader(self, member: int) -> None:
        refuse(member not in self.voters, "bad leader transferee")
        self.leader = member
        self.term += 1

    def defragment(self, member: int) -> None:
        self.sizes[member] = (self.sizes[member][1], self.sizes[member][1])

    def enable_downgrade(self, to: str) -> None:
        refuse(bool(self.downgrade), "cluster has a downgrade job in progress")
        one_down = (minor(self.minor)[0], minor(self.minor)[1] - 1)
        refuse(minor(to) != one_down, "invalid downgrade target version")
        self.downgrade = to

    def bars(self, version: str) -> bool:
        """Whether etcd lets no member of this version join: it is below the cluster version, or a
        downgrade is in progress."""
        return bool(self.downgrade) or minor(version) < minor(self.minor)

    def cancel_downgrade(self) -> None:
        refuse(not self.downgrade, "no downgrade job")
        self.downgrade = ""
