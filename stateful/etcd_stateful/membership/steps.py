"""The steps that the planner may choose. Each is at most one write; `reason` is what the user
reads.

A write to an existing object is created with `of`. It carries the UID and resourceVersion that were
seen, so that it fails if the object has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

from etcd_stateful import naming
from etcd_stateful.certificates import CertificateSpec
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.upkeep.accounts import Change
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.start.ticket import Ticket


@dataclass(frozen=True, slots=True)
class ApplyChild:
    """Apply one object server-side, as rendered."""

    kind: str
    name: str
    manifest: Manifest
    reason: str
    final: bool = False
    """It creates a StatefulSet, lowers its replicas (I5), changes its version (I9), or lowers the
    disruption budget: pods start, stop or may be evicted because of it."""


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Create the Secret with a new key and this bootstrap record. Never overwrites a Secret."""

    name: str
    record: Bootstrap
    reason: str


@dataclass(frozen=True, slots=True)
class WriteBootstrap:
    """Replace the bootstrap record in the Secret, if it still has this resourceVersion."""

    name: str
    resource_version: str
    record: Bootstrap
    reason: str
    final: bool = False
    """It changes the version, which cannot always be undone, the epoch, which never can, or how
    members reach each other; or it drops tickets from the ledger."""

    @classmethod
    def of(cls, seen: Observation, record: Bootstrap, reason: str, *, final: bool = False) -> Self:
        version = seen.secret.resource_version if seen.secret else ""
        return cls(naming.start_secret(seen.cluster.name), version, record, reason, final)


@dataclass(frozen=True, slots=True)
class IssueCertificate:
    """Create a key and a certificate, and write both into their Secret. It must still have this
    resourceVersion; if that is empty, it must not exist."""

    need: CertificateSpec
    resource_version: str
    reason: str
    mounted: frozenset[str] = frozenset()
    """The trust bundles that pods were started with: their files stay in the Secret."""

    generation: int = 1
    """The generation, if it is an authority's certificate."""

    authority: str = ""
    """Digest of the authority that signs it. If its Secret holds another by then, the step
    fails."""


RotationStep = Literal["begin", "take over", "end"]


@dataclass(frozen=True, slots=True)
class RotateAuthority:
    """One step of a rotation, written into the authority's Secret if it still has this
    resourceVersion: add a successor, let it replace the authority, or remove the old authority."""

    need: CertificateSpec
    resource_version: str
    kind: RotationStep
    generation: int
    """The successor's generation."""

    reason: str


@dataclass(frozen=True, slots=True)
class TakeCertificate:
    """Copy an issuer's certificate into the Secret that members or clients use. It must still have
    this resourceVersion; if that is empty, it must not exist."""

    need: CertificateSpec
    resource_version: str
    leaf: str
    """Digest of the certificate: a newly issued one, or the one that is already in use."""

    trusts: tuple[str, ...]
    """Digests of the authorities that go beside it."""

    known_in: tuple[CertificateSpec, ...]
    """The Secrets that the authorities are taken from."""

    reason: str
    mounted: frozenset[str] = frozenset()
    """As for `IssueCertificate`."""

    final: bool = False
    """It removes an authority that was trusted until now."""


@dataclass(frozen=True, slots=True)
class RecordMember:
    """Write the member record on the claim, or with an emptyDir on the pod."""

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
    """Hand `start` in this pod its ticket, if a fresh read shows that it is still this pod."""

    pod: str
    pod_uid: str
    address: str
    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class _Deletion:
    """Delete the object, if it still has this UID and resourceVersion."""

    name: str
    uid: str
    resource_version: str
    reason: str

    @classmethod
    def of(cls, seen: Claim | Job, reason: str) -> Self:
        return cls(seen.name, seen.uid, seen.resource_version, reason)


@dataclass(frozen=True, slots=True)
class DeleteClaim(_Deletion):
    """Delete the claim."""


