"""What is observed of one EtcdBackup: its run, its Jobs, and the cluster that it backs up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import JobReport, Progress


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an EtcdBackup: of a generation, or with an interval of a due time."""

    id: str
    due: float
    """Seconds since 1970."""

    @property
    def of_a_generation(self) -> bool:
        """Whether it is of a backup without an interval, for which `plan.single_run` names it."""
        return self.id.startswith("g")


@dataclass(frozen=True, slots=True)
class Target:
    """The EtcdCluster that `clusterRef` or `etcdEndpoints` name."""

    endpoints: tuple[str, ...]
    cluster_id: int
    client_secret: str = ""
    """The Secret with a client certificate; empty if clients use plaintext."""
    formed: bool = True
    """Whether a quorum of it has ever answered."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run's Job and the report of its newest pod."""

    name: str
    uid: str
    resource_version: str
    created: float
    state: Literal["running", "complete", "failed"]
    said: JobReport = field(default_factory=JobReport)
    why: str = ""
    """Why it failed, according to Kubernetes."""
    trouble: str = ""
    """Why its pod does not run or, if the Job is being deleted, why its pod is not gone."""
    progress: Progress | None = None
    other_owner: str = ""
    """The owner of the Job, if that is not this EtcdBackup."""
    deleting: bool = False
    order: Order | None = None
    """What its pod has to do; None if that cannot be read."""
    unpullable: bool = False
    """It runs, but its pod cannot pull the operator image, and the operator now runs another."""

    @property
    def store(self) -> Store | None:
        """The store in its order."""
        return self.order.store if self.order else None


@dataclass(frozen=True, slots=True)
class ObservedBackup:
    """What is observed of one EtcdBackup."""

    backup: EtcdBackup
    stored: Mapping[str, Any]
    """The status as it is."""
    run: Run | None
    """The run that is due or comes next; None if there is none."""
    now: float
    job: Job | None = None
    trial: Job | None = None
    """The Job of the trial restore of this run."""
    before: Job | None = None
    """The Job of an earlier run that the status still names or, if it names none, that still has a
    pod."""
    target: Target | None = None
    """None also if `clusterRef` names a cluster that does not exist."""
    claim: bool = True
    """Whether the PersistentVolumeClaim of the store exists."""
    spare: tuple[str, ...] = ()
    """Keys where it stores that must neither be overwritten nor deleted: its last one, and those
    that restores read."""
    members: bool = False
    """Whether that claim has the data of a member of an EtcdCluster."""
    told: float = 0.0
    """Seconds since `Complete` has said what it says in `stored`."""
