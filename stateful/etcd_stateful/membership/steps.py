"""The steps a planner may choose. Each is at most one write; `reason` is what the user reads.

A write to an object that is there is made by `of`: to exactly the object that was seen, as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

from etcd_stateful import naming
from etcd_stateful.certificates import Need
from etcd_stateful.membership.accounts import Change
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.start.ticket import Ticket


@dataclass(frozen=True, slots=True)
class ApplyChild:
    """Server-side apply one object as the renderer says."""

    kind: str
    name: str
    manifest: dict[str, object]
    reason: str
    final: bool = False
    """It makes a StatefulSet, lowers its replicas (I5) or changes its version (I9), or lowers the
    disruption budget: pods come, go or may go."""


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Create the Secret: a fresh key and this bootstrap record. Never overwrites one."""

    name: str
    record: Bootstrap
    reason: str


@dataclass(frozen=True, slots=True)
class WriteBootstrap:
    """Replace the bootstrap record in the Secret of exactly this resourceVersion."""

    name: str
    resource_version: str
    record: Bootstrap
    reason: str
    final: bool = False
    """It moves the version, which cannot always be taken back, the epoch, which never can, or how
    members find each other; or it leaves tickets out of the ledger."""

    @classmethod
    def of(cls, seen: Observation, record: Bootstrap, reason: str, *, final: bool = False) -> Self:
        version = seen.secret.resource_version if seen.secret else ""
        return cls(naming.start_secret(seen.cluster.name), version, record, reason, final)


@dataclass(frozen=True, slots=True)
class IssueCertificate:
    """Make a key and a certificate, and write both into their Secret: into that of exactly this
    resourceVersion, or into a new one where it is empty."""

    need: Need
    resource_version: str
    reason: str
    mounted: frozenset[str] = frozenset()
    """What pods are started to trust: those files stay in the Secret."""

    generation: int = 1
    """Of an authority."""

    authority: str = ""
    """Digest of the authority that is to sign it: no other that has come into its Secret since."""


Turn = Literal["begin", "take over", "end"]


@dataclass(frozen=True, slots=True)
class RotateAuthority:
    """One turn of a rotation, written into the authority's Secret of exactly this resourceVersion:
    a successor beside it, that in its place, or the one of before out."""

    need: Need
    resource_version: str
    turn: Turn
    generation: int
    """Of the successor."""

    reason: str


@dataclass(frozen=True, slots=True)
class TakeCertificate:
    """Write what an issuer has made into the Secret that members or clients use: into that of
    exactly this resourceVersion, or into a new one where it is empty."""

    need: Need
    resource_version: str
    leaf: str
    """Digest of the certificate: the one that was issued, or the one that is there already."""

    trusts: tuple[str, ...]
    """Digests of the authorities beside it."""

    known_in: tuple[Need, ...]
    """The Secrets that have them."""

    reason: str
    mounted: frozenset[str] = frozenset()
    """As of `IssueCertificate`."""

    final: bool = False
    """An authority is trusted no longer."""


@dataclass(frozen=True, slots=True)
class RecordMember:
    """Write the member record on the claim (or pod) of exactly this UID and resourceVersion."""

    kind: str
    name: str
    uid: str
    resource_version: str
    record: MemberRecord
    reason: str

    @classmethod
    def of(cls, holder: Claim | Pod, record: MemberRecord, reason: str) -> Self:
        kind = "Pod" if isinstance(holder, Pod) else "PersistentVolumeClaim"
        return cls(kind, holder.name, holder.uid, holder.resource_version, record, reason)


@dataclass(frozen=True, slots=True)
class PushTicket:
    """Hand `start` in this pod its ticket, if a fresh read says that it is still this pod."""

    pod: str
    pod_uid: str
    address: str
    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class _Deletion:
    """Of the object of exactly this UID and resourceVersion."""

    name: str
    uid: str
    resource_version: str
    reason: str

    @classmethod
    def of(cls, seen: Claim | Pod | Job, reason: str) -> Self:
        return cls(seen.name, seen.uid, seen.resource_version, reason)


@dataclass(frozen=True, slots=True)
class DeleteClaim(_Deletion):
    """Delete the claim."""


@dataclass(frozen=True, slots=True)
class DeleteJob(_Deletion):
    """Delete the Job, with its pods."""