@dataclass(frozen=True, slots=True)
class DeleteJob(_Deletion):
    """Delete the Job, with its pods."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod if it still has this UID and resourceVersion; its StatefulSet recreates it."""

    name: str
    uid: str
    resource_version: str
    reason: str
    force: bool = False
    """Without waiting for the node to confirm. Only for a pod whose etcd is no longer a member."""

    @classmethod
    def of(cls, seen: Observation, pod: Pod, reason: str, *, force: bool = False) -> Self | None:
        """None if the API server has just refused it, or force is of no use: finalizers keep it."""
        if seen.is_kept(pod) or (force and pod.kept_by):
            return None
        return cls(pod.name, pod.uid, pod.resource_version, reason, force)


@dataclass(frozen=True, slots=True)
class ExpandClaim:
    """Change the storage that the claim requests."""

    name: str
    uid: str
    resource_version: str
    storage: str
    """A quantity such as `8Gi`."""

    reason: str
    less: bool = False
    """It lowers a request that the volume never reached."""

    @classmethod
    def of(cls, claim: Claim, storage: str, reason: str, *, less: bool = False) -> Self:
        return cls(claim.name, claim.uid, claim.resource_version, storage, reason, less)


@dataclass(frozen=True, slots=True)
class TouchStatefulSet:
    """Write the time on the StatefulSet with this UID, so that its controller reconciles it."""

    name: str
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of a recovery or a restore. Never changes an existing Job."""

    name: str
    manifest: Manifest
    reason: str


@dataclass(frozen=True, slots=True)
class Voter:
    """The member that is asked. The IDs are checked: another etcd may have its address by now."""

    address: str
    member_id: int
    cluster_id: int
    host: str = ""
    """The host name in its certificate; empty for a plaintext connection."""


@dataclass(frozen=True, slots=True)
class Leader(Voter):
    """The leader, and the other serving voters."""

    others: tuple[Voter, ...] = field(default=(), compare=False)
    """Asked next, if the leader refuses because it wrongly believes peers to be inactive."""


@dataclass(frozen=True, slots=True)
class MemberAddLearner:
    """Add a member as a learner."""

    leader: Leader
    peer_url: str
    reason: str
    other_peer_urls: tuple[str, ...] = ()
    """Further peer URLs, while TLS between members is being turned on or off."""


@dataclass(frozen=True, slots=True)
class MemberUpdate:
    """Replace a voter's peer URLs."""

    leader: Leader
    member_id: int
    peer_urls: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class _OfMember:
    """Ask the leader for a change of this member."""

    leader: Leader
    member_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class MemberPromote(_OfMember):
    """Promote the learner to a voter."""


@dataclass(frozen=True, slots=True)
class MemberRemove(_OfMember):
    """Remove a member. Its ID can never be added again."""


@dataclass(frozen=True, slots=True)
class MoveLeader(_OfMember):
    """Make the voter `member_id` the leader."""


@dataclass(frozen=True, slots=True)
class DisarmAlarm:
    """Disarm a member's alarm."""

    leader: Leader
    alarm: Alarm
    reason: str


@dataclass(frozen=True, slots=True)
class Defragment:
    """Defragment a member: it rewrites its database without free pages, and blocks until then."""

    member: Voter
    name: str
    in_use: int = field(compare=False)
    """The bytes in use, which it has to write. They change with each client's write."""

    reason: str


@dataclass(frozen=True, slots=True)
class EnableDowngrade:
    """Enable a downgrade to this minor, such as `3.5`, in etcd's downgrade API."""

    leader: Leader
    minor: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelDowngrade:
    """Cancel the downgrade in etcd's downgrade API."""

    leader: Leader
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeAuth:
    """One call of etcd's auth API. It has no password: only the shell reads those."""

    leader: Leader
    change: Change
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to write now. `reason` completes the sentence "waiting for ...".

    `soon`: it may end without a Kubernetes event, so another look follows within a second.
    """

    reason: str
    soon: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing more until the user acts. `reason` is one word, `message` says what to do."""

    reason: str
    message: str
    soon: bool = False
    """As in `Wait`: what may end soon is awaited as well."""


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
