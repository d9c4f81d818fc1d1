"""The EtcdBackups that a schedule has made, as they are told from all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etcd_stateful import naming
from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.backup.deletion import FINALIZER

State = Literal["running", "stored", "failed"]


@dataclass(frozen=True, slots=True)
class Made:
    """One of them."""

    name: str
    uid: str
    resource_version: str
    moment: int
    """Of the schedule; seconds since 1970."""
    state: State = "running"
    verified: bool = False
    over: str = ""
    """When it was stored, RFC 3339."""
    location: str = ""
    cluster_id: str = ""
    """Of the etcd cluster that it is of."""
    unproven: bool = False
    """It has failed, and left in the store what it could not prove."""
    words: str = ""
    """What it says of itself."""
    reason: str = ""
    others: Mapping[str, Any] | None = None
    """What it has seen in the store that is not of its schedule."""
    deleting: bool = False
    keeps_stored: bool = False
    """Its own spec, or where that is silent the template by now, says that what is stored stays."""
    deletes_stored: bool = False
    """What is stored goes with it, once it is deleted."""
    finalizers: tuple[str, ...] = ()
    created: float = 0.0
    """By the API server's clock, seconds since 1970; 0 where that is not known."""

    @property
    def began(self) -> float:
        return self.created or self.moment


def made_by(
    schedule: EtcdBackupSchedule, body: Mapping[str, Any], created: float | None = None
) -> Made | None:
    """None for an EtcdBackup of anybody else, whatever labels it wears.

    Args:
        created: its creation timestamp, seconds since 1970; None where that is not known.
    """
    metadata: Mapping[str, Any] = body["metadata"]
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    if labels.get(naming.SCHEDULE_UID) != schedule.uid or not schedule.uid:
        return None
    moment = _moment(schedule, str(metadata["name"]))
    if moment is None:
        return None
    status: Mapping[str, Any] = body.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    said: Mapping[str, Any] = conditions.get("Complete") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    policy = (body.get("spec") or {}).get("deletionPolicy")
    return Made(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        resource_version=str(metadata["resourceVersion"]),
        moment=moment,
        state=_state(status, conditions),
        verified=bool(status.get("verified")),
        over=str(status.get("lastSuccessDate") or ""),
        location=str(status.get("location") or ""),
        cluster_id=str(status.get("clusterID") or ""),
        unproven=bool(status.get("unproven")),
        words=str(status.get("reason") or said.get("message") or ""),
        reason=str(said.get("reason") or ""),
        others=status.get("otherBackups"),
        deleting="deletionTimestamp" in metadata,
        keeps_stored=(policy or schedule.template.get("deletionPolicy")) == "Retain",
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


def _state(status: Mapping[str, Any], conditions: Mapping[str, Any]) -> State:
    if status.get("succeeded") is True:
        return "stored"
    refused = (conditions.get("Accepted") or {}).get("status") == "False"
    return "failed" if refused or status.get("succeeded") is False else "running"
