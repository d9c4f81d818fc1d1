"""The state of the world: small, hashable, and canonical by construction.

It keeps nothing that only grows, so that two histories without a relevant difference end in the
same state:

- A UID, a resourceVersion or a challenge is only compared for equality. So each object has one name
  that follows from its ordinal (`pod-2`, `run-2`). When an object is deleted, references to it (in
  the ledger, in a held step) are renamed to `gone`. See `World.touch` and `World.new_run`.
- The ID of an added member comes from a pool; which one depends on where it appears first
  (`canonical`). IDs that appear only in the ledger are left out.
- Time is two bits of a pod: `aged` (a minute has passed) and `linked` (its etcd has been connected
  to its peers for longer than etcd's health interval).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from etcd_stateful.records.bootstrap import FIRST_EPOCH

MAX: Final = 7

PENDING: Final = 0
START: Final = 1
ETCD: Final = 2
CRASH: Final = 3
IMAGE: Final = 4
BOUND: Final = 5
LACKS: Final = 6
"""Where a pod is: not scheduled; in the init container `start`; its etcd runs, fails, or its image
cannot be pulled; or the kubelet starts no container, because the claim is being deleted or because
the operator's image for `start` cannot be pulled."""

UNSTARTED: Final = frozenset({PENDING, BOUND, LACKS})

NO_HARM: Final = 0
LOG: Final = 1
DATABASE: Final = 2
DIFFERENT: Final = 3
UNREADABLE: Final = 4
"""What is wrong with data: the WAL cannot be parsed, etcd refuses the database, data silently
differs, or the disk returns errors for a while."""

RUNS: Final = 0
COMPLETE: Final = 1
FAILED: Final = 2
"""How far the recovery Job has come."""

STAYS: Final = 0
DELETING: Final = 1
LEAVING: Final = 2
"""A Job whose deletion waits for its pod; and one that is gone while its pod still stops."""

NODE: Final = 1
PHASE: Final = 2
"""How a claim's volume is lost: with its node, or the volume alone (phase Lost)."""

NONE: Final = -1


class Record(NamedTuple):
    """A member record; `own` while its claim UID is that of the object that it is on."""

    member: int
    cluster: int
    own: bool
    epoch: int = FIRST_EPOCH


class Content(NamedTuple):
    """The content of a volume: a marker and, once etcd has run, a WAL with these IDs."""

    member: int
    cluster: int
    new: bool
    """Whether the ticket's state was `new`, and not `existing`."""
    initial: int
    """Ordinals in the ticket's initial cluster, as bits."""
    log: bool
    has: bool
    """Whether it has every acknowledged write."""
    harm: int = NO_HARM
    epoch: int = FIRST_EPOCH
    """The epoch in its marker."""
    aside: bool = False
    """The recovery Job has set the marker aside, and has not written another yet."""
    alone: bool = False
    """By its own WAL it is the only member. It means nothing once etcd has run in that epoch."""


class Claim(NamedTuple):
    record: Record | None = None
    deleting: bool = False
    lost: int = 0
    content: Content | None = None
    hidden: Content | None = None
    """The right volume, while a wrong and empty one is mounted in its place."""


class Pod(NamedTuple):
    """A pod. It has `record` and `content` only with an emptyDir."""

    where: int
    template: int
    deleting: bool = False
    aged: bool = False
    linked: bool = False
    record: Record | None = None
    content: Content | None = None


class Member(NamedTuple):
    member: int
    ordinal: int
    learner: bool
    started: bool
    """Whether its name is on the list: it has published it, or is one of the first members."""
    matched: bool
    """Whether the leader has once seen it caught up, even if it is silent or wiped since."""


class Etcd(NamedTuple):
    """The one etcd cluster that there may be. `minor` is the cluster version's, `format` that of
    its members' data, which follows it, and `down` the target of a downgrade or 0."""

    cluster: int
    members: tuple[Member, ...]
    leader: int
    minor: int
    down: int
    format: int
    alarms: tuple[int, ...] = ()
    epoch: int = FIRST_EPOCH
    """The epoch of its volumes, raised when a survivor runs as the only member."""


class Job(NamedTuple):
    """The recovery Job with its pod: the volume it works on, and its order.

    `made`: the spec it was made from. `minor` and `pullable`: of its etcd image."""

    survivor: int
    member: int
    cluster: int
    epoch: int
    made: str
    minor: int
    pullable: bool
    phase: int = RUNS
    going: int = STAYS


class State(NamedTuple):
    """`spec`, `secret`, `sts`, ... are indices of `tables`; the masks have one bit per ordinal."""

    spec: int
    told: int
    """The cluster ID in the custom resource's status; 0 for none."""
    secret: int
    sts: int
    headless: int
    client: int
    budget: int
    claims: tuple[Claim | None, ...]
    pods: tuple[Pod | None, ...]
    etcd: Etcd | None
    given: tuple[tuple[int, bool], ...]
    """Members that have had their ticket, and whether that run is still the last one there. This is
    the truth, whatever the ledger says."""
    cut: bool = False
    """The operator can reach no pod."""
    slow: int = 0
    """Ordinals whose pods are not scheduled."""
    away: int = 0
    """Ordinals whose node does not answer."""
    ours: int = 0
    """Ordinals that are down because the operator deleted their pod."""
    pending: int = NONE
    """A held step: an operator has decided on it and not applied it yet."""
    job: Job | None = None
    asleep: bool = False
    """The StatefulSet controller has backed off, and does nothing until the object changes."""
    unpullable: bool = False
    """No node can pull the image of the running operator."""


def quorum(size: int) -> int:
    return size // 2 + 1


def content_of(state: State, ordinal: int) -> Content | None:
    """The content of an ordinal's volume: of its claim or, with an emptyDir, of its pod."""
    claim = state.claims[ordinal]
    if claim is not None:
        return claim.content
    pod = state.pods[ordinal]
    return pod.content if pod is not None else None


def running(state: State, ordinal: int) -> int:
    """ID of the listed member that the etcd of this ordinal runs as; 0 for none."""
    etcd, pod = state.etcd, state.pods[ordinal]
    if etcd is None or pod is None or pod.where != ETCD or state.away >> ordinal & 1:
        return 0
    claim = state.claims[ordinal]
    content = claim.content if claim is not None else pod.content
    if content is None or not content.log or content.cluster != etcd.cluster:
        return 0
    for one in etcd.members:
        if one.member == content.member:
            return one.member
    return 0


def is_up(state: State, ordinal: int) -> bool:
    """Whether the etcd of this ordinal runs as a listed member."""
    return running(state, ordinal) != 0


def up_voters(state: State) -> list[Member]:
    if state.etcd is None:
        return []
    return [
        one
        for one in state.etcd.members
        if not one.learner and running(state, one.ordinal) == one.member
    ]


def runs_as(state: State, member: Member) -> bool:
    content = content_of(state, member.ordinal)
    return content is not None and content.member == member.member


def voters(state: State) -> list[Member]:
    return [one for one in state.etcd.members if not one.learner] if state.etcd else []


def has_quorum(state: State) -> bool:
    return state.etcd is not None and len(up_voters(state)) >= quorum(len(voters(state)))


def member_at(state: State, ordinal: int) -> Member | None:
    members = state.etcd.members if state.etcd else ()
    return next((one for one in members if one.ordinal == ordinal), None)


def listed(state: State) -> frozenset[int]:
    return frozenset(one.member for one in state.etcd.members) if state.etcd else frozenset()
