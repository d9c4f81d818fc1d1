"""The state of the world: small, hashable, and canonical by construction.

Nothing that only ever grows is kept, so that two histories which differ in nothing that matters
end in the same state:

- A UID, a resourceVersion or a challenge is only ever compared for equality. So each object bears
  one name that follows from its ordinal (`pod-2`, `run-2`), and what was remembered of the object
  before it (in the ledger, in a step that waits to be applied) is renamed to `gone` the moment that
  it goes. See `World.touch` and `World.new_run`.
- The ID of a member that was added is one of a pool; which one follows from where it appears first
  (`canonical`). IDs of members that appear nowhere but in the ledger are left out.
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
"""Where a pod is: not scheduled, in the init container `start`, its etcd runs, fails, or cannot be
pulled; or on a node whose kubelet starts nothing of it, as its claim is being deleted, or as the
operator's image cannot be pulled that `start` is run of."""

UNSTARTED: Final = frozenset({PENDING, BOUND, LACKS})

NO_HARM: Final = 0
LOG: Final = 1
DATABASE: Final = 2
DIFFERENT: Final = 3
UNREADABLE: Final = 4
"""What is wrong with data: the log is no log, etcd refuses it, it silently differs, the disk gives
errors for a while."""

RUNS: Final = 0
COMPLETE: Final = 1
FAILED: Final = 2
"""How far a recovery's Job is."""

STAYS: Final = 0
DELETING: Final = 1
LEAVING: Final = 2
"""A Job whose own deletion waits for its pod; one that is gone, and its pod has yet to stop."""

NODE: Final = 1
PHASE: Final = 2
"""How a claim's volume is lost: with its node, or by the volume's own end."""

NONE: Final = -1


class Record(NamedTuple):
    """A member record; `own` while its claim UID is that of the object that it is on."""

    member: int
    cluster: int
    own: bool
    epoch: int = FIRST_EPOCH


class Content(NamedTuple):
    """What is on a volume: a marker and, once etcd has run, a log with these IDs."""

    member: int
    cluster: int
    new: bool
    """The ticket said `new`; else `existing`."""
    initial: int
    """Ordinals in the ticket's initial cluster, as bits."""
    log: bool
    has: bool
    """Every write that was ever acknowledged."""
    harm: int = NO_HARM
    epoch: int = FIRST_EPOCH
    """In its marker."""
    aside: bool = False
    """A recovery's Job has set that marker aside, and written no other yet."""
    alone: bool = False
    """By its own log it is the only member; of no account once it has run in that epoch."""


class Claim(NamedTuple):
    record: Record | None = None
    deleting: bool = False
    lost: int = 0
    content: Content | None = None
    hidden: Content | None = None
    """The right volume, while a wrong and empty one is mounted in its place."""


class Pod(NamedTuple):
    """`record` and `content` with an emptyDir only."""

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
    """Its name is on the list: it has published it, or is of the first, who begin with one."""
    matched: bool
    """The leader has once seen it caught up; that stays so while it is silent, or wiped."""


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
    """Of the volumes that it runs on: raised the moment that a survivor runs as all there is."""


class Job(NamedTuple):
    """A recovery's, and its pod: whose volume it works on, and what it was ordered to make of it.

    `made`: of which spec. `minor` and `pullable`: of its etcd."""

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
    """Members that had their ticket, and whether the run that had it is still the ordinal's last:
    the truth, whatever the ledger says."""
    cut: bool = False
    """The operator reaches no pod."""
    slow: int = 0
    """Ordinals whose pods are not scheduled."""
    away: int = 0
    """Ordinals whose node does not answer."""
    ours: int = 0
    """Ordinals that are down because the operator deleted their pod."""
    pending: int = NONE
    """A step that an operator has decided on and not applied yet."""
    job: Job | None = None
    asleep: bool = False
    """The StatefulSet's controller has backed off, and does nothing until that is written to."""
    unpullable: bool = False
    """The operator that works has an image that no node can pull for a pod."""


def quorum(size: int) -> int:
    return size // 2 + 1


def content_of(state: State, ordinal: int) -> Content | None:
    """What is on the volume of an ordinal; a claim's or, with an emptyDir, its pod's."""
    claim = state.claims[ordinal]
    if claim is not None:
        return claim.content
    pod = state.pods[ordinal]
    return pod.content if pod is not None else None


def running(state: State, ordinal: int) -> int:
    """The listed member that its etcd runs as; 0 for none."""
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
    """Its etcd runs as a listed member."""
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
