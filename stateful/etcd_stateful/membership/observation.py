"""Everything that the planner may know, as one frozen value.

What could not be read is absent, never guessed: `etcd is None` means that no quorum answered, not
that there are no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from etcd_stateful import naming, versions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import NotRestorable
from etcd_stateful.certificates import CertificateSpec, Role
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.membership.upkeep.accounts import AuthView
from etcd_stateful.observed.certificates import Certificate, Certificates
from etcd_stateful.observed.members import (
    Alarm,
    EtcdView,
    Member,
    MemberStatus,
    is_corrupt,
    is_full,
)
from etcd_stateful.observed.objects import Claim, Foreign, Job, Live, Secret
from etcd_stateful.observed.pods import Pod
from etcd_stateful.observed.put_off import DELETION, POD_DELETION, PutOff, of_uid
from etcd_stateful.records.bootstrap import Bootstrap


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
    """By ordinal, the cluster ID of an etcd that answered but belongs to another cluster."""
    alarms: tuple[Alarm, ...] = ()
    """Queried only when a member's status mentions an alarm."""
    hashes: Mapping[int, int] = field(default_factory=dict)
    """By ordinal, HashKV at a revision that all have. Queried only while CORRUPT is raised."""
    foreign: tuple[Foreign, ...] = ()
    predecessors: tuple[str, ...] = ()
    """Pods with our pod names that a deleted StatefulSet left behind, and that have yet to stop."""
    job: Job | None = None
    occupants: tuple[str, ...] = ()
    """Other pods that may use the cluster's volumes: those of its Job, and pods of other owners
    with our pod names. Listed only while a recovery or a restore is under way."""
    snapshots: tuple[str, ...] = ()
    """Pods of backups of the cluster: each may be reading a snapshot from one of the members."""
    defragmented: Mapping[str, int] = field(default_factory=dict)
    """By member that was defragmented a moment ago, successfully or not: the bytes in use then."""
    backup: Store | NotRestorable | None = None
    """Where the EtcdBackup that the cluster starts from is stored. None if it was not looked up,
    because nothing depends on it."""
    restore: EtcdRestore | None = None
    """The EtcdRestore with the cluster's name that asks for a restore in place, unless it is
    over."""
    certificates: Certificates | None = None
    """None if they were not read: nothing is done for a paused cluster."""
    denied: str = ""
    """etcd's error if it did not authenticate the operator; empty otherwise."""
    auth: AuthView | None = None
    """etcd's users and roles. None if they were not queried, or no quorum answered."""
    passwords: Mapping[str, str] = field(default_factory=dict)
    """By user, what is wrong with the password in its Secret; empty for a usable one."""
    created: float = 0.0
    """When the resource was created, in seconds since 1970; 0 if unknown."""
    stalled: bool = False
    """Pods have been missing for longer than the StatefulSet controller takes to create them."""
    missing: Mapping[str, float] = field(default_factory=dict)
    """By pod that is missing: for how many seconds it has been, as far as is remembered."""
    namesakes: tuple[Foreign, ...] = ()
    """Pods that are not the StatefulSet's, and have the names of missing ones. Its controller
    cannot create those, and posts no Event about it."""
    put_off: Mapping[tuple[str, str], PutOff] = field(default_factory=dict)
    """By kind and name: writes of owned objects that have just failed, and are retried later."""
    true_for: Mapping[str, float] = field(default_factory=dict)
    """By condition that is True in the status: for how many seconds it has been."""
    operator_image: str = ""
    operator: OperatorPods | None = None
    """None if the operator runs outside the cluster, or creates no network policies."""
    last_cluster_id: int | None = None
    """`status.clusterID`: only a hint, as others may have wiped it."""
    last_version: versions.Version | None = None
    """The oldest version that members ran, from the status, which others may have wiped."""

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The bootstrap record; None if there is no Secret, or its record is unreadable."""
        return self.secret.bootstrap if self.secret else None

    @property
    def members(self) -> tuple[Member, ...]:
        """The member list; empty also while `etcd` is None."""
        return self.etcd.members if self.etcd else ()

    @property
    def is_corrupt(self) -> bool:
        return is_corrupt(self.alarms)

    @property
    def is_full(self) -> bool:
        return is_full(self.alarms)

    def pod(self, ordinal: int) -> Pod | None:
        return next((pod for pod in self.pods if pod.ordinal == ordinal), None)

    def claim(self, ordinal: int) -> Claim | None:
        return next((claim for claim in self.claims if claim.ordinal == ordinal), None)

    def is_taken(self, kind: str, name: str) -> bool:
        """Whether an object of another owner has this name."""
        return any((one.kind, one.name) == (kind, name) for one in self.foreign)

    def is_kept(self, one: Claim | Pod) -> bool:
        """Whether the API server has just refused to delete the claim or pod."""
        kind = POD_DELETION if isinstance(one, Pod) else DELETION
        off = self.put_off.get((kind, one.name))
        return off is not None and off.is_of(of_uid(one.uid))

    def certificate(self, secret: str, role: Role) -> Certificate | None:
        """The certificate for this role in one of the cluster's Secrets; None if it is not there,
        or the Secrets were not read."""
        known = self.certificates.secrets if self.certificates else {}
        return known.get(secret, {}).get(role)

    def certificate_for(self, need: CertificateSpec) -> Certificate | None:
        return self.certificate(need.secret, need.role)

    @property
    def read_at(self) -> float:
        """When the certificates were read, in seconds since 1970; 0 if they were not."""
        return self.certificates.now if self.certificates else 0.0

    @property
    def outdated(self) -> tuple[str, ...]:
        """Names of pods whose template is not the StatefulSet's newest revision."""
        status = (self.stateful_set or {}).get("status") or {}
        if not self.is_settled_revision:
            return ()
        newest = status.get("updateRevision") or ""
        return tuple(pod.name for pod in self.pods if newest and pod.revision != newest)

    @property
    def is_settled_revision(self) -> bool:
        """Whether the StatefulSet controller has observed the last edit (`observedGeneration`)."""
        live = self.stateful_set or {}
        seen = (live.get("status") or {}).get("observedGeneration")
        return bool(seen == (live.get("metadata") or {}).get("generation"))

    @property
    def replicas(self) -> int:
        """`spec.replicas` of the live StatefulSet, which somebody may have scaled to any number. No
        member can be at the ordinals beyond the largest cluster, so those do not count."""
        spec = (self.stateful_set or {}).get("spec") or {}
        return min(int(spec.get("replicas") or 0), naming.MAX_SIZE)


def is_latched(seen: Observation) -> bool:
    """Whether the bootstrap record says that the cluster has formed."""
    return seen.bootstrap is not None and seen.bootstrap.latched


def recorded(seen: Observation) -> Bootstrap:
    """The bootstrap record. The planner calls `bootstrap.secret` first, so there is one."""
    if seen.bootstrap is None:
        raise LookupError("the bootstrap record is asked for before the Secret is there")
    return seen.bootstrap
