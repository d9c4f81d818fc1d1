"""Random walks in which everything may happen to backups, schedules and restores, also at once.

Jobs succeed, fail, hang and are lost; the operator is killed; the API server fails, loses answers
and shows old views; clocks jump; the bucket fails, forbids and forgets; objects and files are
edited, deleted and brought back; objects share a path. `backup_world` checks every write. Once the
faults are over, schedules and intervals make backups again, and all comes to rest with a reason.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from backup_world import BackupWorld

from etcd_operator.backup import process
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    JOBS,
    PODS,
    Json,
)
from etcd_operator.timestamps import rfc3339
from etcd_stateful import stored_conditions
from etcd_stateful.backup import names

WALKS: Final = int(os.environ.get("WALKS", "40"))
"""`make verify` sets it: a thousand find more."""

EVENTS: Final = 70
DAY: Final = 86400

_FAILED: Final = {"JobFailed", "StoreUnreachable", "StoreRefused", "Interrupted", "Failed"}
ENDS: Final = {
    ETCD_BACKUPS: _FAILED
    | {"Stored", "AlreadyStored", "VerificationFailed", "EtcdUnreachable", "TimedOut"},
    ETCD_RESTORES: _FAILED
    | {"Restored", "BackupAwaited", "ClusterExists", "NoManifest", "BackupReplaced"},
}
"""The reasons with which objects may be at rest for good, once all faults are over."""


class Walk:
    def __init__(self, seed: int) -> None:
        self.world = BackupWorld(seed)
        self.chance = self.world.chance
        self.saved: list[Json] = []

    async def run(self) -> None:
        await self.world.operate()
        for _ in range(EVENTS):
            (event,) = self.chance.choices(list(LIKELY), weights=list(LIKELY.values()))
            self.world.log.append(event.__name__)
            made = event(self)
            if made is not None:
                await made
            self.check_numbers()

    def check_numbers(self) -> None:
        assert len(self.world.all(JOBS)) < 99

    # Time, and all that goes on by itself.

    async def operator_works(self) -> None:
        await self.world.operate(self.chance.randrange(1, 15))

    async def all_goes_on(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            await self.world.operate()
            await self.world.control_jobs()
            await self.world.run_pods(self.chance.choice((None, 9)))

    async def jobs_are_controlled(self) -> None:
        await self.world.control_jobs()

    async def pods_run(self) -> None:
        await self.world.run_pods(self.chance.choice((3, 9, None)))

    def time_passes(self) -> None:
        self.world.clock.now += self.chance.choice((1, 10, 60, 300, 700, 4000))

    def a_day_passes(self) -> None:
        self.world.clock.now += 1.2 * DAY

    def clock_jumps(self) -> None:
        self.world.skew = self.chance.choice((0.0, 0.0, 200.0, 4000.0, -4000.0, 2.0 * DAY))

    # Faults.

    def operator_is_killed(self) -> None:
        self.world.api.left = self.chance.randrange(2, 9)

    def watch_breaks(self) -> None:
        if self.chance.random() < 0.5:
            self.world.api.watching = False
        else:
            self.world.api.watch_again()

    def api_server_fails(self) -> None:
        self.world.api.failing = self.chance.choice((0.0, 0.0, 0.1, 0.4))

    async def pod_dies(self) -> None:
        if self.world.pods:
            name = self.chance.choice(sorted(self.world.pods))
            await self.world.kill_pod(name, lost=self.chance.random() < 0.5)

    def pod_runs_out_of_time(self) -> None:
        if self.world.pods:
            self.world.pods[self.chance.choice(sorted(self.world.pods))].run_out_of_time()

    def nodes_do_not_answer(self) -> None:
        self.world.lost_nodes = not self.world.lost_nodes

    def ended_pods_are_deleted(self) -> None:
        for pod in self.world.all(PODS):
            name = pod["metadata"]["name"]
            if name not in self.world.pods and self.chance.random() < 0.5:
                self.world.api.remove(PODS, "default", name)

    def job_is_deleted(self) -> None:
        if found := self.world.all(JOBS):
            self.world.api.remove(JOBS, "default", self.chance.choice(found)["metadata"]["name"])

    def bucket_fails(self) -> None:
        bucket = self.world.bucket
        bucket.fails = self.chance.choice(("", "", "StoreUnreachable", "StoreRefused"))
        bucket.may_delete = self.chance.random() < 0.7
        bucket.forgets = self.chance.choice((0.0, 0.0, 0.2))

    def trials_fail(self) -> None:
        self.world.trusted = not self.world.trusted

    def etcd_fails(self) -> None:
        self.world.etcd.answers = not self.world.etcd.answers

    def cluster_is_created_again(self) -> None:
        self.world.etcd.cluster_id += 1
        self.world.api.remove(ETCD_CLUSTERS, "default", "c")
        self.world.put_cluster()

    # What users do.

    def backup_is_declared(self) -> None:
        name, spec = self.chance.choice(("a", "b", "i")), self.some_spec()
        if name == "i":
            spec["backupPolicy"] = {
                "backupIntervalInSecond": self.chance.choice((60, 600)),
                "maxBackups": self.chance.choice((0, 1, 2)),
            }
        self.world.declare(ETCD_BACKUPS, name, spec)

    def schedule_is_declared(self) -> None:
        spec: Json = {
            "schedule": self.chance.choice(("* * * * *", "*/10 * * * *")),
            "suspend": self.chance.random() < 0.2,
            "jitterSeconds": 0,
            "retention": {
                "count": self.chance.choice((0, 1, 2)),
                "maxAgeDays": self.chance.choice((0, 1)),
            },
            "template": self.some_spec(),
        }
        self.world.declare(ETCD_SCHEDULES, self.chance.choice("st"), spec)

    def some_spec(self) -> Json:
        return {
            "clusterRef": {"name": "c"},
            "storageType": "S3",
            "s3": {"path": self.chance.choice(("b/one", "b/one", "b/two")), "awsSecret": "aws"},
            "verify": self.chance.choice(("None", "Hash", "Restore", "Restore")),
            "deletionPolicy": self.chance.choice(("Retain", "Delete", None)),
        }

    def spec_is_edited(self) -> None:
        if found := self.world.all(ETCD_BACKUPS):
            name = self.chance.choice(found)["metadata"]["name"]
            spec = self.some_spec()
            field = self.chance.choice(("s3", "verify", "deletionPolicy", "deletionPolicy"))
            self.world.declare(ETCD_BACKUPS, name, {field: spec[field]})

    def object_is_deleted(self) -> None:
        kind = self.chance.choice((ETCD_BACKUPS, ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES))
        if found := self.world.all(kind):
            body = self.chance.choice(found)
            self.saved.append(body)
            self.world.delete(kind, body["metadata"]["name"])

    def object_is_brought_back(self) -> None:
        """By a tool that restores a namespace, or from a saved manifest."""
        if found := [*self.saved, *self.world.all(ETCD_BACKUPS)]:
            body = self.chance.choice(found)
            name = body["metadata"]["name"]
            kept = ("name", "namespace", "annotations", "labels")
            metadata = {k: v for k, v in body["metadata"].items() if k in kept}
            if "clusterRef" in body["spec"] and not self.world.api.find(ETCD_BACKUPS, name):
                self.world.api.put(ETCD_BACKUPS, {"metadata": metadata, "spec": body["spec"]})

    def status_is_wiped(self) -> None:
        kind = self.chance.choice((ETCD_BACKUPS, ETCD_SCHEDULES))
        if found := self.world.all(kind):
            body = self.chance.choice(found)
            self.world.wiped.add(body["metadata"]["uid"])
            self.world.api.put(kind, body | {"status": {}})

    def restore_is_declared(self) -> None:
        backups = [one["metadata"]["name"] for one in self.world.all(ETCD_BACKUPS)]
        source: Json = {"backupRef": {"name": self.chance.choice(backups)}} if backups else {}
        files = [one for one in self.world.bucket.files if not one.endswith(names.MANIFEST)]
        if files and self.chance.random() < 0.5:
            path = f"b/{self.chance.choice(files)}"
            source = {"backupStorageType": "S3", "s3": {"path": path, "awsSecret": "aws"}}
        if source and not self.world.api.find(ETCD_RESTORES, "r"):
            self.world.declare(ETCD_RESTORES, "r", {"etcdCluster": {"name": "r"}} | source)

    def restored_cluster_serves(self) -> None:
        if found := self.world.api.find(ETCD_CLUSTERS, "r"):
            told = {"conditions": [{"type": "Available", "status": "True"}], "clusterID": "0f"}
            self.world.api.put(ETCD_CLUSTERS, found | {"status": told})

    def restored_cluster_is_deleted(self) -> None:
        if self.world.api.find(ETCD_CLUSTERS, "r"):
            self.world.api.remove(ETCD_CLUSTERS, "default", "r")

    def file_is_deleted(self) -> None:
        if found := sorted(self.world.bucket.files):
            key = self.chance.choice(found)
            del self.world.bucket.files[key]
            self.world.bucket.by_hand.add(key)

    def file_is_put_by_hand(self) -> None:
        """Over another, or beside them; its manifest is gone, or nobody's that is known."""
        files = self.world.bucket.files
        key = self.chance.choice([*sorted(files), "one", "one_v1_2023-11-01-00:00:00"])
        key = key.removesuffix(names.MANIFEST)
        files.pop(names.manifest_of(key), None)
        self.world.bucket.put(key, b"by hand")
        self.world.bucket.by_hand.add(key)
        if self.chance.random() < 0.3:
            self.world.bucket.put(names.manifest_of(key), b"{}")

    # The end.

    async def calm_down(self) -> None:
        world = self.world
        world.api.failing, world.api.left, world.skew = 0.0, 0, 0.0
        world.api.watch_again()
        world.bucket.fails, world.bucket.may_delete, world.bucket.forgets = "", True, 0.0
        world.trusted, world.lost_nodes, world.etcd.answers = True, False, True
        for one in world.all(ETCD_SCHEDULES):
            world.declare(ETCD_SCHEDULES, one["metadata"]["name"], {"suspend": False})

    async def go_on(self) -> bool:
        """Until something is due. Returns whether anything happened."""
        world = self.world
        before = (sum(world.api.writes().values()), len(world.bucket.ever))
        await world.operate()
        await world.control_jobs()
        await world.run_pods()
        await world.control_jobs()
        self.restored_cluster_serves()
        await world.operate()
        after = (sum(world.api.writes().values()), len(world.bucket.ever))
        coming = (at - world.clock.now for at in world.due.values() if at > world.clock.now)
        world.clock.now += max(20.0, min(coming, default=400.0))
        return before != after or bool(world.pods)

    async def rest(self) -> None:
        """Until nothing has happened for longer than anything is waited for."""
        since = self.world.clock.now
        for _ in range(900):
            if await self.go_on():
                since = self.world.clock.now
            elif self.world.clock.now > since + 1300:
                return
        raise AssertionError("it never comes to rest")


