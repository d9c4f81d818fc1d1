"""The EtcdBackups that a schedule has made, and how to recognise them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.backup.deletion import FINALIZER
from etcd_stateful.backup.plan import single_run
from etcd_stateful.metadata import annotations_of, labels_of

State = Literal["running", "stored", "failed"]


@dataclass(frozen=True, slots=True)
class ScheduledBackup:
    """An EtcdBackup that a schedule has made."""

    name: str
    uid: str
    resource_version: str
    moment: int
    """The scheduled time, in seconds since 1970."""
    state: State = "running"
    verified: bool = False
    over: str = ""
    """When the backup was stored, RFC 3339."""
    location: str = ""
    cluster_id: str = ""
    """ID of the etcd cluster that was backed up."""
    unproven: str = ""
    """Location of a backup that it has left in the store, and that could not be proven."""
    words: str = ""
    """Its own message: `status.reason` if it has failed, else that of its condition `Complete`."""
    reason: str = ""
    """The reason of its condition `Complete`."""
    others: Mapping[str, Any] | None = None
    """Its `status.otherBackups`: files in the store that are not of its schedule."""
    let_go: bool = False
    """Whether retention was about to delete it, and has set its `deletionPolicy`."""
    deleting: bool = False
    keeps_stored: bool = False
    """Whether `deletionPolicy` is Retain, in its own spec or else in the present template."""
    deletes_stored: bool = False
    """Whether its deletion will also delete what it stored."""
    finalizers: tuple[str, ...] = ()
    created: float = 0.0
    """By the API server's clock, seconds since 1970; 0 where that is not known."""

    @property
    def began(self) -> float:
        return self.created or self.moment


def as_scheduled(
    schedule: EtcdBackupSchedule, body: Mapping[str, Any], created: float | None = None
) -> ScheduledBackup | None:
    """The EtcdBackup, if this schedule has made it; otherwise None, even if its labels say so.

    Args:
        created: its creation timestamp, seconds since 1970; None if that is not known.
    """
    metadata: Mapping[str, Any] = body["metadata"]
    if labels_of(body).get(naming.SCHEDULE_UID) != schedule.uid or not schedule.uid:
        return None
    moment = _moment(schedule, str(metadata["name"]))
    if moment is None:
        return None
    status: Mapping[str, Any] = body.get("status") or {}
    said = stored_conditions.find(status, "Complete")
    finalizers = tuple(metadata.get("finalizers") or ())
    policy = (body.get("spec") or {}).get("deletionPolicy")
    state, let_go = _state(body, status), naming.LET_GO in annotations_of(body)
    # Retention may have set it: then the template still says what becomes of what is stored.
    own_policy = "" if let_go and policy == "Delete" else policy
    failed = status.get("reason") if state == "failed" else ""
    return ScheduledBackup(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        resource_version=str(metadata["resourceVersion"]),
        moment=moment,
        state=state,
        verified=bool(status.get("verified")),
        over=str(status.get("lastSuccessDate") or ""),
        location=str(status.get("location") or ""),
        cluster_id=str(status.get("clusterID") or ""),
        unproven=str(status.get("unproven") or ""),
        words=str(failed or said.get("message") or ""),
        reason=str(said.get("reason") or ""),
        others=status.get("otherBackups"),
        let_go=let_go,
        deleting="deletionTimestamp" in metadata,
        keeps_stored=(own_policy or schedule.template.get("deletionPolicy")) == "Retain",
        deletes_stored=policy == "Delete" and FINALIZER in finalizers,
        finalizers=finalizers,
        created=created or 0.0,
    )


def _moment(schedule: EtcdBackupSchedule, name: str) -> int | None:
    digits = name.removeprefix(f"{schedule.name}-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        return None
    moment = int(digits) * 60
    return moment if naming.scheduled_backup(schedule.name, moment) == name else None


def _state(body: Mapping[str, Any], status: Mapping[str, Any]) -> State:
    if status.get("succeeded") is True:
        return "stored"
    if stored_conditions.find(status, "Accepted").get("status") == "False":
        return "failed"
    over = status.get("succeeded") is False and not _runs_again(body, status)
    return "failed" if over else "running"


def _runs_again(body: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether its spec was edited after it had failed, which begins another run."""
    if "deletionTimestamp" in body["metadata"] or naming.LET_GO in annotations_of(body):
        return False
    run = str(status.get("run") or "")
    return run.startswith("g") and run != single_run(int(body["metadata"].get("generation", 0)))
