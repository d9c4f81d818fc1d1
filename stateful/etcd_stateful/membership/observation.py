"""Everything the planner may know, as one frozen value.

What could not be read is absent, never guessed: `etcd is None` means nobody who may answer did,
not that there are no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from etcd_stateful import versions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.stores import Store
from etcd_stateful.api.tls import AS_MADE, Levels, Trust
from etcd_stateful.backup.named import Awaited
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.manifests.put_off import PutOff
from etcd_stateful.membership.accounts import AuthView
from etcd_stateful.records import Bootstrap, MemberRecord
from etcd_stateful.ticket import Finding

Live = Mapping[str, Any]
"""An object as the API server stores it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The Secret with the tickets' key; without the key, which only the shell holds."""

    resource_version: str
    bootstrap: Bootstrap | None
    damage: str = ""
    """Why it cannot be used, in words; empty for a sound one."""
    newer: bool = False
    """It is damaged for this operator alone: a newer one wrote it."""


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """What `start` in a pod answered, authenticated, for a pod that is still in `start`."""

    challenge: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that carries the name of one of the cluster's ordinals."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    cluster_uid: str
    """UID of the EtcdCluster it was made for or recorded by; empty where nothing says so."""
    record: MemberRecord | None
    damage: str = ""
    """Why its record cannot be read, in words."""
    deleting: bool = False
    phase: str = "Bound"
    labelled: bool = True
    requested: str = ""
    capacity: str = ""
    raised: str = ""
    """Sizes such as `8Gi`: asked for, of its volume, and that the operator had it ask for last."""
    fixed: str = ""
    """Why it cannot ask for another, in the API server's words. Looked for only where it should."""

    @property
    def own_record(self) -> MemberRecord | None:
        """Its record, where it was written for this very claim: not restored, cloned or damaged."""
        own = self.record and not self.damage and self.record.claim_uid == self.uid
        return self.record if own else None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that the cluster's StatefulSet made."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    address: str
    deleting: bool
    ready: bool
    in_start: bool
    """The init container `start` runs right now: the volume waits for a ticket."""
    etcd_started: bool
    trouble: str = ""
    """What it waits for or fails at, in words; empty while all is as expected."""
    answer: StartAnswer | None = None
    record: MemberRecord | None = None
    """With an emptyDir the pod's own annotations play the claim's part."""
    revision: str = ""  # of the StatefulSet's template that it was made from
    age: float = 0.0
    """Seconds since the API server made it, at the time of this observation."""
    spec_hash: str = ""
    """`EtcdCluster.template_hash` of the spec that its template was rendered from."""
    image: str = ""  # of its etcd container
    image_missing: bool = False
    start_missing: bool = False
    """They cannot be had, from anywhere: that image; the operator's, which `start` is run of."""
    crashing: bool = False
    """Its etcd container keeps failing, and does not run now."""
    tried_again: bool = False
    """etcd kept failing in it, and runs once more: it may come up this time, or fail as before.
    `trouble` and `damage` still say what they said, for people; nothing is decided by them."""
    damage: str = ""
    """etcd's own last words when it refuses to start on damaged data, again and again."""
    node_gone: bool = False
    """No node there is may use the claim's volume: the node that it lies on was removed."""
    ran_as: int = 0
    """The member whose data `start` let run in this pod, by its own word; 0 where it said none."""
    has_data: bool = False
    """By the word of its `start` there was data on the volume before etcd ran in this pod."""
    overdue: bool = False
    """It was deleted, and nobody confirms that it has stopped."""
    trust: Trust = AS_MADE
    """The authorities that its etcd was started to trust, by what the pod mounts."""
    labelled: str = ""  # the member's ID on its label
    epoch: int | None = None  # that its `start` looks for; None where it does not say
    levels: Levels | None = None
    """How it was started to talk to members and clients; None where it is as the record says."""
    quota: int = 0  # in bytes, that its etcd was started with; 0 where it does not say

    @property
    def is_stuck(self) -> bool:
        """Whether it is in trouble now, and not only until a moment ago."""
        return bool(self.trouble) and not self.tried_again

    @property
    def made_for(self) -> versions.Version | None:
        """The version that it was made to run, whatever admission made of its image."""
        return versions.made_for(self.spec_hash, self.image)