LIKELY: dict[Callable[[Walk], Awaitable[None] | None], float] = {
    Walk.operator_works: 15,
    Walk.all_goes_on: 15,
    Walk.jobs_are_controlled: 8,
    Walk.pods_run: 8,
    Walk.time_passes: 14,
    Walk.a_day_passes: 0.5,
    Walk.clock_jumps: 1,
    Walk.operator_is_killed: 2,
    Walk.watch_breaks: 2,
    Walk.api_server_fails: 2,
    Walk.pod_dies: 2,
    Walk.pod_runs_out_of_time: 1,
    Walk.nodes_do_not_answer: 1,
    Walk.ended_pods_are_deleted: 1,
    Walk.job_is_deleted: 0.7,
    Walk.bucket_fails: 2,
    Walk.trials_fail: 1,
    Walk.etcd_fails: 1,
    Walk.cluster_is_created_again: 0.7,
    Walk.backup_is_declared: 5,
    Walk.schedule_is_declared: 2,
    Walk.spec_is_edited: 3,
    Walk.object_is_deleted: 2,
    Walk.object_is_brought_back: 1,
    Walk.status_is_wiped: 0.7,
    Walk.restore_is_declared: 2,
    Walk.restored_cluster_serves: 1,
    Walk.restored_cluster_is_deleted: 0.5,
    Walk.file_is_deleted: 1,
    Walk.file_is_put_by_hand: 1,
}
"""The events of a walk, with their relative frequency."""


