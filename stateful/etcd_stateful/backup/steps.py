"""The steps that `plan` may choose for an EtcdBackup. Each is at most one write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from etcd_stateful.api.stores import Store
from etcd_stateful.backup.observed import Job, Run
from etcd_stateful.backup.outcome import Progress, Stored, Verified

IMAGE_UNPULLABLE: Final = "its operator image cannot be pulled, and the operator now runs another"
"""Why a Job is recreated whose pod waits for an operator image that no registry has any more."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of a run."""

    run: Run


@dataclass(frozen=True, slots=True)
class CreateTrialJob:
    """Create the Job that restores what was stored, and compares it."""

    run: Run
    stored: Stored
    store: Store
    """Where the run's Job has stored it; the spec may name another by now."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job, if it is still the one that was observed."""

    name: str
    uid: str
    resource_version: str
    why: str

    @classmethod
    def of(cls, job: Job, why: str) -> DeleteJob:
        return cls(job.name, job.uid, job.resource_version, why)


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Nothing to do but to write the status. Look again `after` seconds later."""

    reason: str
    message: str
    status: Literal["True", "False", "Unknown"] = "False"
    after: float | None = None
    stored: Stored | None = None
    proven: Verified | None = None
    unproven: str = ""
    """Location of a backup that a run has left in the store which failed, or which an edit has
    ended."""
    emptied: Store | None = None
    """A store in which nothing of it is left, because that was deleted."""
    progress: Progress | None = None
    began: float | None = None
    """When the run began; set only if the run is over."""

    @property
    def over(self) -> bool:
        return self.began is not None


Step = CreateJob | CreateTrialJob | DeleteJob | WriteStatus