@dataclass(frozen=True, slots=True)
class DeletePod(_Deletion):
    """Delete the pod; its StatefulSet makes it again.

    `force`: without waiting for its node to confirm. Only for one that is no member any more.
    """

    force: bool = False

    @classmethod
    def by_force(cls, pod: Pod, reason: str) -> Self:
        return cls(pod.name, pod.uid, pod.resource_version, reason, force=True)


@dataclass(frozen=True, slots=True)
class ExpandClaim:
    """Let the claim of exactly this UID and resourceVersion ask for so much storage."""

    name: str
    uid: str
    resource_version: str
    storage: str
    """A quantity such as `8Gi`."""

    reason: str
    less: bool = False
    """What its volume never came to have is taken back."""

    @classmethod
    def of(cls, claim: Claim, storage: str, reason: str, *, less: bool = False) -> Self:
        return cls(claim.name, claim.uid, claim.resource_version, storage, reason, less)


@dataclass(frozen=True, slots=True)
class TouchStatefulSet:
    """Write the time on the StatefulSet of exactly this UID, for its controller to look again."""

    name: str
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of a recovery or a restore. Never alters one that is there."""

    name: str
    manifest: dict[str, object]
    reason: str


@dataclass(frozen=True, slots=True)
class Voter:
    """Whom a change of the membership is asked of: that member, and nobody else at its address."""

    address: str
    member_id: int
    cluster_id: int
    host: str = ""
    """The name that its certificate has; empty where it is asked in plaintext."""


@dataclass(frozen=True, slots=True)
class Leader(Voter):
    """The leader, by its address and IDs, with the voters that serve beside it."""

    others: tuple[Voter, ...] = field(default=(), compare=False)
    """Who serves beside it, to be asked where it only believes itself to be cut off."""


@dataclass(frozen=True, slots=True)
class MemberAddLearner:
    """Add a member without a vote."""

    leader: Leader
    peer_url: str
    reason: str
    besides: tuple[str, ...] = ()
    """Other URLs that it goes by, while TLS between members is turned on or off."""


@dataclass(frozen=True, slots=True)
class MemberUpdate:
    """Gives a voter these peer URLs in the place of those it has."""

    leader: Leader
    member_id: int
    peer_urls: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class MemberPromote:
    """Make the learner a voter."""

    leader: Leader
    member_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class MemberRemove:
    """Take a member off the list; nothing brings that ID back."""

    leader: Leader
    member_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Makes the voter `member_id` the leader."""

    leader: Leader
    member_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class DisarmAlarm:
    """Takes back a member's alarm, once there is no reason for it any more."""

    leader: Leader
    alarm: Alarm
    reason: str


@dataclass(frozen=True, slots=True)
class Defragment:
    """Lets a member write its database anew, without what is free. Until then it answers nobody."""

    member: Voter
    name: str
    in_use: int
    """Bytes that it is to write."""

    reason: str


@dataclass(frozen=True, slots=True)
class EnableDowngrade:
    """Tells etcd that its members will go down to this minor, `3.5`."""

    leader: Leader
    minor: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelDowngrade:
    """Take back what etcd's downgrade API was told."""

    leader: Leader
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeAuth:
    """One call of etcd's auth API. Passwords are not in it: only the shell has them."""

    leader: Leader
    change: Change
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to write now. `reason` says what for.

    `soon`: it may end without any event of Kubernetes, so it is looked at again within a second.
    """

    reason: str
    soon: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing more until a human acts. `reason` is one word, `message` says what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The cluster is as declared."""


EtcdChange = (
    MemberAddLearner
    | MemberUpdate
    | MemberPromote
    | MemberRemove
    | MoveLeader
    | DisarmAlarm
    | Defragment
    | EnableDowngrade
    | CancelDowngrade
)
Write = (
    ApplyChild
    | CreateSecret
    | WriteBootstrap
    | IssueCertificate
    | RotateAuthority
    | TakeCertificate
    | RecordMember
    | PushTicket
    | DeleteClaim
    | ExpandClaim
    | DeletePod
    | TouchStatefulSet
    | CreateJob
    | DeleteJob
    | EtcdChange
    | ChangeAuth
)
Step = Write | Wait | Hold | Settled