@pytest.mark.parametrize("seed", range(WALKS))
async def test_no_walk_breaks_a_rule_and_each_comes_to_rest_with_a_reason(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(seed)
    world = walk.world
    monkeypatch.setattr(process, "Source", lambda _: world.etcd)
    try:
        await walk.run()
        await walk.calm_down()
        await still_makes_backups(walk)
        await walk.rest()
        check_ends(world)
    except BaseException:
        print("\n".join(world.log))
        raise
    finally:
        for name in sorted(world.pods):
            await world.kill_pod(name, lost=True)


async def still_makes_backups(walk: Walk) -> None:
    """Schedules and intervals make a backup within hours. Then they end."""
    world = walk.world
    calm, often = rfc3339(world.clock.now), 0
    while late := [one for one in world.repeated() if not last_success(one) > calm]:
        often += 1
        assert often < 200, late
        await walk.go_on()
    for one in world.repeated():
        name = one["metadata"]["name"]
        if "schedule" in one["spec"]:
            world.delete(ETCD_SCHEDULES, name)
        else:
            world.declare(ETCD_BACKUPS, name, {"backupPolicy": None})


def last_success(body: Json) -> str:
    status = body.get("status") or {}
    return str(status.get("lastSuccessfulTime") or status.get("lastSuccessDate") or "")


def check_ends(world: BackupWorld) -> None:
    for kind, reasons in ENDS.items():
        for body in world.all(kind):
            assert "deletionTimestamp" not in body["metadata"], body
            said = stored_conditions.find(body.get("status"), "Complete")
            assert said.get("reason") in reasons, body
            assert said["message"]
    for body in world.all(ETCD_BACKUPS):
        status = body["status"]
        assert (status["succeeded"] is False) == bool(status["reason"])
        if status["succeeded"] is True:
            key = status["location"].partition("://b/")[2]
            file, uid = world.bucket.files.get(key), body["metadata"]["uid"]
            replaced = world.bucket.last.get(key) != uid  # and then deleted with its object
            assert file or replaced or key in world.bucket.by_hand, body
            assert not file or file.of != uid or file.sha256 == status["sha256"], body
