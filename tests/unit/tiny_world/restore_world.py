"""The tiny world with what a restore needs: a claim older than its pod, a Job, EtcdBackups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recovery_world import RecoveryWorld
from world_api import Json, Volume
from world_etcd import Conflict, Data, Etcd, refuse
from world_rules import rule
from worlds import body

from etcd_stateful import naming
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import last_stored
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ApplyChild, CreateJob, PushTicket
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.objects import Job

RESTORE = {"storageType": "S3", "s3": {"path": "mybucket/etcd.backup", "awsSecret": "aws"}}
BACKUP_INDEX = 77

FIRST = "etcd_v7_2026-01-02-03:04:05"
LATER = "etcd_v9_2026-01-02-04:04:05"
FIELD = "spec.bootstrap.restore.backupRef.name"


class RestoreWorld(RecoveryWorld):
    """Adds a claim that the operator creates, and a Job that fills it."""

    def __init__(self, resource: Json | None = None) -> None:
        super().__init__(resource)
        self.backups: dict[str, Json] = {}
        """The EtcdBackups in the namespace."""
        self.created = 0.0
        """When the EtcdCluster was created."""

    def observe(self) -> Observation:
        seen = replace(super().observe(), created=self.created)
        if not (name := bootstrap_source.wanted_backup(seen)):
            return seen
        return replace(seen, backup=last_stored(name, self.backups.get(name)))

    def _apply_child(self, step: ApplyChild) -> None:
        if step.kind != "PersistentVolumeClaim":
            super()._apply_child(step)
            return
        refuse(0 in self.claims, "there is a claim")
        manifest: Any = step.manifest
        notes = dict(manifest["metadata"]["annotations"])
        self.claims[0] = Volume(f"v{self._next()}", self._next(), notes)

    def _create_job(self, step: CreateJob) -> None:
        if self.job is not None:
            raise Conflict("there is one of that name")
        rule(not self.pods, "I8", f"a Job beside pods {sorted(self.pods)}")
        manifest: Any = step.manifest
        notes = manifest["metadata"]["annotations"]
        self.jobs.append(manifest)
        told = (notes[naming.SURVIVOR], int(notes[naming.EPOCH]), notes[naming.SPEC_HASH])
        uid, version = f"j{self._next()}", str(self._next())
        of = notes[naming.CLAIM_UID]
        self.job = Job(step.name, uid, version, *told, "running", claim_uid=of)

    def _may_stop(self, *_: Any) -> None:
        rule(self.record.restoring, "I1", "no pods, and nothing is restored")

    def _write_bootstrap(self, step: Any) -> None:
        if self.secret is None:
            raise Conflict("there is no Secret")
        if self.record.restoring and not step.record.restoring:
            claim = self.claims[0]
            rule(claim.data is not None, "I11", "over before the data is there")
            rule(step.record.latched, "I11", "an empty volume could begin anew")
            self._store(step.record)
        elif self.record.restoring:
            rule(not self.pods, "I9", "another version beside members")
            self._store(step.record)
        else:
            super()._write_bootstrap(step)

    def _push(self, step: PushTicket) -> None:
        asked = self.cluster.restore is not None
        rule(not (asked and step.ticket.state == "new"), "I11", "empty instead of the backup")
        super()._push(step)

    def _run_job(self, job: Job) -> None:
        claim = self.claims.get(0)
        if claim is None or not self.record.restoring:
            return
        first, record = self.record.members[0], self.record
        uid = self.cluster.uid
        claim.data = Data(uid, first.name, first.member_id, record.cluster_id, BACKUP_INDEX)
        etcd = self.etcds[record.cluster_id] = Etcd()
        etcd.members[first.member_id] = Member(
            first.member_id, first.name, (first.peer_url,), learner=False
        )
        etcd.index = BACKUP_INDEX
        self.epochs[claim.uid] = record.epoch
        self.job = replace(job, state="complete")


def born(size: int = 3, **spec: Any) -> RestoreWorld:
    return RestoreWorld(body(size, bootstrap={"restore": RESTORE}, **spec))


def backup(key: str = FIRST, **status: Any) -> dict[str, Any]:
    spec = {
        "clusterRef": {"name": "old"},
        "storageType": "S3",
        "s3": {"path": "mybucket/etcd", "awsSecret": "aws"},
        "backupPolicy": {"backupIntervalInSecond": 3600},
    }
    told = {
        "succeeded": True,
        "location": f"s3://mybucket/{key}",
        "lastSuccessDate": "2026-01-02T03:04:05Z",
    }
    metadata = {"namespace": "default", "name": "b", "uid": "uid-b"}
    return {"metadata": metadata, "spec": spec, "status": told | status}


def named(name: str = "b") -> dict[str, Any]:
    return {"restore": {"backupRef": {"name": name}}}


def place(key: str) -> Store:
    return Store("S3", "mybucket", key, secret="aws")
