"""Everything the planner may know, as one frozen value.

What could not be read is absent, never guessed: `etcd is None` means nobody who may answer did,
not that there are no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from etcd_stateful import versions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import Awaited
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.manifests.put_off import PutOff
from etcd_stateful.membership.accounts import AuthView
from etcd_stateful.observed.certificates import Certificates
from etcd_stateful.observed.members import Alarm, EtcdView, MemberStatus
from etcd_stateful.observed.objects import Claim, Foreign, Job, Live, Secret
from etcd_stateful.observed.pods import Pod
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
