"""The tiny world with everything that may happen to one cluster at once: a recovery, a restore in
place, TLS turned on and off, nodes that are gone, writes that are refused, a cluster that is
deleted and created again, and all that the worlds below know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from inplace_world import InPlaceWorld
from recovery_world import RecoveryWorld
from world_api import Volume, body
from world_etcd import Conflict, Data
from world_switch import OFF, SwitchWorld

from etcd_stateful import naming
from etcd_stateful.membership import put_off
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ApplyChild, DeleteClaim, DeletePod, PushTicket, Step
from etcd_stateful.observed.objects import Job
from etcd_stateful.observed.put_off import PutOff
from etcd_stateful.records.bootstrap import Bootstrap

NO_NODE = "no node has its volume"


class DayWorld(SwitchWorld, InPlaceWorld):
    def __init__(self, size: int = 3, **spec: Any) -> None:
        super().__init__(size, **({"TLS": OFF} | spec))
        self.gone: set[str] = set()
        """UIDs of claims whose volume is on a node that was removed."""
        self.powered_off: set[str] = set()
        """UIDs of pods whose node is off, though nobody confirms that they have stopped."""
        self.refused: set[str] = set()
        """Kinds that a webhook refuses."""
        self.barred: dict[int, PushTicket] = {}
        """Tickets of pods that etcd lets join no cluster yet; their containers restart."""
        self.earlier: list[Bootstrap] = []
        """Every record that this cluster has had, of which somebody may have kept a copy."""
        self._put_off: dict[tuple[str, str], PutOff] = {}

    # What a human does.

    def ask_for_recovery(self, ordinal: int, **fields: Any) -> None:
        RecoveryWorld.ask(self, ordinal, **fields)

    def fence(self, *, beside: int) -> list[str]:
        """Turns off the nodes of pods that do not confirm that they have stopped.

        Returns the names of these pods, without that of the survivor.
        """
        overdue = [one for one, pod in sorted(self.pods.items()) if pod.overdue and one != beside]
        self.powered_off |= {self.pods[one].uid for one in overdue}
        return [naming.pod("c", one) for one in overdue]

    def calm_down(self) -> None:
        """Ends the faults that pass by themselves."""
        self.refused, self.hasty, self.foreign = set(), False, ()
        self.objects = {key: one for key, one in self.objects.items() if not _is_deleted(one)}
        for images in (self.bad_images, self.late_images, self.failing, self.bad_starts):
            images.clear()

    def recreate(self, uid: str, **spec: Any) -> None:
        """Deletes the cluster with all but its claims, and creates one of the same name."""
        kept = {key: one for key, one in self.body["spec"].items() if key != "retainedClaims"}
        self.body = body(uid=uid, **(kept | spec))
        self.secret, self.damage, self.version, self.job = None, "", "", None
        self.earlier.clear()
        for left in (self.objects, self.pods, self.leaves, self.authorities, self._put_off):
            left.clear()

    def restore_from_copy(self, ordinal: int) -> None:
        """Replaces a claim with a copy from a backup of volumes, which also has its annotations."""
        old = self.claims[ordinal]
        notes = dict(old.annotations)
        new = Volume(f"v{self._next()}", self._next(), notes, old.data, damaged=old.damaged)
        self.epochs[new.uid] = self.epoch_on(ordinal)
        self.claims[ordinal] = new
        self.pods.pop(ordinal, None)

    # What the planner sees.

    def observe(self) -> Observation:
        seen = super().observe()
        return replace(seen, put_off=dict(self._put_off)) if self._put_off else seen

    # The effects of steps.

    def apply(self, step: Step) -> None:
        if isinstance(step, ApplyChild) and step.kind in self.refused:
            why = f"{step.kind} is refused"
            self._put_off[put_off.name_of(step)] = PutOff(step.manifest, why)
            raise Conflict(why)
        if isinstance(step, DeletePod | DeleteClaim) and _kind(step) in self.refused:
            self._refuse_deletion(step)
        super().apply(step)

    def _store(self, record: Bootstrap) -> None:
        super()._store(record)
        self.earlier.append(self.record)

    def _refuse_deletion(self, step: DeletePod | DeleteClaim) -> None:
        why = f"the deletion of {step.name} is refused"
        self.spared.add(step.name)
        if put_off.may_wait(self.observe(), step):
            self._put_off[put_off.name_of(step)] = PutOff(put_off.made_by(step), why)
        raise Conflict(why)

    def _join(self, step: PushTicket, ordinal: int) -> None:
        super()._join(step, ordinal)
        if self.data(ordinal) is None:
            self.barred[ordinal] = step

    # What happens without the operator.

    def turn(self) -> None:
        if not self.refused:
            self._put_off.clear()
        super().turn()
        for ordinal, step in self.barred.items():
            pod = self.pods.get(ordinal)
            if pod and pod.uid == step.pod_uid and pod.crashing and self.secret:
                pod.crashing = False
                self._join(step, ordinal)
        for ordinal, data in self.running():
            pod = self.pods[ordinal]
            pod.crashing = pod.crashing and self.cannot_run(pod, data)  # kubelets try again

    def running(self) -> Iterator[tuple[int, Data]]:
        for ordinal, data in super().running():
            if self.pods[ordinal].uid not in self.powered_off:
                yield ordinal, data

    def run_start(self, ordinal: int) -> None:
        claim = self.claims.get(ordinal)
        pod = self.pods[ordinal]
        pod.node_gone = bool(claim and claim.uid in self.gone)
        pod.trouble = NO_NODE if pod.node_gone else pod.trouble
        if not pod.node_gone and not (claim and claim.phase == "Lost"):
            super().run_start(ordinal)

    def _run_job(self, job: Job) -> None:
        claim = self.claims.get(int(job.survivor.rpartition("-")[2]))
        if claim and (claim.uid in self.gone or claim.phase == "Lost"):
            self.job = replace(job, trouble=NO_NODE)
        else:
            super()._run_job(job)


def _kind(step: DeletePod | DeleteClaim) -> str:
    return "Pod" if isinstance(step, DeletePod) else "PersistentVolumeClaim"


def _is_deleted(one: Any) -> bool:
    return "deletionTimestamp" in one["metadata"]