@dataclass(frozen=True, slots=True)
class Member:
    """One line of the member list."""

    member_id: int
    name: str
    peer_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What one member says of itself."""

    member_id: int
    cluster_id: int
    version: str
    leader_id: int
    term: int
    applied_index: int
    learner: bool
    db_size: int
    errors: tuple[str, ...] = ()
    db_size_in_use: int = 0
    """Bytes of `db_size` that hold something: the file keeps the rest. 0 where it does not say."""
    storage_version: str = ""
    """Minor of the format of its data, `3.6`; from etcd 3.6 on."""
    revision: int = 0
    """Of its data, as far as it has applied it; 0 where it does not say."""
    downgrade_target: str = ""
    """Minor that etcd's downgrade API has been told to go down to; empty while it is off."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that is raised; etcd may blame the wrong member for CORRUPT."""

    kind: Literal["NOSPACE", "CORRUPT"]
    member_id: int


@dataclass(frozen=True, slots=True)
class EtcdView:
    """The linearizable member list, with the cluster ID that its reply carried."""

    cluster_id: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object that has a name we need and another owner."""

    kind: str
    name: str
    owner: str
    """Who owns it, in words."""
    passing: bool = False
    """It is being deleted, or its owner was a cluster of this name that is gone."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Job of a recovery or a restore; else asked for only if there is a pod of one."""

    name: str
    uid: str
    resource_version: str
    survivor: str
    epoch: int
    spec_hash: str
    """As of the pods: another one means that the spec was edited since."""
    state: Literal["running", "complete", "failed"]
    deleting: bool = False
    stranger: str = ""
    """Who owns it, in words, where it is not this cluster's."""
    trouble: str = ""
    """What its pod waits for or failed at, in words."""
    unpullable: bool = False
    """The operator's image that it was made with cannot be had, and the operator has another."""
    claim_uid: str = ""
    """Of the claim that a restore's Job was made to fill."""
    etcd_started: bool = False
    """In one of its pods, or nobody can tell any more that it has not."""


