"""A small world of backups: the real passes over a fake API server, and real Jobs (`backup_pods`).

It checks each write of the operator and each deletion in the bucket against what must never happen.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Final

from backup_api import PASSED, WATCHED, Api
from backup_pods import Bucket, Etcd, Killed, Pod
from copied import copied
from fakes import FakeClock, Name, cluster_body

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.backup_controllers.schedule import Schedules
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    JOBS,
    PODS,
    Json,
    KubeError,
    Resource,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Owner, Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_operator.timestamps import created
from etcd_stateful import identity, naming, stored_conditions
from etcd_stateful.backup import in_use, names
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import FINAL_EXIT

MOST_PASSES: Final = 40
"""Passes over one object in a moment, in which nothing else happens."""


class BackupWorld:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.skew = 0.0
        """By how much the clock of the operator, and of its Jobs, is ahead."""
        self.api = Api(self.clock, self.chance)
        self.bucket = Bucket(self.chance, self.clock)
        self.etcd = Etcd()
        self.pods: dict[str, Pod] = {}
        self.failures: Counter[str] = Counter()
        """By UID of the Job: its pods that have failed."""
        self.trusted, self.lost_nodes = True, False
        self.due: dict[Owner, float] = {}
        self.errors: Counter[Owner] = Counter()
        self.log: list[str] = []
        self.wiped: set[str] = set()
        """UIDs of objects whose status somebody has emptied: it named their Jobs and files."""
        self.proven: set[tuple[str, str]] = set()
        """Location and SHA-256 of what a trial restore has proven."""
        self._numbers = itertools.count(1)
        self.api.wake = self.wake  # type: ignore[method-assign]
        self.put_cluster()
        self.begin()
        self.api.changed, self.api.letting_go = self._check_write, self._check_retention
        self.bucket.deleting = self._check_deletion

    # The operator.

    def begin(self) -> None:
        """An operator begins, without any knowledge of the earlier one."""
        store = Store(self.wake)
        self.api.store, self.api.watching, self.api.left = store, True, 0
        self.api.unseen.clear()
        for name, obj in self.api.objects.items():
            if name[0] in WATCHED:
                store.put(name[0], copied(obj))
        events, metrics = Events(self.api, instance="i", clock=self.clock), Metrics()
        common: Json = {"wall_clock": self.now}
        made = {"operator_image": "operator:1"} | common
        backups = Backups(self.api, store, events, metrics, ask=_no_progress, **made)
        self.passes = {
            ETCD_BACKUPS: backups.reconcile,
            ETCD_SCHEDULES: Schedules(self.api, store, events, metrics, **common).reconcile,
            ETCD_RESTORES: Restores(self.api, store, events, **made).reconcile,
        }
        self.errors.clear()
        self.due = {Owner(kind, key): 0.0 for kind in PASSED for key in store.keys(kind)}

    def now(self) -> float:
        return self.clock.now + self.skew

    def wake(self, owner: Owner) -> None:
        if owner.resource in PASSED:
            self.due[owner] = 0.0

    async def operate(self, passes: int | None = None) -> None:
        """Makes so many passes, or all that are due now."""
        made: Counter[Owner] = Counter()
        while ready := [one for one, at in self.due.items() if at <= self.clock.now]:
            if passes is not None and sum(made.values()) >= passes:
                return
            owner = self.chance.choice(sorted(ready, key=str))
            made[owner] += 1
            assert made[owner] < MOST_PASSES, f"passes over {owner} never end"
            await self._pass(owner)

    async def _pass(self, owner: Owner) -> None:
        del self.due[owner]
        try:
            after = await self.passes[owner.resource](owner.key)
        except KubeError:
            if not self.api.failing:
                raise
            self.errors[owner] += 1
            after = min(0.2 * 2.0 ** self.errors[owner], 60)
        except Killed:
            self.log.append("  the operator was killed")
            self.begin()
            return
        else:
            del self.errors[owner]
        if after is not None:
            at = self.clock.now + after if after > 0 else 0.0
            self.due[owner] = min(at, self.due.get(owner, at))

    # Kubernetes.

    def all(self, kind: Resource) -> list[Json]:
        found = sorted(name for of, _, name in self.api.objects if of == kind)
        return [self.api.live(kind, name) for name in found]

    def repeated(self) -> list[Json]:
        """The schedules and the EtcdBackups with an interval."""
        schedules = self.all(ETCD_SCHEDULES)
        backups = [one for one in self.all(ETCD_BACKUPS) if "backupPolicy" in one["spec"]]
        return schedules + [one for one in backups if "deletionTimestamp" not in one["metadata"]]

    def put_cluster(self) -> None:
        body = cluster_body("c")
        body["status"] = {"clusterID": identity.to_hex(self.etcd.cluster_id)}
        self.api.put(ETCD_CLUSTERS, body)

    def declare(self, kind: Resource, name: str, spec: Json) -> None:
        metadata = {"namespace": "default", "name": name}
        if known := self.api.find(kind, name):
            spec = {k: v for k, v in (known["spec"] | spec).items() if v is not None}
            self.api.put(kind, known | {"spec": spec})
        else:
            self.api.put(kind, {"metadata": metadata, "spec": spec})

    def delete(self, kind: Resource, name: str) -> None:
        body = self.api.live(kind, name)
        if "deletionTimestamp" in body["metadata"]:
            return
        if body["metadata"].get("finalizers"):
            body["metadata"]["deletionTimestamp"] = self.clock.rfc3339()
            self.api.put(kind, body)
        else:
            self.api.remove(kind, "default", name)

    async def control_jobs(self) -> None:
        """The Job controller and the garbage collector."""
        alive = {one["metadata"]["uid"] for kind in (*PASSED, JOBS) for one in self.all(kind)}
        for pod in self.all(PODS):
            if not alive.issuperset(_owners(pod)):
                await self._end_pod(pod["metadata"]["name"])
        for job in self.all(JOBS):
            if not alive.issuperset(_owners(job)):
                self.api.remove(JOBS, "default", job["metadata"]["name"])
            else:
                await self._control(job)

    async def _control(self, job: Json) -> None:
        name, uid, spec = job["metadata"]["name"], job["metadata"]["uid"], job["spec"]
        mine = [one for one in self.all(PODS) if uid in _owners(one)]
        running = [one["metadata"]["name"] for one in mine if _runs(one)]
        age = self.clock.now - (created(job) or 0)
        over, ending = bool(job.get("status")), "deletionTimestamp" in job["metadata"]
        if ending or (not over and age > spec["activeDeadlineSeconds"]):
            for one in running:
                await self._end_pod(one)
        if (ending and not running) or (over and age > spec.get("ttlSecondsAfterFinished", age)):
            self.api.remove(JOBS, "default", name)
        elif not (ending or over):
            self._go_on(job, mine, running, age)

    def _go_on(self, job: Json, mine: list[Json], running: list[str], age: float) -> None:
        spec = job["spec"]
        if any(one["status"]["phase"] == "Succeeded" for one in mine):
            self._end_job(job, "Complete")
        elif age > spec["activeDeadlineSeconds"]:
            self._end_job(job, "Failed", "DeadlineExceeded")
        elif self.failures[job["metadata"]["uid"]] > spec["backoffLimit"]:
            self._end_job(job, "Failed", "BackoffLimitExceeded")
        elif not running:
            self._start_pod(job)

    def _end_job(self, job: Json, kind: str, reason: str = "") -> None:
        self.log.append(f"  Job {job['metadata']['name']}: {kind} {reason}")
        told = {"type": kind, "status": "True", "reason": reason, "message": ""}
        self.api.put(JOBS, job | {"status": {"conditions": [told]}})

    def _start_pod(self, job: Json) -> None:
        template = job["spec"]["template"]
        name = f"{job['metadata']['name']}-{next(self._numbers)}"
        controller = {key: job["metadata"][key] for key in ("name", "uid")}
        metadata = {
            "namespace": "default",
            "name": name,
            **template["metadata"],
            "ownerReferences": [{"kind": "Job", "controller": True} | controller],
        }
        self.api.put(PODS, {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
        trusted = self.trusted or self.chance.random() < 0.3
        self.pods[name] = Pod(order_of(job), self.bucket, self.now, trusted=trusted)

    async def _end_pod(self, name: str) -> None:
        """Tells it to stop, which it does in its own time, or removes what is left of it."""
        if name not in self.pods:
            self.api.remove(PODS, "default", name)
        elif not self.pods[name].stopping:
            await self.pods[name].stop()
            body = self.api.live(PODS, name)
            body["metadata"]["deletionTimestamp"] = self.clock.rfc3339()
            self.api.put(PODS, body)

    async def run_pods(self, steps: int | None = None) -> None:
        """Pods take so many steps, or run to their ends. The kubelet reports an end."""
        for name in sorted(self.pods):
            if self.lost_nodes and len(name) % 2:
                continue
            pod, taken = self.pods[name], 0
            while not pod.ended and (steps is None or taken < self.chance.randrange(steps + 1)):
                await pod.step()
                taken += 1
            if pod.ended:
                self._report(name, pod)

    async def kill_pod(self, name: str, *, lost: bool) -> None:
        """Kills its process, or its node is lost, with all that it has not told."""
        await self.pods[name].kill()
        if lost:
            del self.pods[name]
            self.api.remove(PODS, "default", name)
        else:
            self._report(name, self.pods[name])

    def _report(self, name: str, pod: Pod) -> None:
        code, words = pod.said
        del self.pods[name]
        body = self.api.live(PODS, name)
        self.log.append(f"  {name} ends: {code} {words[:150]}")
        if code == 0 and pod.order.action == "prove":
            store = pod.order.store
            self.proven.add((store.place, pod.order.expected))
        if pod.stopping:
            self.api.remove(PODS, "default", name)
            return
        [uid] = _owners(body)
        self.failures[uid] += 99 if code == FINAL_EXIT else bool(code)
        ended = {"terminated": {"exitCode": code, "message": words}}
        container = {"name": "backup", "state": ended}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
        self.api.put(PODS, body | {"status": status})

    # What must never happen.

    def _check_write(self, name: Name, before: Json | None, after: Json | None) -> None:
        if name[0] == JOBS and before is None and after:
            self._check_alone(after)
        if name[0] != ETCD_BACKUPS or not before:
            return
        if after and before.get("status") != after.get("status"):
            self._check_told(before.get("status") or {}, after)
        if after and _let_go(after) > _let_go(before):
            self._check_retention(before)
        ended = not after and "deletionTimestamp" in before["metadata"]
        forgot = before["metadata"]["uid"] in self.wiped
        if ended and not forgot and before["spec"].get("deletionPolicy") == "Delete":
            self._check_gone(before)

    def _check_gone(self, body: Json) -> None:
        """An object that was to delete what it has stored leaves nothing at its place."""
        uid, status = body["metadata"]["uid"], body.get("status") or {}
        key = body["spec"]["s3"]["path"].partition("/")[2]
        told = {str(status.get(one)).partition("://b/")[2] for one in ("location", "unproven")}
        for one in {key, *told} & self.bucket.files.keys():
            beside = self.bucket.files.get(names.manifest_of(one))
            left = beside is not None and {beside.of, self.bucket.files[one].of} == {uid}
            assert not left, f"{one} is left by {body['metadata']['name']}"

    def _check_alone(self, job: Json) -> None:
        """Two Jobs of one object never write to its path, or delete there, at once."""
        order = order_of(job)
        self.log.append(f"  created {job['metadata']['name']}")
        if order.action in ("store", "delete"):
            uids = {one["metadata"]["uid"] for one in self.all(JOBS)}
            for name, pod in self.pods.items():
                same = pod.order.owner_uid == order.owner_uid and pod.order.action == "store"
                # Once the status is emptied, only pods that the watch has shown tell of their Jobs.
                seen = self.api.store and self.api.store.get(PODS, "default", name)
                if order.owner_uid in self.wiped and not seen:
                    continue
                # A Job that somebody else has deleted does not wait for its pod.
                assert not same or uids.isdisjoint(_owners(self.api.live(PODS, name))), name

    def _check_told(self, before: Json, body: Json) -> None:
        """A status says no more than Jobs have stored and proven."""
        told = body["status"]
        uid, location = body["metadata"]["uid"], told.get("location")
        if told.get("succeeded") is True and told.get("run") != before.get("run"):
            key, sha256 = location.partition("://b/")[2], told["sha256"]
            assert (key, sha256, uid) in self.bucket.ever, "never stored"
            if told.get("verified") == "Restore":
                assert (location, sha256) in self.proven, "never proven"
        elif told.get("verified"):
            assert told["verified"] == before["verified"]
        if "backupPolicy" not in body["spec"] and stored_conditions.is_true(told, "Ready"):
            assert told.get("succeeded") is True, "a backup is ready that was never made"

    def _check_deletion(self, order: Order, key: str) -> None:
        base = key.removesuffix(names.MANIFEST)
        file = self.bucket.files.get(key)
        if file is None:
            return
        self.log.append(f"  {order.owner} {order.action} deletes {key}")
        beside = self.bucket.files.get(names.manifest_of(base))
        left_over = order.action == "store" and order.stamped and beside is None
        assert file.of == order.owner_uid or left_over, f"{key} is of {file.of or 'somebody'}"
        if order.action == "store":
            for one in self.all(ETCD_BACKUPS):
                assert (one.get("status") or {}).get("location") != order.store.location(base)

    def _check_retention(self, body: Json) -> None:
        """Before a schedule lets go of a backup."""
        status = body.get("status") or {}
        read = in_use.read_from(self.all(ETCD_RESTORES), self.all(ETCD_CLUSTERS))
        told = {body["metadata"]["name"], *(status.get(one) for one in ("location", "unproven"))}
        assert read.isdisjoint(told), f"a restore reads {told}"
        if status.get("succeeded") is not True:
            return
        uid = body["metadata"]["labels"][naming.SCHEDULE_UID]
        rest = [one for one in self.all(ETCD_BACKUPS) if _is_newer(one, body, uid)]
        assert rest, "the newest stored"
        if status.get("verified"):
            assert any(one["status"].get("verified") for one in rest), "the newest verified"


async def _no_progress(_: str) -> None:
    return None


def _is_newer(one: Json, than: Json, uid: str) -> bool:
    metadata, status = one["metadata"], one.get("status") or {}
    return (
        (metadata.get("labels") or {}).get(naming.SCHEDULE_UID) == uid
        and "deletionTimestamp" not in metadata
        and status.get("succeeded") is True
        and (metadata["name"] > than["metadata"]["name"])
    )


def _let_go(backup: Json) -> bool:
    return naming.LET_GO in (backup["metadata"].get("annotations") or {})


def order_of(job: Json) -> Order:
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return orders.parse(env[0]["value"])


def _owners(obj: Json) -> set[str]:
    return {one["uid"] for one in obj["metadata"].get("ownerReferences") or ()}


def _runs(pod: Json) -> bool:
    return pod["status"]["phase"] == "Running"
