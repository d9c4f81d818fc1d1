"""The tiny world with what a recovery needs: epochs on volumes, a Job, and `spec.recovery`.

Only a recovery may stop every pod, raise the epoch, and delete claims without a quorum. Separate
rules check these writes; the usual rules check everything else.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import world_rules as rules
from world_api import UID, Json, Volume, record_in
from world_etcd import Etcd, minor
from world_rules import rule
from worlds import Conflict, World, body, drive

from etcd_stateful import identity, naming
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    PushTicket,
    Settled,
    Step,
)
from etcd_stateful.observed.objects import Job
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap

JOB = "c-recovery"


class RecoveryWorld(World):
    def __init__(self, resource: Json | None = None) -> None:
        super().__init__(resource)
        self.epochs: dict[str, int] = {}
        """By UID of the claim: the epoch in its marker; 0 while the marker is set aside."""
        self.ended: dict[tuple[int, int], Etcd] = {}
        """By cluster ID and epoch: an etcd cluster that a recovery's Job has ended. Volumes of that
        epoch still have its member list in their logs."""
        self.begun_epochs: dict[int, int] = {}
        """By cluster ID: the epoch of the one in `etcds`, once a recovery has begun it."""
        self.acknowledged: dict[int, int] = {}
        """By cluster ID: the epoch in which a quorum has acknowledged writes last."""
        self.given_up: set[tuple[int, int]] = set()
        """Epochs that a human gave up, and that no quorum has served in since."""
        self.job: Job | None = None
        self.job_runs = True
        self.told_cluster = 0
        """The etcd cluster ID in the recovery's Job."""
        self.job_version = ""
        """The etcd version in the Job."""
        self.jobs: list[Json] = []
        """Every Job that was ever created."""
        self.strangers: tuple[str, ...] = ()
        self.spared: set[str] = set()
        """Claims that the API server has once refused to delete."""

    # What a human does.

    def ask(self, ordinal: int, **fields: Any) -> None:
        asked = {
            "survivor": naming.pod("c", ordinal),
            "clusterID": identity.to_hex(self.record.cluster_id),
            "epoch": self.record.epoch,
        }
        self.edit(recovery=asked | fields)

    def take_back(self) -> None:
        del self.body["spec"]["recovery"]
        self.edit()

    def remake(self, uid: str = UID, **spec: Any) -> World:
        following = super().remake(uid, **spec)
        assert isinstance(following, RecoveryWorld)
        following.epochs, following.ended = self.epochs, self.ended
        following.begun_epochs, following.acknowledged = self.begun_epochs, self.acknowledged
        following.given_up = self.given_up
        return following

    def wipe(self, *ordinals: int) -> None:
        """Empties the volumes and recreates the pods."""
        for ordinal in ordinals:
            self.claims[ordinal].data = None
            self.restart_pod(ordinal)

    # What the planner sees.

    def observe(self) -> Observation:
        seen = super().observe()
        running = self.job is not None and self.job.state == "running"
        if not survivor.needs_lookup(seen):  # then only the Job's pod reveals it
            return replace(seen, job=None if running and not self.job_runs else self.job)
        own = (f"{JOB}-x7k2p",) if running and self.job_runs else ()
        hidden = (naming.pod("c", one) for one, pod in sorted(self.pods.items()) if pod.hidden)
        return replace(seen, job=self.job, occupants=(*self.strangers, *hidden, *own))

    # The true state.

    def etcd_in(self, cluster_id: int, epoch: int) -> Etcd | None:
        return self.ended.get((cluster_id, epoch)) or super().etcd_in(cluster_id, epoch)

    def every_etcd(self) -> list[Etcd]:
        return [*super().every_etcd(), *self.ended.values()]

    def check_safe(self) -> None:
        """Never two clusters serve under one name, whatever is recorded. And what a quorum has
        acknowledged is not lost, but by a human's word that was given without a quorum."""
        serve = set(self._have_quorum())
        told = sorted(f"{one:x} in epoch {epoch}" for one, epoch in serve)
        rule(len(serve) <= 1, "I11", f"two clusters serve under one name: {told}")
        now = (self.record.cluster_id, self.record.epoch) if self.secret else (0, 0)
        for known, epoch in {*serve, now}:
            last = self.acknowledged.get(known, epoch)
            kept = epoch > last and (known, last) in self.given_up
            kept = kept or epoch == last or (epoch < last and (known, epoch) not in serve)
            rule(kept, "I3", f"epoch {epoch} of {known:x}, and {last} has acknowledged writes")
        for known, epoch in serve:
            self.acknowledged[known] = epoch
            if not self.secret or now == (known, epoch):
                self.given_up.discard((known, epoch))

    def _have_quorum(self) -> Iterator[tuple[int, int]]:
        """Each etcd cluster of which a quorum runs, with its epoch: a recovery begins another
        cluster with the same ID. A silent member counts, as the others may hear it."""
        running: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for ordinal, data in self.running():
            pod = self.pods[ordinal]
            if not (pod.crashing or pod.damage):
                running[data.cluster_id, self.epoch_on(ordinal)].add(data.member_id)
        for (known, epoch), up in running.items():
            etcd = self.etcd_in(known, epoch)
            voters = set(etcd.voters) if etcd else set()
            if len(voters & up) > len(voters) // 2:
                yield known, epoch

    # The effects of steps.

    def apply(self, step: Step) -> None:
        match step:
            case CreateJob():
                self._create_job(step)
                self.history.append(step)
            case DeleteJob():
                self._delete_job(step)
                self.history.append(step)
            case _:
                super().apply(step)
        self.check_safe()

    def _create_job(self, step: CreateJob) -> None:
        if self.job is not None:
            raise Conflict("there is one of that name")
        rule(not self.pods, "I8", f"a Job beside pods {sorted(self.pods)}")
        rule(not self.strangers, "I8", "a Job beside strangers")
        manifest: Any = step.manifest
        notes = manifest["metadata"]["annotations"]
        name, epoch = notes[naming.SURVIVOR], int(notes[naming.EPOCH])
        rule((name, epoch) == (self.record.survivor, self.record.epoch), "I7", "not as recorded")
        self.jobs.append(manifest)
        self.told_cluster = self.record.cluster_id
        every = manifest["spec"]["template"]["spec"]["initContainers"]
        images = {one["name"]: one["image"] for one in every}
        self.job_version = images[naming.ETCD_CONTAINER].rpartition(":v")[2]
        uid = f"j{self._next()}"
        version = str(self._next())
        self.job = Job(step.name, uid, version, name, epoch, notes[naming.SPEC_HASH], "running")

    def _delete_job(self, step: DeleteJob) -> None:
        if self.job is None or (self.job.uid, self.job.resource_version) != (
            step.uid,
            step.resource_version,
        ):
            raise Conflict("another Job")
        rule(not self.job.stranger, "I10", "another owner's Job")
        self.job = None

    def _apply_child(self, step: ApplyChild) -> None:
        manifest: Any = step.manifest
        live = self.objects.get(("StatefulSet", "c"))
        stays = live is not None and live["spec"]["replicas"] == 0
        if step.kind == "StatefulSet" and manifest["spec"]["replicas"] == 0:
            with _instead("stateful_set", (lambda *_: None) if stays else self._may_stop):
                super()._apply_child(step)
        else:
            super()._apply_child(step)

    def epoch_on(self, ordinal: int) -> int:
        claim = self.claims.get(ordinal)
        return self.epochs.get(claim.uid, FIRST_EPOCH) if claim else FIRST_EPOCH

    def _may_stop(self, world: World, _: Json) -> None:
        if self.secret is None:
            return  # it was decided before the Secret was lost
        asked = world.cluster.recovery
        word = asked is not None and asked.epoch == self.record.epoch
        rule(word or bool(self.record.survivor), "I1", "all stopped without a human's word")
        # If somebody scales the StatefulSet in the middle, the survivor serves before its turn, or
        # members of the epoch that has ended do.
        hidden = {one for one, pod in self.pods.items() if pod.hidden}  # nothing stops those
        others = self.serving() - hidden - {naming.ordinal_of("c", self.record.survivor)}
        others -= {one for one in others if self.epoch_on(one) < self.record.epoch}
        rule(not others, "I1", f"all stopped while {others} serve")

    def _write_bootstrap(self, step: Any) -> None:
        if self.secret is None:
            raise Conflict("there is no Secret")
        new, old = step.record, self.record
        with contextlib.ExitStack() as stack:
            if self._is_over(old, new):
                stack.enter_context(_instead("bootstrap", lambda *_: None))
            elif new.epoch != old.epoch:
                stack.enter_context(_instead("bootstrap", self._may_raise))
            elif old.survivor and not new.survivor:
                stack.enter_context(_instead("bootstrap", self._may_end))
            super()._write_bootstrap(step)

    def _is_over(self, old: Bootstrap, new: Bootstrap) -> bool:
        """Whether the new record only says what members' volumes show: its recovery is over."""
        if new != replace(old, epoch=new.epoch, survivor="", members=(), size=old.ordinals):
            return False
        listed = [at for at, data in self.volumes() if self.is_listed(data)]
        named = naming.ordinal_of("c", old.survivor) if new.epoch == old.epoch else None
        return any(self.epoch_on(at) == new.epoch and at != named for at in listed)

    def _may_raise(self, _: World, old: Bootstrap, new: Bootstrap) -> None:
        asked = self.cluster.recovery
        word = asked is not None and (asked.survivor, asked.cluster_id, asked.epoch) == (
            new.survivor,
            old.cluster_id,
            old.epoch,
        )
        rule(word, "I7", "an epoch without a human's word")
        self.check_next_epoch(old, new)
        rule(not self.pods and not self.strangers, "I3", "an epoch that ends while pods run in it")
        rule(replace(new, epoch=old.epoch, survivor=old.survivor) == old, "I7", "more than that")
        self.given_up |= {(old.cluster_id, one) for one in range(FIRST_EPOCH, new.epoch)}

    def check_next_epoch(self, old: Bootstrap, new: Bootstrap) -> None:
        rule(new.epoch == max(old.epoch, old.begun) + 1, "I7", "not the next epoch")
        own = {naming.ordinal_of("c", new.survivor), old.successor and old.successor.ordinal}
        ours = (one for one, data in self.volumes() if data.cluster_uid == new.cluster_uid)
        ahead = [one for one in ours if self.epoch_on(one) >= new.epoch and one not in own]
        rule(not ahead, "I7", f"an epoch that the volumes at {ahead} have already")

    def _may_end(self, _: World, old: Bootstrap, new: Bootstrap) -> None:
        ordinal = naming.ordinal_of("c", old.survivor)
        claim = self.claims[-1 if ordinal is None else ordinal]
        rule(self.epochs[claim.uid] == old.epoch, "I3", "over before the Job is")
        others = ((at, one) for at, one in self.claims.items() if one.uid != claim.uid)
        ours = ((at, one) for at, one in others if _is_deletable(one, old.cluster_uid))
        left = [(at, one) for at, one in ours if one.data and one.data.cluster_id == old.cluster_id]
        spared = self.spared | {name for _, name in self.observe().put_off}
        going = all(one.deleting or naming.claim("c", at) in spared for at, one in left)
        rule(going, "I6", "over before the deletion of the volumes of before")
        rule(new.cluster_id == old.cluster_id and new.latched, "I7", "another cluster")
        rule(new.issued == old.issued, "I3", "the ledger forgot a ticket")

    def _delete_claim(self, step: DeleteClaim) -> None:
        if self.secret and self.record.survivor:
            with _instead("claim_deletion", self._may_discard):
                super()._delete_claim(step)
        else:
            super()._delete_claim(step)

    def _may_discard(self, _: World, step: DeleteClaim, ordinal: int) -> None:
        record = self.member_record(ordinal)
        kept = naming.ordinal_of("c", self.record.survivor)
        rule(ordinal != kept, "I6", "the survivor's")
        rule(record is not None and record.claim_uid == step.uid, "I6", "not on record")
        rule(record is not None and record.cluster_uid == self.cluster.uid, "I6", "another's")
        rule(not self.pods, "I6", "while pods use it")
        claim = self.claims[-1 if kept is None else kept]
        rule(self.epochs[claim.uid] == self.record.epoch, "I6", "before the survivor is safe")

    def _delete_pod(self, step: DeletePod) -> None:
        if step.force and survivor.halted(self.observe()):
            fenced = self.cluster.recovery.fenced if self.cluster.recovery else ()
            rule(step.name in fenced, "I6", f"{step.name} is given up without a human's word")
            with _instead("pod_deletion", lambda *_: None):
                super()._delete_pod(step)
        else:
            super()._delete_pod(step)

    def _push(self, step: PushTicket) -> None:
        super()._push(step)
        ordinal = naming.ordinal_of("c", step.pod)
        claim = self.claims.get(-1 if ordinal is None else ordinal)
        if claim is not None:
            self.epochs[claim.uid] = step.ticket.epoch

    # What happens without the operator.

    def run_start(self, ordinal: int) -> None:
        super().run_start(ordinal)
        pod, claim = self.pods[ordinal], self.claims.get(ordinal)
        if claim is not None and claim.data and self.epochs.get(claim.uid) != pod.epoch:
            pod.where = "start"

    def turn(self) -> None:
        super().turn()
        if self.job is not None and self.job.state == "running" and self.job_runs:
            self._run_job(self.job)
        self.check_safe()

    def _run_job(self, job: Job) -> None:
        """The Job makes the survivor a cluster of one, and gives its marker the new epoch."""
        claim_ordinal = int(job.survivor.rpartition("-")[2])
        claim = self.claims.get(claim_ordinal)
        of = self.told_cluster
        if claim_ordinal in dict(self.running()):
            return  # etcd of the member's pod holds the lock on the database
        if claim is None or claim.data is None or claim.damaged or claim.data.cluster_id != of:
            self.job = replace(job, state="failed", trouble="refused: there is no log")
            return
        if claim.data.cluster_uid != self.cluster.uid:
            self.job = replace(job, state="failed", trouble="refused: the marker names another")
            return
        if self.job_version in self.bad_images:
            self.job = replace(job, trouble="its image cannot be pulled")
            return
        if self.job_version in self.failing or minor(claim.data.storage) > minor(self.job_version):
            self.job = _crashing(job)
            return
        # After a recovery with another survivor, the volume still has the list of before that.
        etcd = self.etcd_at(claim_ordinal)
        if etcd is None or claim.data.member_id not in etcd.members:
            self.job = _crashing(job)  # etcd panics as it removes the last voter
            return
        if self.epoch_on(claim_ordinal) != job.epoch:
            claim.data = replace(claim.data, storage=self.job_version.rpartition(".")[0])
            self.make_alone(claim_ordinal, job.epoch)
        self.job = replace(job, state="complete")

    def make_alone(self, ordinal: int, epoch: int) -> None:
        """Makes the volume's member a cluster of one, of this epoch."""
        claim, before = self.claims[ordinal], self.etcd_at(ordinal)
        assert claim.data is not None
        assert before is not None
        of, member = claim.data.cluster_id, before.members[claim.data.member_id]
        alone = replace(member, name=naming.pod("c", ordinal), learner=False)
        self.ended[of, self.begun_epochs.get(of, self.epoch_on(ordinal))] = self.etcds[of]
        self.begun_epochs[of], self.epochs[claim.uid] = epoch, epoch
        self.etcds[of] = before.alone(alone, claim.data.storage)


def _crashing(job: Job) -> Job:
    words = "container etcd keeps failing"
    return replace(job, trouble=words, etcd_started=True, etcd_crashing=True)


def _is_deletable(claim: Volume, cluster_uid: str) -> bool:
    """Whether its record can be read, and is its own: a copy's is that of another claim (I6)."""
    held, _damage = record_in(claim.annotations)
    return bool(held and (held.cluster_uid, held.claim_uid) == (cluster_uid, claim.uid))


@contextlib.contextmanager
def _instead(name: str, own: Callable[..., None]) -> Iterator[None]:
    usual = getattr(rules, name)
    setattr(rules, name, own)
    try:
        yield
    finally:
        setattr(rules, name, usual)


def formed(size: int = 3, **spec: Any) -> RecoveryWorld:
    world = RecoveryWorld(body(size, **spec))
    step = drive(world, idle=2)
    assert step == Settled(), step
    return world


def lost(size: int = 3, gone: tuple[int, ...] = (0, 2), **spec: Any) -> RecoveryWorld:
    """A cluster that lost its quorum because these members lost their volumes."""
    world = formed(size, **spec)
    world.wipe(*gone)
    drive(world, idle=3)
    return world