Stage = Literal["", "overlap", "swapped"]
"""`overlap`: there is a successor, which signs nothing yet. `swapped`: it has taken over, and what
the one before has signed is still good."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate in a Secret, without its key."""

    resource_version: str
    problem: str = ""
    """Which key of the Secret is wrong, and how; empty for one that is as needed."""
    begins: float = 0.0
    ends: float = 0.0
    """Seconds since 1970. With whoever has signed it, if that ends earlier."""
    until: str = ""
    """`ends`, for people: RFC 3339."""
    turns: float = inf
    """When time alone changes `problem`: one of its files begins or ceases to be good."""
    authority: str = ""
    """Digest of the certificate of whoever signed it."""
    subject: str = ""
    """Its common name, which etcd takes for the name of a user once authentication is on."""
    trusts: tuple[str, ...] = ()
    """Digests of the authorities beside it. Of an authority: of those that should be beside each
    certificate that it has signed."""
    pinned: str = ""
    """The trust that its Secret has a file of its own for, if that is in force."""
    leaf: str = ""
    """Digest of the certificate itself."""
    written: float = 0.0
    """When the operator wrote it into its Secret, where another issued it; 0 where none says so."""
    stage: Stage = ""
    """Of an authority: how far its rotation is."""
    generation: int = 1
    """Of an authority: its number, from 1 on."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What was asked of cert-manager, and what has come of it."""

    certificate: Live | None = None
    found: Certificate | None = None
    """In the Secret that cert-manager writes."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Those that the cluster's links need and that are there."""

    now: float
    """The time they were looked at; seconds since 1970."""

    secrets: Mapping[str, Mapping[str, Certificate]] = field(default_factory=dict)
    """By the Secret's name and by what it is for: a user may serve both links from one Secret."""

    taken: tuple[Foreign, ...] = ()
    """Another owner's Secrets under names that are needed for the TLS that the spec asks for."""

    issued: Mapping[str, Issued] = field(default_factory=dict)
    """By the name that the Certificate and its Secret have."""

    why_not_asked: str = ""
    """Why Certificates of cert-manager cannot be asked for, where any are needed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One cluster at one moment."""

    cluster: EtcdCluster
    secret: Secret | None
    stateful_set: Live | None
    headless_service: Live | None
    client_service: Live | None
    disruption_budget: Live | None = None
    network_policy: Live | None = None
    claims: tuple[Claim, ...] = ()
    pods: tuple[Pod, ...] = ()
    etcd: EtcdView | None = None
    statuses: Mapping[int, MemberStatus] = field(default_factory=dict)
    """By ordinal; only members that answered."""
    strangers: Mapping[int, int] = field(default_factory=dict)
    """By ordinal, the ID of another etcd cluster, where that answered in the member's place."""
    alarms: tuple[Alarm, ...] = ()
    """Asked for only when a member's status speaks of one."""
    hashes: Mapping[int, int] = field(default_factory=dict)
    """By ordinal: HashKV up to a revision that they share. Asked for only under a CORRUPT alarm."""
    foreign: tuple[Foreign, ...] = ()
    predecessors: tuple[str, ...] = ()
    """Pods under names of ours whose StatefulSet is gone and which have yet to stop."""
    job: Job | None = None
    occupants: tuple[str, ...] = ()
    """Pods that are none of `pods` and may use the cluster's volumes: its Job's, strangers under
    names of ours. Asked for only while a recovery or a restore is under way."""
    snapshots: tuple[str, ...] = ()
    """Pods of backups of the cluster: each may be reading a snapshot from one of the members."""
    defragmented: Mapping[str, int] = field(default_factory=dict)
    """Members asked to do so a moment ago, whatever came of it: how many bytes were in use then."""
    backup: Store | Awaited | None = None
    """Where the EtcdBackup has stored that the cluster is to be born from. None where that was not
    looked up, as nothing depends on it."""
    restore: EtcdRestore | None = None
    """The EtcdRestore of the cluster's name that asks to replace one, unless it is over."""
    certificates: Certificates | None = None
    """None where they were not looked at: nothing is done for a paused cluster."""
    denied: str = ""
    """What etcd said to the operator where it did not let it look; empty where it did."""
    auth: AuthView | None = None
    """etcd's users and roles. None where nobody asked for any, or no quorum answered."""
    passwords: Mapping[str, str] = field(default_factory=dict)
    """By user, what is wrong with the password in its Secret; empty for a usable one."""
    made: float = 0.0
    """When the resource was created, seconds since 1970; 0 where that is not known."""
    stalled: bool = False
    """Pods are missing for longer than their controller takes to make them."""
    put_off: Mapping[tuple[str, str], PutOff] = field(default_factory=dict)
    """By kind and name: writes of children that have just been in vain."""
    true_for: Mapping[str, float] = field(default_factory=dict)
    """By condition that the resource's status calls true, since how many seconds."""
    operator_image: str = ""
    operator: OperatorPods | None = None
    """None where it runs outside the cluster, or makes no network policies."""
    last_cluster_id: int | None = None
    """What the custom resource's status says of the cluster ID; a hint others may have wiped."""
    last_version: versions.Version | None = None
    """The oldest that members ran, by the resource's status, which others may have wiped."""

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The bootstrap record; None where no Secret is there that one can be read from."""
        return self.secret.bootstrap if self.secret else None

    def pod(self, ordinal: int) -> Pod | None:
        return next((pod for pod in self.pods if pod.ordinal == ordinal), None)

    def claim(self, ordinal: int) -> Claim | None:
        return next((claim for claim in self.claims if claim.ordinal == ordinal), None)

    @property
    def outdated(self) -> tuple[str, ...]:
        """Pods made from a template that has been edited since; nothing restarts them yet."""
        status = (self.stateful_set or {}).get("status") or {}
        if not self.is_settled_revision:
            return ()
        newest = status.get("updateRevision") or ""
        return tuple(pod.name for pod in self.pods if newest and pod.revision not in ("", newest))

    @property
    def is_settled_revision(self) -> bool:
        """Whether the StatefulSet's controller has looked at its last edit."""
        live = self.stateful_set or {}
        seen = (live.get("status") or {}).get("observedGeneration")
        return bool(seen == (live.get("metadata") or {}).get("generation"))

    @property
    def replicas(self) -> int:
        """What the StatefulSet asks for now."""
        spec = (self.stateful_set or {}).get("spec") or {}
        return int(spec.get("replicas") or 0)


def is_latched(seen: Observation) -> bool:
    """Whether it is on record that the cluster has formed."""
    return seen.bootstrap is not None and seen.bootstrap.latched


def recorded(seen: Observation) -> Bootstrap:
    """The bootstrap record; `bootstrap.secret` has made sure that there is one."""
    if seen.bootstrap is None:
        raise LookupError("the bootstrap record is asked for before the Secret is there")
    return seen.bootstrap
