"""The recovery Job and its pod, as the planner observes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.objects import Job
from model.world import tables
from model.world.state import COMPLETE, DELETING, FAILED, LEAVING, RUNS
from model.world.state import Job as Made

_PHASES: Final[dict[int, Literal["running", "complete", "failed"]]] = {
    RUNS: "running",
    COMPLETE: "complete",
    FAILED: "failed",
}


def onto(seen: Observation, made: Made, trouble: str, etcd_started: bool) -> Observation:
    """Its pod occupies the volume until it has ended, even if the Job is gone earlier."""
    name = naming.recovery_job(tables.NAME)
    over = made.phase != RUNS
    occupants = () if over else (f"{name}-x7k2p",)
    if made.going == LEAVING:
        return replace(seen, occupants=occupants)
    shown = Job(
        name=name,
        uid=f"job-{made.epoch}",
        resource_version="1",
        survivor=naming.pod(tables.NAME, made.survivor),
        epoch=made.epoch,
        spec_hash=made.made,
        state=_PHASES[made.phase],
        deleting=made.going == DELETING,
        trouble=trouble,
        etcd_started=etcd_started,
    )
    return replace(seen, job=shown, occupants=occupants)
