"""The tiny world with what a restore in place needs: an EtcdRestore and a second volume.

Only such a restore may stop every pod, change the cluster ID and delete the old claims. Separate
rules check these writes: the old data stays until its replacement serves.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from recovery_world import JOB, RecoveryWorld, _instead
from restore_world import RESTORE, RestoreWorld
from world_api import Json, Volume, record_in
from world_etcd import Conflict, Data, Etcd, refuse
from world_rules import rule
from worlds import World, body, drive, is_write

from etcd_stateful import identity, naming
from etcd_stateful.backup import restore_requests
from etcd_stateful.backup.reference import last_stored
from etcd_stateful.membership.epochs import in_place_request
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    PushTicket,
    Settled,
)
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.objects import Job
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.successor import Successor

SOURCE = {"backupStorageType": "S3", "s3": RESTORE["s3"]}
BACKUP_INDEX = 77


class InPlaceWorld(RestoreWorld):
    def __init__(self, resource: Json | None = None) -> None:
        super().__init__(resource)
        self.restore: Json | None = None
        self.revision = 5000
        """The revision that members report."""
        self.order: Successor | None = None
        """What the Job was made for."""
        self.replaced: set[int] = set()
        """IDs of clusters that a successor has replaced."""
        self.filled: set[int] = set()
        """IDs of clusters that a Job has created on a volume, whether or not they ever ran."""

    # What a human does.

    def ask(self, *_: Any, uid: str = "uid-r", cluster_id: str = "", **source: Any) -> None:
        """Creates an EtcdRestore that names the existing cluster."""
        named = cluster_id or identity.to_hex(self.record.cluster_id)
        spec = {"etcdCluster": {"name": "c"}, "replace": {"clusterID": named}}
        metadata = {"namespace": "ns", "name": "c", "uid": uid, "generation": 1}
        self.restore = {"metadata": metadata, "spec": spec | (source or SOURCE)}

    # What the planner sees.

    def observe(self) -> Observation:
        seen = super().observe()
        said = {
            ordinal: replace(one, revision=self.revision) for ordinal, one in seen.statuses.items()
        }
        seen = replace(seen, restore=restore_requests.replacing(self.restore), statuses=said)
        if not (name := in_place_request.wanted_backup(seen)):
            return seen
        return replace(seen, backup=last_stored(name, self.backups.get(name)))

    # The effects of steps.

    @property
    def in_place(self) -> bool:
        return self.secret is not None and bool(self.record.successor or self.record.retired)

    def is_listed(self, data: Data) -> bool:
        """Ignores the successor's volume until it takes over: no pod needs it before. No pod needs
        those of replaced clusters any more."""
        now = self.record.cluster_id if self.secret else 0
        others = (self.filled | self.replaced) - {now}
        return data.cluster_id not in others and super().is_listed(data)

    def _apply_child(self, step: ApplyChild) -> None:
        if step.kind == "StatefulSet" and self.secret and (taking := self.record.successor):
            wanted: Any = step.manifest["spec"]
            live = self.objects.get(("StatefulSet", step.name), {"spec": {"replicas": 0}})
            # Somebody may have scaled it. Without a quorum nothing may lower the replicas (I5).
            most = max(taking.ordinal, live["spec"]["replicas"])
            rule(wanted["replicas"] <= most, "I8", "a pod on the successor's volume")
        if step.kind != "PersistentVolumeClaim" or not self.in_place:
            super()._apply_child(step)
            return
        ordinal = int(step.name.rpartition("-")[2])
        refuse(ordinal in self.claims, "there is a claim")
        rule(ordinal not in self.pods, "I8", "a pod has that ordinal")
        manifest: Any = step.manifest
        notes = dict(manifest["metadata"]["annotations"])
        self.claims[ordinal] = Volume(f"v{self._next()}", self._next(), notes)

    def _create_job(self, step: CreateJob) -> None:
        if step.name == JOB:
            RecoveryWorld._create_job(self, step)
            return
        if not self.in_place:
            super()._create_job(step)
            return
        if self.job is not None:
            raise Conflict("there is one of that name")
        manifest: Any = step.manifest
        notes = manifest["metadata"]["annotations"]
        ordinal = int(notes[naming.SURVIVOR].rpartition("-")[2])
        beside = ordinal in self.pods and self.pods[ordinal].where == "etcd"
        rule(not beside, "I8", "a Job beside etcd on the same volume")
        rule(self.claims[ordinal].uid == notes[naming.CLAIM_UID], "I8", "of another claim")
        self.jobs.append(manifest)
        self.order = self.record.successor
        told = (notes[naming.SURVIVOR], int(notes[naming.EPOCH]), notes[naming.SPEC_HASH])
        made = (f"j{self._next()}", str(self._next()))
        self.job = Job(step.name, *made, *told, "running", claim_uid=notes[naming.CLAIM_UID])

    def _may_stop(self, *asked: Any) -> None:
        if self.secret is None:
            return  # it was decided before the Secret was lost
        if self.record.restoring or self._clusters() & set(self.record.retired):
            return
        recovers = self.record.survivor or self.cluster.recovery is not None
        if recovers and not (self._word() and self._is_filled()):
            RecoveryWorld._may_stop(self, *asked)
            return
        rule(self._word(), "I1", "all stopped without a human's word")
        rule(self._is_filled(), "restore", "all stopped before anything could take their place")

    def _clusters(self) -> set[int]:
        """Of which any member runs."""
        return {data.cluster_id for _, data in self.running()}

    def _word(self) -> bool:
        asked, taking = restore_requests.replacing(self.restore), self.record.successor
        return bool(
            asked and taking and (asked.uid, asked.replaces) == (taking.restore, self._id())
        )

    def _id(self) -> int:
        return self.record.cluster_id

    def _is_filled(self) -> bool:
        taking = self.record.successor
        return bool(taking and taking.ordinal in self.claims and taking.cluster_id in self.filled)

    def _write_bootstrap(self, step: Any) -> None:
        if self.secret is None or self.record.restoring:
            super()._write_bootstrap(step)
            return
        if str(self.secret[0]) != step.resource_version:
            raise Conflict("another resourceVersion")
        new, old = step.record, self.record
        if old.latched and new.cluster_id != old.cluster_id:
            self._may_take_over(old, new)
            self.replaced.add(old.cluster_id)
            self._store(new)
        elif old.retired and not new.retired:
            rule(bool(self.etcd and self.etcd.leader), "restore", "over before it serves")
            left = [one for one in self.claims.values() if not _is_deleted_by_hand(one)]
            kept = [one for one in left if one.data and one.data.cluster_id in old.retired]
            rule(not kept, "I6", "over before the volumes of before are gone")
            self._store(new)
        else:
            super()._write_bootstrap(step)

    def _may_take_over(self, old: Bootstrap, new: Bootstrap) -> None:
        rule(self._word(), "I7", "another cluster without a human's word")
        rule(self._is_filled(), "I11", "another cluster without data")
        rule(not self.pods, "I3", f"an epoch that ends while {sorted(self.pods)} run in it")
        self.check_next_epoch(old, new)
        rule(new.issued == old.issued and new.latched, "I3", "the ledger forgot a ticket")
        rule(new.bump > self.revision, "restore", "time goes back for watchers")

    def _delete_claim(self, step: DeleteClaim) -> None:
        ordinal = int(step.name.rpartition("-")[2])
        data = self.claims[ordinal].data if ordinal in self.claims else None
        held = self.member_record(ordinal) if ordinal in self.claims else None
        if held is None or self.secret is None or held.cluster_id == self.record.cluster_id:
            super()._delete_claim(step)
            return
        with _instead("claim_deletion", lambda *_: None):
            World._delete_claim(self, step)
        rule(held.cluster_uid == self.cluster.uid, "I6", "another's")
        taking = self.record.successor
        if data is None or (taking and held.cluster_id == taking.cluster_id):
            return  # was meant for the successor, and never ran
        rule(held.cluster_id in self.record.retired, "I6", "of a cluster that nobody replaced")
        rule(bool(self.etcd and self.etcd.leader), "restore", "the data of before, too early")

    def _push(self, step: PushTicket) -> None:
        rule(step.ticket.state != "new" or not self.in_place, "I11", "an empty cluster instead")
        RecoveryWorld._push(self, step)

    def _run_job(self, job: Job) -> None:
        if job.name == JOB:
            RecoveryWorld._run_job(self, job)
            return
        taking = self.order
        if taking is None:
            super()._run_job(job)
            return
        claim = self.claims.get(taking.ordinal)
        if claim is None or claim.uid != job.claim_uid:
            return
        if claim.data is not None:
            done = claim.data.cluster_id == taking.cluster_id
            self.job = replace(job, state="complete" if done else "failed")
            return
        uid, member = self.cluster.uid, taking.member_id
        claim.data = Data(uid, taking.name, member, taking.cluster_id, BACKUP_INDEX)
        self.filled.add(taking.cluster_id)
        etcd = self.etcds[taking.cluster_id] = Etcd()
        etcd.members[member] = Member(member, taking.name, (taking.peer_url,), learner=False)
        etcd.index = BACKUP_INDEX
        self.epochs[claim.uid] = job.epoch
        self.job = replace(job, state="complete")


def _is_deleted_by_hand(claim: Volume) -> bool:
    """Whether a human has deleted it: a copy, whose record was written for another claim, or one
    whose record cannot be read. The operator may not delete those, and does not wait until they
    are gone."""
    held, damage = record_in(claim.annotations)
    return claim.deleting and bool(damage or (held and held.claim_uid != claim.uid))


def chain(size: int = 3) -> list[InPlaceWorld]:
    """The world after each write of a restore in place, until only the usual growth is left."""
    world = running(size)
    world.ask()
    found = [copy.deepcopy(world)]
    while not world.record.restored_by or world.record.retired:
        step = decide(world.observe())
        if is_write(step):
            world.apply(step)
            found.append(copy.deepcopy(world))
        else:
            world.turn()
    return found


def running(size: int = 3, **spec: Any) -> InPlaceWorld:
    """A settled cluster, before anybody asks for a restore."""
    world = InPlaceWorld(body(size, **spec))
    step = drive(world, idle=2)
    assert step == Settled(), step
    return world
