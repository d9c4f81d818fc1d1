"""Passes over an EtcdBackup, with an API server in memory: one Job per run, and how a run ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fakes import PLAINTEXT, FakeClock, FakeKube
from worlds import body as cluster_body

from etcd_operator.backup_controllers import jobs
from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    EVENTS,
    JOBS,
    PODS,
    REJECTED_SECONDS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import deletion, order, outcome
from etcd_stateful.backup.clocks import LONGEST_WAIT
from etcd_stateful.backup.deletion import AGAIN_SECONDS
from etcd_stateful.backup.outcome import Failure, Progress, Stored
from etcd_stateful.backup.plan import DAY, HOUR
from etcd_stateful.backup.reference import Chosen
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.successor import successor
from unit.backup_controllers.outages import end_in_a_bug, fail_until_reported
from unit.backup_controllers.test_restore import secret_with

KEY = ("default", "b")
SPEC: Json = {
    "etcdEndpoints": ["http://c:2379"],
    "storageType": "S3",
    "s3": {"path": "mybucket/etcd.backup", "awsSecret": "aws"},
}
STORED = Stored("s3://mybucket/etcd.backup", "0a", 42, "3.7.3", 1056, "ff", "etcd.backup")
FORMED: Json = {"clusterID": "00000000000000ab"}
LABELS = {naming.LABEL_NAME: "etcd-backup", naming.LABEL_MANAGED_BY: naming.MANAGER}


class Skewed(FakeClock):
    """A clock that is so many seconds ahead of another one."""

    def __init__(self, of: FakeClock, ahead: int) -> None:
        super().__init__()
        self._of, self._ahead = of, ahead

    def rfc3339(self) -> str:
        self.now = self._of.now + self._ahead
        return super().rfc3339()


class World:
    """One EtcdBackup. A test plays the Job controller."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.kube.store = Store()
        self.progress: Progress | None = None
        self.metrics = Metrics()
        self.backups = Backups(
            self.kube,
            self.kube.store,
            Events(self.kube, instance="test", clock=self.clock),
            self.metrics,
            operator_image="operator:1",
            ask=self._ask,
            wall_clock=self.clock,
        )

    async def _ask(self, address: str) -> Progress | None:
        assert address == "10.0.0.9"
        return self.progress

    def declare(self, generation: int = 1, uid: str = "uid-b", **changes: Any) -> None:
        spec = {k: v for k, v in (SPEC | changes).items() if v is not None}
        known = self.kube.find(ETCD_BACKUPS, "b") or {}
        metadata = {"namespace": "default", "name": "b", "generation": generation, "uid": uid}
        if known:
            metadata["creationTimestamp"] = known["metadata"]["creationTimestamp"]
        self.kube.put(ETCD_BACKUPS, {**known, "metadata": metadata, "spec": spec})

    async def settle(self) -> float | None:
        """Makes passes until one wants to wait."""
        for _ in range(10):
            after = await self.backups.reconcile(KEY)
            if after != 0.0:
                return after
        raise AssertionError("it never comes to rest")

    def measured(self) -> tuple[float | None, ...]:
        """The metrics of its interval: whether the last run succeeded, and when one did."""
        labels = {"namespace": "default", "name": "b"}
        names = ("last_run_succeeded", "last_success_timestamp_seconds")
        read = self.metrics.registry.get_sample_value
        return tuple(read(f"etcd_backup_interval_{one}", labels) for one in names)

    def jobs(self) -> list[str]:
        return sorted(name for kind, _, name in self.kube.objects if kind == JOBS)

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_BACKUPS, "b").get("status") or {}

    def condition(self, kind: str = "Complete") -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == kind)

    def run_pod(
        self, *, name: str = "p1", message: str | None = None, code: int = 0, of: str = ""
    ) -> None:
        """The pod of a Job, by default of the newest: running, or ended with a message."""
        job = self.kube.live(JOBS, of or self.jobs()[-1])
        named = {key: job["metadata"][key] for key in ("name", "uid")}
        reference = {"kind": "Job", "controller": True} | named
        ended = {"terminated": {"exitCode": code, "message": message}}
        state = {"running": {}} if message is None else ended
        pod = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "labels": LABELS,
                "annotations": {naming.BACKUP: "b"},
                "ownerReferences": [reference],
            },
            "status": {
                "phase": "Running" if message is None else "Succeeded" if code == 0 else "Failed",
                "podIP": "10.0.0.9",
                "containerStatuses": [{"name": "backup", "state": state}],
            },
        }
        self.kube.put(PODS, pod)

    def stop_pod(self, name: str = "p1", job: str = "b-backup-g1") -> None:
        """The pod of a Job that is being deleted stops, and then the Job is gone too."""
        assert "deletionTimestamp" in self.kube.live(JOBS, job)["metadata"]
        self.kube.remove(PODS, "default", name)
        self.kube.remove(JOBS, "default", job)

    def end_job(self, kind: str = "Complete", of: str = "", **words: str) -> None:
        job = self.kube.live(JOBS, of or self.jobs()[-1])
        job["status"] = {"conditions": [{"type": kind, "status": "True", **words}]}
        self.kube.put(JOBS, job)


@pytest.fixture
def world() -> World:
    world = World()
    world.declare()
    return world


async def made(world: World) -> None:
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()


async def test_a_private_build_with_a_long_version_had_its_status_refused(world: World) -> None:
    """The API server refused the whole status, so the backup never counted."""
    version = f"3.6.14-acme.1-g{'0123456789abcdef' * 4}-dirty"
    await world.settle()
    world.run_pod(message=outcome.serialise(replace(STORED, version=version)))
    world.end_job()
    await world.settle()

    assert world.status["etcdVersion"] == version[:64]


async def test_a_status_that_the_api_server_refused_was_told_to_nobody(world: World) -> None:
    error = Rejected("spec.s3: required", status=422)
    world.kube.failures["apply EtcdBackup/status"] = [error] * 9
    with pytest.raises(Rejected):
        await world.settle()

    told = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert [one["reason"] for one in told] == ["StatusRefused"]


async def test_a_backup_that_coreos_had_made_was_not_made_again_without_a_word(
    world: World,
) -> None:
    """It is there if the custom resource definitions were replaced and their objects stayed."""
    body = world.kube.live(ETCD_BACKUPS, "b")
    told = {"succeeded": True, "etcdVersion": "3.2.13", "etcdRevision": 42}
    world.kube.put(ETCD_BACKUPS, body | {"status": told})
    for generation in (1, 2):
        world.declare(generation, s3=SPEC["s3"] | {"path": f"mybucket/{generation}"})
        assert await world.settle() is None
        assert world.condition()["status"] == "True"
        assert "succeeded under the coreos operator; to back up" in world.condition()["message"]
    assert world.jobs() == []


async def test_a_single_backup_was_to_keep_three_and_kept_all_without_a_word(world: World) -> None:
    """With coreos it deleted the others. One at an interval still does."""
    world.declare(backupPolicy={"maxBackups": 3})
    await world.settle()
    said = world.condition("Accepted")
    world.declare(2, backupPolicy={"maxBackups": 3, "backupIntervalInSecond": 3600})
    await world.settle()

    assert said["status"] == "True"
    assert said["message"].startswith("spec.backupPolicy.maxBackups: has no effect without")
    assert world.condition("Accepted")["message"] == "every field is understood"


async def test_one_object_is_one_backup(world: World) -> None:
    await made(world)

    status = world.status
    assert status["succeeded"] is True
    assert (status["etcdVersion"], status["etcdRevision"]) == ("3.7.3", 42)
    assert status["lastSuccessDate"] == world.clock.rfc3339()
    assert status["location"] == "s3://mybucket/etcd.backup"
    assert status["reason"] == status["Reason"] == ""
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "Stored")
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    world.clock.now += 1e6
    calls = world.kube.calls.copy()
    assert await world.settle() is None
    assert world.jobs() == ["b-backup-g1"]
    assert world.kube.calls == calls, "a backup that is made costs nothing"


async def test_the_job_gets_its_order_without_secrets(world: World) -> None:
    await world.settle()

    job = world.kube.live(JOBS, "b-backup-g1")
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    told = order.parse(container["env"][0]["value"])
    assert told.endpoints == ("http://c:2379",)
    assert told.store.secret == "aws"
    assert [one["secret"]["secretName"] for one in pod["volumes"]] == ["aws"]
    assert pod["automountServiceAccountToken"] is False
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-b"


async def test_a_backup_counted_as_ready_between_the_note_of_its_job_and_the_next_pass(
    world: World,
) -> None:
    """For Helm's `--wait` and Flux: its generation was observed, and there was no `Ready`."""
    assert await world.backups.reconcile(KEY) == 0.0

    assert world.status["observedGeneration"] == 1
    assert world.condition("Ready")["status"] == "Unknown"
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    before = world.status
    await world.settle()
    assert world.status == before, "the next pass has nothing new to say"


async def test_a_backup_counted_as_ready_and_waited_while_the_operators_clock_was_behind(
    world: World,
) -> None:
    """By that clock it had not been created yet, so it was taken for one that waits for the end of
    its first interval."""
    world.clock.now -= HOUR

    assert await world.backups.reconcile(KEY) == 0.0

    assert world.jobs() == ["b-backup-g1"]
    assert world.condition("Ready")["status"] == "Unknown"


async def test_progress_is_shown_while_it_runs(world: World) -> None:
    await world.settle()
    world.run_pod()
    world.progress = Progress(10, 100, 5)

    assert await world.settle() == 2.0

    assert world.status["progress"] == {"bytes": 10, "totalBytes": 100, "bytesPerSecond": 5}
    assert world.condition()["reason"] == "Running"
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}


async def test_an_upload_was_reported_before_there_was_one(world: World) -> None:
    """So of each try that found no etcd to ask."""
    await world.settle()
    world.run_pod()
    world.progress = Progress(0, 0, 0)
    await world.settle()

    assert world.condition()["message"] == "Job b-backup-g1 has begun; nothing is uploaded yet"


async def test_a_pod_that_had_stored_its_backup_was_reported_as_starting(world: World) -> None:
    """Until its Job was complete as well, which may take Kubernetes some seconds."""
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    await world.settle()

    assert world.condition()["message"] == "the backup is stored; Job b-backup-g1 is about to end"
    assert "succeeded" not in world.status


async def test_progress_is_gone_when_it_is_over(world: World) -> None:
    await world.settle()
    world.run_pod()
    world.progress = Progress(10, 100, 5)
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()

    assert "progress" not in world.status


async def test_a_failure_is_reported_while_it_is_retried(world: World) -> None:
    """Otherwise nothing would be reported for minutes, until the last attempt."""
    await world.settle()
    words = "spec.s3.path: there is no bucket 'mybucket'"
    world.run_pod(message=outcome.serialise(Failure("StoreRefused", words)), code=1)

    await world.settle()

    assert world.condition()["reason"] == "StoreRefused"
    assert words in world.condition()["message"]
    assert "succeeded" not in world.status


async def test_a_failure_is_final_once_the_job_is(world: World) -> None:
    await world.settle()
    failure = Failure("TimedOut", "spec.backupPolicy.timeoutInSecond: too long", final=True)
    world.run_pod(message=outcome.serialise(failure), code=3)
    world.end_job("Failed", reason="PodFailurePolicy", message="exit code 3")
    await world.settle()
    await world.settle()

    assert world.status["succeeded"] is False
    assert world.status["reason"] == world.status["Reason"] == failure.message
    assert world.jobs() == ["b-backup-g1"]


async def test_a_job_without_a_message_is_reported_with_the_message_of_kubernetes(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded", message="too many tries")
    await world.settle()

    assert "BackoffLimitExceeded: too many tries" in world.status["reason"]


async def test_attempts_that_fail_alike_changed_the_status_twice_each(world: World) -> None:
    await world.settle()
    failed = outcome.serialise(Failure("StoreRefused", "access denied"))
    world.run_pod(message=failed, code=1)
    await world.settle()
    told = world.condition()
    world.clock.now += 20

    for progress in (None, Progress(0, 0, 0)):
        world.run_pod(name="p2")
        world.progress = progress
        await world.settle()
        assert world.condition() == told
    world.run_pod(name="p2", message=failed, code=1)
    await world.settle()
    assert world.condition() == told

    world.run_pod(name="p2")
    world.progress = Progress(10, 100, 5)
    await world.settle()
    assert world.condition()["reason"] == "Running"


async def test_a_pod_without_memory_was_reported_as_a_limit_of_attempts(world: World) -> None:
    """A killed container leaves no message, so nothing said which limit to raise."""
    await world.settle()
    world.run_pod(message="", code=137)
    pod = world.kube.live(PODS, "p1")
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    world.kube.put(PODS, pod)
    await world.settle()
    assert world.condition()["reason"] == "OutOfMemory"
    assert world.condition()["message"].endswith("it is retried")
    world.end_job("Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")
    await world.settle()

    assert world.status["succeeded"] is False
    assert world.status["reason"].startswith("spec.pod.resources: container backup needs more")


async def test_kubectl_took_the_failure_before_an_edit_for_the_end_of_the_run_after_it(
    world: World,
) -> None:
    """`kubectl wait --for=jsonpath={.status.succeeded}` ended at once, and a script read false. The
    edit was what the message had asked for, and the backup was then made."""
    await world.settle()
    world.run_pod(message=outcome.serialise(Failure("TimedOut", "set it higher")), code=3)
    world.end_job("Failed")
    await world.settle()
    assert world.status["succeeded"] is False
    world.declare(generation=2)
    await world.settle()

    assert world.condition()["reason"] == "Starting"
    assert {"succeeded", "reason", "Reason"}.isdisjoint(world.status)
    world.run_pod(name="p2", message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()
    assert world.status["succeeded"] is True


@pytest.mark.parametrize("edited", [False, True])
async def test_a_file_that_was_not_read_back_in_time_stayed_when_its_schedule_deleted_its_object(
    world: World, edited: bool
) -> None:
    """Its status named no file, so only the object was deleted. Each run of `verify: Hash` left
    another file."""
    left = "s3://mybucket/etcd.backup"
    await world.settle()
    world.run_pod(message=outcome.serialise(Failure("TimedOut", "late", left=left)), code=1)
    if edited:
        world.declare(generation=2)
    else:
        world.end_job("Failed")
    await world.settle()

    assert world.status["unproven"] == left


async def test_a_backup_that_has_failed_is_over_even_if_its_job_is_deleted(world: World) -> None:
    """Somebody may tidy up, and it must not begin again then."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.kube.remove(JOBS, "default", "b-backup-g1")

    assert await world.settle() is None
    assert world.jobs() == []


@pytest.mark.parametrize("seen", [True, False], ids=["", "the watch shows only the one before"])
async def test_a_job_out_of_time_counted_as_over_while_its_pod_still_stored(
    world: World, seen: bool
) -> None:
    """Kubernetes 1.30 reports a Job as failed while its pod still has time to stop. An edit then
    created a second pod, which wrote to the same place."""
    await world.settle()
    if not seen:
        failure = Failure("EtcdUnreachable", "nobody answers")
        world.run_pod(name="p0", message=outcome.serialise(failure), code=1)
        world.clock.now += 1
    world.kube.watching = seen
    world.run_pod()
    pod = world.kube.live(PODS, "p1")
    pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    world.kube.put(PODS, pod)
    world.kube.watching = True
    world.end_job("Failed", reason="DeadlineExceeded", message="Job was active too long")
    await world.settle()
    assert "succeeded" not in world.status
    world.declare(generation=2)
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]

    world.stop_pod()
    await world.settle()
    assert world.jobs() == ["b-backup-g2"]


async def test_a_failed_backup_runs_again_when_the_spec_is_corrected(world: World) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=2)
    await world.settle()

    assert world.jobs() == ["b-backup-g1", "b-backup-g2"]


async def test_a_failed_backup_does_not_run_again_when_its_schedule_deletes_it(
    world: World,
) -> None:
    """Before it is deleted, it is told to delete what it stored, which is an edit."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=2, deletionPolicy="Delete")
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["annotations"] = {naming.LET_GO: "retention"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]


async def test_two_jobs_wrote_to_one_path_after_two_edits_while_the_first_job_was_noted(
    world: World,
) -> None:
    """The note failed, and the Job was created all the same. After the edits nobody knew of it."""

    def edit(generation: int) -> None:
        world.declare(generation=generation, verify="Hash" if generation == 2 else None)
        if generation == 2:
            world.kube.before["apply EtcdBackup/status"] = lambda: edit(3)

    world.kube.before["apply EtcdBackup/status"] = lambda: edit(2)
    await world.settle()
    await world.settle()

    assert world.jobs() == ["b-backup-g3"]
    assert world.status["job"] == "b-backup-g3"


async def test_a_job_was_forgotten_that_ended_after_its_interval_was_set_back(world: World) -> None:
    """The run of the first interval had a Job already, and the status named that one instead. The
    next run began while the pod of the other was still writing."""
    for generation, interval in enumerate((60, 600, 60), 1):
        world.declare(generation, backupPolicy={"backupIntervalInSecond": interval})
        world.clock.now += interval
        for _ in range(3):
            await world.settle()
        if generation == 1:
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job()
        elif generation == 2:
            stopping, all_jobs = world.status["job"], world.jobs()
            world.run_pod(name="p2", of=stopping)
    for _ in range(3):
        world.clock.now += 61
        await world.settle()

    assert len(all_jobs) == 2
    assert "deletionTimestamp" in world.kube.live(JOBS, stopping)["metadata"]
    assert (world.status["job"], world.jobs()) == (stopping, all_jobs)


async def test_a_copy_of_a_backup_that_its_schedule_was_deleting_was_never_begun_nor_said_why(
    world: World,
) -> None:
    """While the store refused its deletion, the namespace was saved, and then restored from that.
    It counted as running, so its schedule missed every later run."""
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["annotations"] = {naming.LET_GO: "retention"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert world.condition()["reason"] == "Starting"


@pytest.mark.parametrize("how", ["by place", "by name"])
async def test_a_job_was_not_told_that_a_restore_is_about_to_read_what_it_would_replace(
    world: World, how: str
) -> None:
    """Retention knew, and a script that makes an EtcdBackup with the same path each hour did
    not."""
    spec: Json = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "before"}}
    if how == "by place":
        spec = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": SPEC["s3"]}
    metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
    world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
    before: Json = {"namespace": "default", "name": "before", "uid": "uid-o", "generation": 1}
    status = {"succeeded": True, "location": "s3://mybucket/etcd.backup"}
    world.kube.put(ETCD_BACKUPS, {"metadata": before, "spec": SPEC, "status": status})
    world.declare()
    await world.settle()

    pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
    told = order.parse(pod["containers"][0]["env"][0]["value"])
    assert told.spare == ("etcd.backup",)


async def test_a_finished_backup_is_not_repeated(world: World) -> None:
    await made(world)
    world.declare(generation=2, etcdEndpoints=["http://other:2379"])
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]


async def test_kubectl_waited_for_ever_for_a_backup_that_was_edited_once_it_was_stored(
    world: World,
) -> None:
    """`kubectl wait` looks at the generation that a condition is about."""
    await made(world)
    before = world.condition()
    world.declare(generation=2, deletionPolicy="Delete")
    await world.settle()

    told = world.condition()
    assert told["observedGeneration"] == world.status["observedGeneration"] == 2
    same = ("status", "reason", "lastTransitionTime")
    assert [told[key] for key in same] == [before[key] for key in same]


async def test_a_backup_seemed_to_have_been_made_again_after_an_edit(world: World) -> None:
    """Its path was edited before an upgrade, and `Complete` was true for the edited spec."""
    await made(world)
    before = world.condition()["message"]
    for generation, path in ((2, "mybucket/another"), (3, "mybucket/a-third")):
        world.declare(generation=generation, s3=SPEC["s3"] | {"path": path})
        await world.settle()

    told = world.condition()
    assert told["message"].startswith(f"{before}. The spec was edited after that, which makes no")
    assert told["message"].count("create another EtcdBackup") == 1
    assert (told["status"], told["observedGeneration"]) == ("True", 3)
    calls = world.kube.calls.copy()
    await world.settle()
    assert world.kube.calls == calls, "once said it costs nothing"


async def test_a_backup_that_its_schedule_edits_does_not_speak_of_an_edit(world: World) -> None:
    await made(world)
    before = world.condition()["message"]
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"] |= {"generation": 2, "labels": {naming.SCHEDULE: "s"}}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    told = world.condition()
    assert (told["message"], told["observedGeneration"]) == (before, 2)


async def test_kubectl_waited_for_the_next_run_of_an_interval_that_was_edited(world: World) -> None:
    policy = {"backupIntervalInSecond": 1000}
    world.declare(backupPolicy=policy)
    world.clock.now += 1000
    await made(world)
    world.declare(generation=2, backupPolicy=policy, deletionPolicy="Delete")
    await world.settle()

    assert world.condition()["observedGeneration"] == 2


@pytest.mark.parametrize("succeeded", [True, False])
async def test_a_condition_without_reason_and_message_stopped_all_passes(
    world: World, succeeded: bool
) -> None:
    """The schema demands neither, and anybody with the right to may edit the status."""
    await made(world)
    body = world.kube.live(ETCD_BACKUPS, "b")
    conditions = [{"type": "Complete", "status": "False"}, {"type": "Mine", "status": "True"}]
    told = {**body["status"], "succeeded": succeeded, "reason": "why", "conditions": conditions}
    world.kube.put(ETCD_BACKUPS, body | {"status": told})
    await world.settle()

    assert world.condition()["status"] == str(succeeded)
    assert world.condition()["message"]


async def test_a_job_that_failed_was_not_reported_beside_a_condition_without_reason(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    body = world.kube.live(ETCD_BACKUPS, "b")
    conditions = [{"type": "Complete", "status": "False"}]
    world.kube.put(ETCD_BACKUPS, body | {"status": {**body["status"], "conditions": conditions}})
    await world.settle()

    assert "BackoffLimitExceeded" in world.condition()["message"]


async def test_an_edit_of_the_spec_during_a_run_ends_the_first_job(world: World) -> None:
    """Two Jobs would write to one name at once."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2)
    await world.settle()
    world.stop_pod()
    await world.settle()

    assert world.jobs() == ["b-backup-g2"]


async def test_an_edit_of_the_spec_during_a_run_did_not_wait_for_the_pod(world: World) -> None:
    """The Job was gone at once, and its pod could write to that name for another half minute."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2)
    assert await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "b-backup-g1" in world.condition()["message"]


async def test_a_job_created_just_before_an_edit_wrote_beside_the_next_one(
    world: World,
) -> None:
    """The operator ended right after it had created the Job, or the edit came between two looks.
    The backup then had the file of one and the manifest of the other."""
    await world.backups.reconcile(KEY)
    assert world.jobs() == ["b-backup-g1"]
    world.run_pod()
    world.declare(generation=2)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "deletionTimestamp" in world.kube.live(JOBS, "b-backup-g1")["metadata"]
    world.stop_pod()
    await world.settle()
    assert world.jobs() == ["b-backup-g2"]


@pytest.mark.parametrize("edits", [1, 2])
@pytest.mark.parametrize("gone", [False, True])
async def test_two_jobs_wrote_at_once_after_the_status_was_emptied_and_the_spec_was_edited(
    world: World, edits: int, gone: bool
) -> None:
    """Only the status named the first. By then its pods still tell of it."""
    world.declare(deletionPolicy="Delete")
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=1 + edits, deletionPolicy="Delete")
    body = world.kube.live(ETCD_BACKUPS, "b") | {"status": {}}
    if gone:
        body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339()}
    body["metadata"]["finalizers"] = [deletion.FINALIZER]
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "b-backup-g1 has to end first" in world.condition()["message"]
    world.stop_pod()
    await world.settle()
    assert world.jobs() == [f"b-backup-{'delete-' if gone else ''}g{1 + edits}"]


async def test_jobs_that_are_over_are_not_read_again_after_the_status_was_emptied(
    world: World,
) -> None:
    """Nor does one that stores nothing hold up a run."""
    await made(world)
    world.declare(generation=2)
    world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
    await world.settle()

    assert world.jobs() == ["b-backup-g1", "b-backup-g2"]
    assert "unproven" not in world.status


@pytest.mark.parametrize("gone", [False, True])
async def test_a_wait_for_an_unreachable_node_was_not_reported(world: World, gone: bool) -> None:
    world.declare(deletionPolicy="Delete")
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2, deletionPolicy="Delete", etcdEndpoints=["http://d:2379"])
    body = world.kube.live(ETCD_BACKUPS, "b")
    if gone:
        body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339()}
    body["metadata"]["finalizers"] = [deletion.FINALIZER]
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()
    assert "--force" not in world.condition()["message"]
    pod = world.kube.live(PODS, "p1")
    pod["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
    world.kube.put(PODS, {**pod, "spec": {"nodeName": "n7"}})
    world.clock.now += 60
    assert await world.settle()

    words = world.condition()["message"]
    assert "pod p1 was deleted and node n7 has not confirmed that it stopped" in words
    assert words.endswith("kubectl delete pod p1 --namespace default --force")
    assert world.condition()["reason"] == ("Deleting" if gone else "Starting")


async def test_a_job_that_ends_before_the_watch_reports_its_pod_is_not_lost(world: World) -> None:
    """If its pod were taken for gone, a finished backup would be deleted and repeated."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.kube.watching = False
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    world.kube.watching = True
    await world.settle()

    assert world.status["succeeded"] is True
    assert world.kube.calls["delete Job"] == 0


async def test_a_job_whose_pod_is_gone_is_repeated(world: World) -> None:
    await world.settle()
    world.end_job()
    await world.backups.reconcile(KEY)
    assert world.jobs() == []
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "succeeded" not in world.status


async def test_a_job_of_another_owner_is_left_alone(world: World) -> None:
    metadata = {"namespace": "default", "name": "b-backup-g1"}
    world.kube.put(JOBS, {"metadata": metadata})

    assert await world.settle() == 10.0

    assert world.condition()["reason"] == "JobOfAnother"
    assert world.kube.calls["delete Job"] == 0


async def test_a_job_of_an_earlier_object_is_waited_for(world: World) -> None:
    """The object was deleted and created again within a second: the Job's result does not belong to
    it."""
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    world.kube.remove(ETCD_BACKUPS, "default", "b")
    world.declare(uid="uid-next")

    assert await world.settle() == 1.0
    assert "succeeded" not in world.status


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"s3": {"path": "mybucket/../x", "awsSecret": "aws"}}, "spec.s3.path"),
        ({"etcdEndpoints": None}, "spec.etcdEndpoints"),
    ],
)
async def test_a_bad_spec_is_reported_with_its_field_and_creates_nothing(
    world: World, changes: Json, words: str
) -> None:
    world.declare(**changes)

    assert await world.settle() is None

    assert world.condition("Accepted")["reason"] == "InvalidSpec"
    assert words in world.condition("Accepted")["message"]
    assert world.jobs() == []


async def test_a_write_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["create Job"] = [Rejected("exceeded quota", status=403)]

    assert await world.settle() == 30.0

    assert "exceeded quota" in world.condition()["message"]
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    world.kube.failures["create Job"] = [Rejected("exceeded quota", status=403)]
    calls = world.kube.calls["apply EtcdBackup/status"]
    await world.settle()
    assert world.kube.calls["apply EtcdBackup/status"] == calls, "nothing has changed"


async def test_the_report_that_a_job_could_not_be_created_forgot_which(world: World) -> None:
    """It may have been created. After an edit, nobody knew of it, and two Jobs wrote one file."""
    for _ in range(8):
        world.kube.failures["create Job"] = [Unavailable("down")]
        with pytest.raises(Unavailable):
            await world.backups.reconcile(KEY)

    assert "down" in world.condition()["message"]
    assert world.status["job"] == "b-backup-g1"


async def test_a_read_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["get Job"] = [Rejected('jobs "b" is forbidden', status=403)]

    assert await world.settle() == 30.0
    assert world.condition()["reason"] == "Refused"
    assert "forbidden" in world.condition()["message"]

    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


async def test_a_job_that_the_api_server_fails_to_create_is_reported(world: World) -> None:
    """A webhook was down, and the status said nothing for days."""
    await fail_until_reported(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Starting"


async def test_only_the_log_told_of_a_pass_that_ended_in_an_internal_error(world: World) -> None:
    await end_in_a_bug(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Starting"


async def outage(world: World) -> None:
    """A webhook is down while `deletionPolicy` is edited."""
    world.declare(generation=2, deletionPolicy="Delete")
    await fail_until_reported(world, "patch EtcdBackup")


async def test_a_stored_backup_was_reported_as_incomplete_forever_after_an_outage(
    world: World,
) -> None:
    await made(world)
    words = world.condition()["message"]
    await outage(world)
    await world.settle()

    told = world.condition()
    assert (told["status"], told["reason"], told["message"]) == ("True", "Stored", words)
    calls = world.kube.calls.copy()
    assert await world.settle() is None
    assert world.kube.calls == calls, "once said it costs nothing"


async def test_a_periodic_backup_was_reported_as_incomplete_until_the_next_run(
    world: World,
) -> None:
    world.declare(backupPolicy={"backupIntervalInSecond": 1000})
    world.clock.now += 1000
    await made(world)
    world.declare(generation=2, etcdEndpoints=None, backupPolicy={"backupIntervalInSecond": 1000})
    await world.settle()
    assert world.condition()["reason"] == "InvalidSpec"
    world.declare(generation=3, backupPolicy={"backupIntervalInSecond": 1000})
    assert await world.settle() is not None

    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "Stored")


async def test_the_reason_of_a_failed_backup_was_lost_after_an_outage(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=1, deletionPolicy="Delete")
    world.kube.failures["patch EtcdBackup"] = [Rejected("forbidden", status=403)]
    await world.settle()
    assert world.condition()["reason"] == "Refused"
    await world.settle()

    assert "BackoffLimitExceeded" in world.condition()["message"]


async def test_a_missing_claim_is_reported_before_any_job(world: World) -> None:
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.db"})

    assert await world.settle() == 10.0
    assert "spec.volume.claimName" in world.condition()["message"]
    assert world.jobs() == []

    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


BY_EITHER = pytest.mark.parametrize(
    "of",
    [{"etcdEndpoints": None, "clusterRef": {"name": "c"}},
     {"etcdEndpoints": ["https://c-client:2379"]}],
    ids=["by name", "by endpoints"],
)  # fmt: skip


WAITS: dict[str, Json] = {
    "ClusterNotFound": {"etcdEndpoints": None, "clusterRef": {"name": "c"}},
    "VolumeNotFound": {
        "storageType": "Volume", "s3": None, "volume": {"claimName": "v", "path": "etcd.db"}
    },
}  # fmt: skip


@pytest.mark.parametrize("waits", WAITS)
async def test_a_backup_of_a_cluster_or_to_a_volume_that_never_came_kept_scripts_waiting(
    world: World, waits: str
) -> None:
    """`kubectl wait` for `succeeded` never ended."""
    world.declare(**WAITS[waits])
    await world.settle()
    world.clock.now += DAY - 60
    assert await world.settle() == 10.0
    assert "succeeded" not in world.status

    world.clock.now += 60
    assert await world.settle() is None
    assert world.status["succeeded"] is False
    assert "has not changed for a day, so this EtcdBackup is given up" in world.status["reason"]
    assert world.condition()["reason"] == waits
    assert any(one[0] == EVENTS for one in world.kube.objects)
    before = world.status
    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    assert await world.settle() is None
    assert (world.status, world.jobs()) == (before, [])

    world.declare(generation=2, **WAITS[waits])
    if waits == "VolumeNotFound":
        await world.settle()
        assert world.jobs() == ["b-backup-g2"], "an edit is another try"
    else:
        assert await world.settle() == 10.0, "an edit begins another day"


async def test_a_backup_that_waited_while_a_clock_was_ahead_waited_until_that_time(
    world: World,
) -> None:
    """For a year, and a day."""
    world.clock.now += 365 * DAY
    world.declare(**WAITS["ClusterNotFound"])
    await world.settle()
    world.clock.now -= 365 * DAY
    assert await world.settle() is None

    assert world.status["succeeded"] is False


async def test_the_day_of_a_backup_begins_with_what_it_waits_for(world: World) -> None:
    """Not with a failure of long ago, after which the spec was edited."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.clock.now += 9 * DAY
    world.declare(generation=2, **WAITS["ClusterNotFound"])

    for _ in range(3):
        assert await world.settle() == 10.0
    assert world.condition()["reason"] == "ClusterNotFound"
    assert "given up" not in world.condition()["message"]


@pytest.mark.parametrize("waits", WAITS)
async def test_a_backup_at_an_interval_is_never_given_up(world: World, waits: str) -> None:
    """No other run waits for it, and it is made as soon as it can be."""
    world.declare(**WAITS[waits], backupPolicy={"backupIntervalInSecond": 100})
    for _ in range(3):
        world.clock.now += DAY
        assert await world.settle() == 10.0

    assert world.condition()["reason"] == waits
    assert "succeeded" not in world.status


async def test_one_run_without_its_cluster_kept_all_further_runs_of_a_schedule_from_beginning(
    world: World,
) -> None:
    """They are missed while it runs. So it ends after an hour, as one does whose pod never
    starts."""
    world.declare(**WAITS["ClusterNotFound"])
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["labels"] = {naming.SCHEDULE: "nightly"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()
    world.clock.now += HOUR
    assert await world.settle() is None

    assert world.status["succeeded"] is False
    assert "has not changed for an hour" in world.status["reason"]


async def test_a_backup_overwrote_the_files_of_a_member_on_its_volume(world: World) -> None:
    """Anybody who may create EtcdBackups could name a member's claim, and its `etcd.yaml` as the
    path."""
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.yaml"})
    metadata = {"namespace": "default", "name": "v", "annotations": {naming.CLUSTER_UID: "uid-c"}}
    world.kube.put(CLAIMS, {"metadata": metadata})

    assert await world.settle() == 10.0
    assert world.jobs() == []
    assert world.condition()["reason"] == "VolumeOfCluster"
    assert "spec.volume.claimName" in world.condition()["message"]


async def test_a_finished_backup_in_a_volume_needs_no_request(world: World) -> None:
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.db"})
    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    await made(world)
    calls = world.kube.calls.copy()
    await world.settle()

    assert world.kube.calls == calls


async def test_a_pod_that_cannot_start_is_reported(world: World) -> None:
    await world.settle()
    world.clock.now += 6
    await world.settle()

    assert world.condition()["reason"] == "PodWaits"
    assert "Events of the Job" in world.condition()["message"]


async def test_a_pod_that_never_started_is_still_reported_after_its_deadline(
    world: World,
) -> None:
    """Kubernetes deletes the pod then, and the Job's condition only mentions the time."""
    await world.settle()
    world.clock.now += 6
    await world.settle()
    world.end_job("Failed", reason="DeadlineExceeded", message="Job was active too long")
    await world.settle()

    assert world.status["reason"] == (
        "DeadlineExceeded: Job was active too long; the pod of Job b-backup-g1: its pod has "
        "not been created; the Events of the Job say why"
    )


class TestByTheNameOfACluster:
    async def test_a_missing_cluster_is_reported(self, world: World) -> None:
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})

        assert await world.settle() == 10.0

        assert world.condition()["reason"] == "ClusterNotFound"
        assert "'c'" in world.condition()["message"]

    async def test_members_and_cluster_id_are_passed_to_the_job(self, world: World) -> None:
        cluster = cluster_body(3)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        members = {"ready": ["c-0", "c-3"], "unready": ["c-1"]}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": members}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        hosts = [f"https://c-{n}.c.default.svc:2379" for n in (0, 1, 3)]
        assert list(told.endpoints) == hosts
        assert told.cluster_id == 0xAB
        assert told.endpoints_field == "spec.clusterRef.name"

    @pytest.mark.parametrize(
        ("tls", "secret"),
        [
            (None, "c-operator-tls"),
            ({"client": "Managed"}, "c-operator-tls"),
            ({"static": {"member": {"serverSecret": "s"}, "operatorSecret": "mine"}}, "mine"),
        ],
        ids=["by default", "managed", "static"],
    )
    async def test_members_with_tls_are_connected_to_with_the_operators_certificate(
        self, world: World, tls: dict[str, Any] | None, secret: str
    ) -> None:
        cluster = cluster_body(3, TLS=tls)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": {"ready": ["c-0"]}}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert list(told.endpoints) == ["https://c-0.c.default.svc:2379"]
        assert (told.client_secret, told.client_secret_field) == (secret, "spec.clusterRef.name")
        mounted = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"]}
        assert mounted["client"] == secret

    async def test_while_tls_is_turned_on_each_member_has_the_scheme_of_its_pod(
        self, world: World
    ) -> None:
        cluster = cluster_body(3, TLS={"client": "Managed", "allowPlaintextClients": True})
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        live = stateful_set(parse_cluster(cluster), replicas=3, operator_image="operator:1")
        off = cluster | {"spec": cluster["spec"] | {"TLS": PLAINTEXT}}
        before = stateful_set(parse_cluster(off), replicas=3, operator_image="operator:1")
        cluster["status"] = FORMED
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.kube.put(STATEFUL_SETS, live)
        for ordinal, made_by in enumerate((before, live, live)):
            metadata = live["metadata"] | {"name": f"c-{ordinal}"}
            pod = {"metadata": metadata, "spec": made_by["spec"]["template"]["spec"]}
            world.kube.put(PODS, pod)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        hosts = [f"c-{n}.c.default.svc:2379" for n in range(3)]
        assert list(told.endpoints) == [
            f"http://{hosts[0]}",
            f"https://{hosts[1]}",
            f"https://{hosts[2]}",
        ]
        assert told.client_secret == "c-operator-tls"

    @pytest.mark.parametrize("edit", [{}, {"version": "3.4.0"}], ids=["", "refused edit"])
    async def test_a_cluster_created_without_tls_is_connected_to_without_tls(
        self, world: World, edit: Json
    ) -> None:
        """Its spec has no TLS field, and since then TLS has become the default. While an edit is
        refused, the record beside the backup left that out."""
        cluster = cluster_body(3, TLS=PLAINTEXT)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        live = stateful_set(parse_cluster(cluster), replicas=3, operator_image="operator:1")
        del cluster["spec"]["TLS"]
        cluster["spec"] |= edit
        cluster["status"] = FORMED | {"members": {"ready": ["c-0", "c-1", "c-2"]}}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.kube.put(STATEFUL_SETS, live)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert list(told.endpoints) == [f"http://c-{n}.c.default.svc:2379" for n in range(3)]
        assert not told.client_secret
        assert told.cluster["spec"]["TLS"] == PLAINTEXT, "made again, its clients find it as it was"


@BY_EITHER
async def test_an_edit_that_is_refused_stopped_the_backups_of_a_cluster_that_serves(
    world: World, of: Json
) -> None:
    """Those of a schedule failed with `ClusterNotFound`; by its endpoints, a cluster with TLS was
    asked without a certificate."""
    cluster = cluster_body(3)
    cluster["metadata"] |= {"namespace": "default", "name": "c"}
    cluster["status"] = FORMED | {"members": {"ready": ["c-0", "c-1", "c-2"]}}
    parsed = parse_cluster(cluster)
    world.kube.put(STATEFUL_SETS, stateful_set(parsed, replicas=3, operator_image="operator:1"))
    world.kube.put(SERVICES, client_service(parsed))
    cluster["spec"]["version"] = "3.4.0"
    world.kube.put(ETCD_CLUSTERS, cluster)
    world.declare(**of)
    await world.settle()

    pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
    told = order.parse(pod["containers"][0]["env"][0]["value"])
    assert list(told.endpoints) == [f"https://c-{n}.c.default.svc:2379" for n in range(3)]
    assert told.client_secret == "c-operator-tls"
    assert told.cluster_id == 0xAB


@BY_EITHER
@pytest.mark.parametrize("told", ["status", "Service"])
async def test_a_backup_that_was_applied_together_with_its_cluster_failed_for_good(
    world: World, of: Json, told: str
) -> None:
    """Its four attempts were over before nodes had pulled etcd's image."""
    cluster = cluster_body(3)
    cluster["metadata"] |= {"namespace": "default", "name": "c"}
    world.kube.put(ETCD_CLUSTERS, cluster)
    world.declare(**of)

    assert await world.settle() == 10.0
    assert world.jobs() == []
    assert world.condition()["reason"] == "ClusterNotFormed"
    assert "status.plan" in world.condition()["message"]

    if told == "status":
        world.kube.put(ETCD_CLUSTERS, cluster | {"status": FORMED})
    else:  # as where its status cannot be written
        world.kube.put(SERVICES, client_service(parse_cluster(cluster)))
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


class TestByTheEndpointsOfACluster:
    """The manifest of the coreos operator asked for a Secret that it does not name, and behind the
    Service no follower could be chosen."""

    def cluster(self, world: World, uid: str = "", **spec: Any) -> None:
        cluster = cluster_body(3, **spec)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        members = {"ready": ["c-0", "c-1"], "unready": ["c-2"]}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": members}
        world.kube.put(ETCD_CLUSTERS, cluster)
        owner = cluster if not uid else cluster | {"metadata": cluster["metadata"] | {"uid": uid}}
        for service in (client_service, headless_service):
            world.kube.put(SERVICES, service(parse_cluster(owner)))

    async def told(self, world: World, *endpoints: str, **changes: Any) -> order.Order:
        world.declare(etcdEndpoints=list(endpoints), **changes)
        await world.settle()
        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        return order.parse(pod["containers"][0]["env"][0]["value"])

    @pytest.mark.parametrize(
        ("endpoints", "members"),
        [
            (["https://c-client:2379"], (0, 1, 2)),
            (["https://c-client"], (0, 1, 2)),
            (["https://c-client.default.svc.cluster.local:2379"], (0, 1, 2)),
            (["https://c.default.svc:2379", "https://c-1.c.default.svc:2379"], (0, 1, 2)),
            (["https://c-1.c.default.svc:2379", "https://c-0.c:2379"], (0, 1)),
        ],
    )
    async def test_the_operators_certificate_is_shown_to_the_members(
        self, world: World, endpoints: list[str], members: tuple[int, ...]
    ) -> None:
        self.cluster(world)
        found = await self.told(world, *endpoints)

        hosts = tuple(f"https://c-{n}.c.default.svc:2379" for n in members)
        assert (found.endpoints, found.cluster_id) == (hosts, 0xAB)
        assert found.client_secret == "c-operator-tls"
        assert found.endpoints_field == found.client_secret_field == "spec.etcdEndpoints"
        job = world.kube.live(JOBS, "b-backup-g1")
        assert job["metadata"]["labels"][naming.LABEL_INSTANCE] == "c"

    @pytest.mark.parametrize("endpoint", ["http://c-client:2379", "c-client:2379"])
    async def test_without_tls_the_members_are_asked_too(self, world: World, endpoint: str) -> None:
        self.cluster(world, TLS=PLAINTEXT)
        found = await self.told(world, endpoint)

        assert found.endpoints == tuple(f"http://c-{n}.c.default.svc:2379" for n in range(3))
        assert (found.client_secret, found.cluster_id) == ("", 0xAB)

    @pytest.mark.parametrize(
        "endpoints",
        [
            ["http://c-client:2379"],
            ["c-client:2379"],
            ["https://c-client:2379", "http://c-0.c.default.svc:2379"],
            ["https://c-client:2380"],
            ["https://c-client:2379", "https://etcd.example.com:2379"],
            ["https://c-client.default.example.com:2379"],
            ["https://c-client.default.svc.example.com:2379"],
            ["https://c-client.other.svc:2379"],
            ["https://c-7.c.default.svc:2379"],
            ["https://c-00.c.default.svc:2379"],
            ["https://d-client:2379"],
        ],
    )
    async def test_what_is_not_known_to_be_of_the_cluster_is_left_as_it_is(
        self, world: World, endpoints: list[str]
    ) -> None:
        self.cluster(world)
        found = await self.told(world, *endpoints)

        assert found.endpoints == tuple(endpoints)
        assert (found.client_secret, found.cluster_id) == ("", 0)

    async def test_a_certificate_of_the_users_own_is_left_as_it_is(self, world: World) -> None:
        self.cluster(world)
        found = await self.told(world, "https://c-client:2379", clientTLSSecret="mine")

        assert found.endpoints == ("https://c-client:2379",)
        assert (found.client_secret, found.client_secret_field) == ("mine", "spec.clientTLSSecret")

    async def test_an_etcd_whose_services_have_taken_the_names_is_backed_up(
        self, world: World
    ) -> None:
        """A new cluster of its name cannot begin beside it, and has nothing to back up."""
        self.cluster(world, uid="of another")
        found = await self.told(world, "https://c-client:2379")

        assert (found.endpoints, found.client_secret) == (("https://c-client:2379",), "")


class TestAPrivateRegistry:
    """The README only named the cluster's own credentials, and no backup's pod could pull its
    image."""

    def cluster(self, world: World) -> None:
        spec = {"size": 1, "pod": {"imagePullSecrets": [{"name": "mirror"}, {"name": "both"}]}}
        metadata = {"namespace": "default", "name": "c"}
        body = {"metadata": metadata, "spec": spec, "status": FORMED}
        world.kube.put(ETCD_CLUSTERS, body)

    def pulled(self, world: World, job: str) -> list[str]:
        pod = world.kube.live(JOBS, job)["spec"]["template"]["spec"]
        return [one["name"] for one in pod.get("imagePullSecrets", ())]

    @BY_EITHER
    async def test_the_pod_of_a_backup_also_has_the_credentials_of_the_cluster(
        self, world: World, of: Json
    ) -> None:
        self.cluster(world)
        world.declare(**of, pod={"imagePullSecrets": [{"name": "own"}, {"name": "both"}]})
        await world.settle()

        assert self.pulled(world, "b-backup-g1") == ["own", "both", "mirror"]

    async def test_the_pod_that_deletes_stored_files_has_them_too(self, world: World) -> None:
        self.cluster(world)
        world.declare(clusterRef={"name": "c"}, etcdEndpoints=None, deletionPolicy="Delete")
        await made(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        body["metadata"]["generation"] += 1
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert self.pulled(world, "b-backup-delete-g2") == ["mirror", "both"]

    async def test_without_the_cluster_the_pod_has_only_its_own_credentials(
        self, world: World
    ) -> None:
        world.declare(pod={"imagePullSecrets": [{"name": "own"}]})
        await world.settle()

        assert self.pulled(world, "b-backup-g1") == ["own"]


class TestAtAnInterval:
    async def start(self) -> World:
        world = World()
        world.declare(backupPolicy={"backupIntervalInSecond": 3600, "maxBackups": 2})
        return world

    async def run(self, world: World, failure: Failure | None = None) -> None:
        world.clock.now += 3600
        await world.settle()
        told = outcome.serialise(failure or STORED)
        world.run_pod(name=world.jobs()[-1], message=told, code=3 if failure else 0)
        world.end_job("Failed" if failure else "Complete")
        await world.settle()

    async def test_the_first_backup_comes_after_one_interval(self) -> None:
        world = await self.start()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        assert world.jobs() == []
        assert world.condition()["reason"] == "Scheduled"
        world.clock.now += 3600 - 100
        assert await world.settle() == pytest.approx(100)
        world.clock.now += 100
        await world.settle()
        assert len(world.jobs()) == 1

    async def test_helm_and_flux_waited_for_the_first_interval_to_pass(self) -> None:
        world = await self.start()
        await world.settle()

        assert world.condition()["status"] == "Unknown"
        ready = {**world.condition(), "type": "Ready", "status": "True"}
        assert world.condition("Ready") == ready

    async def test_an_interval_whose_spec_is_refused_had_no_metric_once_the_operator_had_restarted(
        self,
    ) -> None:
        """A newer operator may refuse what an older one took. Then an alert by age is the only one
        that there is."""
        world = await self.start()
        await self.run(world)
        before = world.measured()
        policy = {"backupIntervalInSecond": 3600}
        world.declare(generation=2, backupPolicy=policy, storageType="Tape")
        world.backups._metrics = world.metrics = Metrics()
        await world.settle()

        assert world.condition("Accepted")["reason"] == "InvalidSpec"
        assert world.measured() == before != (None, None)

    async def test_a_deleted_interval_whose_spec_was_refused_kept_its_metrics(self) -> None:
        """While another tool's finalizer holds it, an alert by age would tell of missing backups
        that nobody expects any more."""
        world = await self.start()
        await self.run(world)
        policy = {"backupIntervalInSecond": 3600}
        world.declare(generation=2, backupPolicy=policy, storageType="Tape")
        await world.settle()
        assert world.measured() != (None, None)
        held = world.kube.live(ETCD_BACKUPS, "b")
        marks = {"deletionTimestamp": world.clock.rfc3339(), "finalizers": ["a-tool/archive"]}
        world.kube.put(ETCD_BACKUPS, {**held, "metadata": held["metadata"] | marks})
        await world.settle()

        assert world.measured() == (None, None)

    @pytest.mark.parametrize("ends", ["deleted", "edited to a single one"])
    async def test_no_metric_said_that_backups_at_an_interval_failed(self, ends: str) -> None:
        """There were metrics of schedules only."""
        world = await self.start()
        await world.settle()
        assert world.measured() == (None, None)
        await self.run(world)
        succeeded = world.clock.now
        assert world.measured() == (1, pytest.approx(succeeded, abs=1))
        await self.run(world, Failure("StoreRefused", "no", final=True))
        assert world.measured() == (0, pytest.approx(succeeded, abs=1))

        if ends == "deleted":
            world.kube.remove(ETCD_BACKUPS, "default", "b")
        else:
            world.declare(generation=2)
        await world.settle()
        assert world.measured() == (None, None)

    async def test_the_next_backup_comes_one_interval_after_the_start_of_this_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        began = world.clock.now
        world.clock.now += 100
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        after = await world.settle()

        assert after == pytest.approx(LONGEST_WAIT)
        assert world.status["succeeded"] is True
        world.clock.now = began + 3600
        await world.settle()
        assert len(world.jobs()) == 2

    async def test_the_next_backup_knows_which_one_was_verified_last(self) -> None:
        """It deletes old backups before it is verified itself."""
        world = await self.start()
        for number in range(2):
            world.clock.now += 3600
            await world.settle()
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job(kind="Complete" if number == 0 else "Failed")
            await world.settle()
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == ("etcd.backup",)

    async def test_the_backup_that_a_restore_was_to_read_was_deleted_as_the_oldest(self) -> None:
        """It was from before the damage, which each hour's backup had by then."""
        world = await self.start()
        source = {"path": "mybucket/etcd.backup_v7_2026-01-01-00:00:00", "awsSecret": "aws"}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        spec = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": source}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == ("etcd.backup_v7_2026-01-01-00:00:00",)

    @pytest.mark.parametrize("in_place", [False, True])
    async def test_what_a_restore_had_looked_up_was_deleted_after_some_more_backups(
        self, in_place: bool
    ) -> None:
        """It names the EtcdBackup, which has stored others since. The restore said that its file is
        not there, and went on looking for that one."""
        world = await self.start()
        read = Place("S3", "mybucket", "etcd.backup_v7_2026-01-01-00:00:00", "aws")
        cluster = replace(parse_cluster(cluster_body()), namespace="default")
        first = records.first_attempt(cluster.uid, {"c-0": "https://c-0:2380"}, "3.7.3")
        new = records.restoring(first, size=3, chosen=Chosen("b", read))
        taking = successor(
            cluster_uid=cluster.uid,
            restore="uid-r",
            epoch=2,
            first=("c-3", "https://c-3:2380"),
            bump=1,
            store=read,
            backup="b",
        )
        record = replace(records.latch(first), successor=taking) if in_place else new
        world.kube.put(SECRETS, secret_with(cluster, record))
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == (read.key,)

    async def test_many_missed_runs_are_replaced_by_one(self) -> None:
        """After the operator was away for a day, twenty-four backups at once would not help."""
        world = await self.start()
        world.clock.now += 24 * 3600
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        assert len(world.jobs()) == 1

    @pytest.mark.parametrize("ahead", [600, 86400, -3600, -86400])
    async def test_a_clock_of_the_api_server_that_was_wrong_made_backups_without_a_pause(
        self, ahead: int
    ) -> None:
        """By its time of the Job's creation the next one was due at once, and `maxBackups` deleted
        all that were older than some minutes."""
        world = await self.start()
        world.kube.clock = Skewed(world.clock, ahead)
        world.kube.live(ETCD_BACKUPS, "b")["metadata"]["creationTimestamp"] = (
            world.kube.clock.rfc3339()
        )
        began, count = world.clock.now, 0
        while world.clock.now - began < 12 * 3600 and count < 100:
            count += 1
            while not (jobs := world.jobs()):
                world.clock.now += await world.settle() or 0.0
            world.clock.now += 5
            await world.settle()
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job()
            await world.settle()
            world.kube.remove(JOBS, "default", jobs[0])

        assert 11 <= count <= 14

    async def test_after_a_clock_that_was_ahead_a_run_was_taken_for_the_next_one_too(self) -> None:
        """Set back, the clock said the second from which that run had been due. So the next one had
        the same time and the same Job, which was over, and no pass followed."""
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.clock.now -= 3600
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        world.clock.now += 3601
        await world.settle()
        assert len(world.jobs()) == 2

    @pytest.mark.parametrize("ahead", [7200, 365 * 86400])
    async def test_a_clock_that_was_ahead_at_one_backup_put_off_all_later_ones(
        self, ahead: int
    ) -> None:
        """For a year no backup was taken, and the status kept reporting the last one."""
        world = await self.start()
        world.clock.now += 3600
        world.clock.now += ahead
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()
        world.clock.now -= ahead
        world.clock.now += 60
        await world.settle()
        assert len(world.jobs()) == 2
        world.run_pod(name="p2", message=outcome.serialise(STORED))
        world.end_job()
        assert await world.settle() == pytest.approx(LONGEST_WAIT)

        world.clock.now += 3590
        await world.settle()
        assert len(world.jobs()) == 2
        world.clock.now += 10
        await world.settle()
        assert len(world.jobs()) == 3

    async def test_a_timer_that_stops_while_the_machine_sleeps_is_late_by_minutes_only(
        self,
    ) -> None:
        """Timers use a clock that stops during sleep, and intervals may be days long."""
        world = World()
        world.declare(backupPolicy={"backupIntervalInSecond": 7 * 24 * 3600})

        assert await world.settle() == pytest.approx(LONGEST_WAIT)

    async def test_before_the_next_backup_is_due_no_request_is_sent(self) -> None:
        world = await self.start()
        await world.settle()
        world.kube.calls.clear()
        world.clock.now += LONGEST_WAIT
        await world.settle()
        assert not world.kube.calls

        world.clock.now += 3600
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()
        world.kube.calls.clear()
        world.clock.now += LONGEST_WAIT
        await world.settle()
        assert not world.kube.calls

    async def test_a_long_backup_is_not_overtaken_by_the_next(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.run_pod()
        world.clock.now += 3 * 3600
        await world.settle()

        assert len(world.jobs()) == 1

    async def test_a_failed_backup_is_not_the_last_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.end_job("Failed", reason="BackoffLimitExceeded")
        await world.settle()
        assert world.status["succeeded"] is False
        world.clock.now += 3600
        await world.settle()

        assert len(world.jobs()) == 2

    async def test_an_operator_that_dies_after_creating_the_job_creates_no_second_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        # The Job is created, and the operator dies before that is recorded.
        assert await world.backups.reconcile(KEY) == 0.0
        world.clock.now += 30
        await world.settle()

        assert len(world.jobs()) == 1
        assert world.kube.calls["create Job"] == 1

    async def test_waiting_for_a_job_needs_no_request(self) -> None:
        world = await self.start()
        await world.settle()
        calls = world.kube.calls.copy()
        await world.settle()

        assert world.kube.calls["patch EtcdBackup/status"] == calls["patch EtcdBackup/status"]


async def test_only_a_backup_that_was_restored_is_reported_as_verified(world: World) -> None:
    await made(world)
    assert "verified" not in world.status

    world = World()
    world.declare(verify="Hash")
    await world.settle()
    world.run_pod(message=outcome.serialise(replace(STORED, verified=True)))
    world.end_job()
    await world.settle()
    assert world.status["verified"] == "Hash"
    assert world.status["verifiedDate"] == world.clock.rfc3339()


class TestWithTheObject:
    """deletionPolicy."""

    async def gone(self, world: World) -> None:
        """Does what `kubectl delete` does first: to the API server it is an edit."""
        body = world.kube.live(ETCD_BACKUPS, "b")
        assert body["metadata"]["finalizers"]
        body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        body["metadata"]["generation"] += 1
        world.kube.put(ETCD_BACKUPS, body)

    def finalizers(self, world: World) -> list[str]:
        return world.kube.live(ETCD_BACKUPS, "b")["metadata"].get("finalizers") or []

    async def test_by_default_nothing_delays_the_deletion(self, world: World) -> None:
        await made(world)

        assert not self.finalizers(world)

    async def test_the_finalizer_is_set_before_anything_is_stored(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        assert await world.backups.reconcile(KEY) == 0.0

        assert self.finalizers(world) == ["etcd.database.coreos.com/stored-backup"]
        assert world.jobs() == []

    async def test_stored_files_are_deleted_before_the_object(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()

        assert world.jobs() == ["b-backup-delete-g2", "b-backup-g1"]
        job = world.kube.live(JOBS, "b-backup-delete-g2")
        told = job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
        assert order.parse(told).action == "delete"
        assert order.parse(told).owner_uid == "uid-b"
        assert self.finalizers(world)
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        world.kube.put(JOBS, job)
        await world.settle()
        assert not self.finalizers(world)

    async def test_a_running_backup_is_ended_first(self, world: World) -> None:
        """Otherwise it would store again what was just deleted."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.run_pod()
        await world.settle()
        await self.gone(world)
        await world.settle()
        world.stop_pod()
        await world.settle()

        assert world.jobs() == ["b-backup-delete-g2"]

    async def test_a_backup_that_was_being_stopped_stored_its_file_after_its_deletion(
        self, world: World
    ) -> None:
        """Its Job was gone at once, and its pod had another half minute to finish."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.run_pod()
        await world.settle()
        await self.gone(world)
        assert await world.settle()

        assert world.jobs() == ["b-backup-g1"]
        assert world.condition()["reason"] == "Deleting"
        assert "b-backup-g1" in world.condition()["message"]

    async def test_a_backup_without_a_status_stored_its_file_after_its_deletion(
        self, world: World
    ) -> None:
        """The Job was created, but its name was not recorded yet, or somebody had emptied the
        status."""
        world.declare(deletionPolicy="Delete")
        await world.backups.reconcile(KEY)
        await world.backups.reconcile(KEY)
        world.run_pod()
        world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
        await self.gone(world)
        await world.settle()

        assert world.jobs() == ["b-backup-g1"]
        world.stop_pod()
        await world.settle()
        assert world.jobs() == ["b-backup-delete-g2"]

    @pytest.mark.parametrize(
        ("changes", "also"),
        [
            ({}, ()),
            ({"s3": {"path": "mybucket/new", "awsSecret": "aws"}}, (STORED.location,)),
            ({"s3": {"path": "other/etcd.backup", "awsSecret": "aws"}}, (STORED.location,)),
        ],
    )
    async def test_after_an_edit_of_the_path_only_the_new_path_was_searched(
        self, world: World, changes: Json, also: tuple[str, ...]
    ) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        world.kube.put(ETCD_BACKUPS, body | {"spec": body["spec"] | changes})
        await self.gone(world)
        await world.settle()

        job = world.kube.live(JOBS, "b-backup-delete-g2")
        told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
        assert told.also == also

    async def test_files_of_a_periodic_backup_are_found_by_their_path(self, world: World) -> None:
        policy = {"backupIntervalInSecond": 60}
        world.declare(deletionPolicy="Delete", backupPolicy=policy)
        body = parse_backup(world.kube.live(ETCD_BACKUPS, "b"))
        at = f"{STORED.location}_v7_2026-01-01-00:00:00"

        assert deletion.other_locations(body, {"location": at}) == ()
        old = at.replace("etcd.backup", "old")
        assert deletion.other_locations(body, {"location": old, "unproven": at}) == (old,)

    async def test_a_failed_deletion_is_reported_and_retain_gives_up(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()
        self.fail(world)
        await world.settle()

        assert world.condition()["reason"] == "DeletionFailed"
        assert "Retain" in world.condition()["message"]
        [event] = [
            one
            for (kind, *_), one in world.kube.objects.items()
            if kind == EVENTS and one["reason"] == "DeletionFailed"
        ]
        assert event["type"] == "Warning"
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Retain"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()
        assert not self.finalizers(world)

    def fail(self, world: World, name: str = "b-backup-delete-g2") -> str:
        """Lets the Job fail, and returns its UID."""
        job = world.kube.live(JOBS, name)
        job["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "Limit"}]}
        world.kube.put(JOBS, job)
        return str(job["metadata"]["uid"])

    async def failed(self, world: World) -> str:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()
        uid = self.fail(world)
        await world.settle()
        return uid

    @pytest.mark.parametrize("ahead", [0, 86400, -86400])
    async def test_a_failed_deletion_is_retried(self, world: World, ahead: int) -> None:
        """Correcting the credentials in the Secret had no effect, and the object stayed for
        good. If the clock of the API server was wrong, it was retried a day later, or at once and
        without ever saying why it failed."""
        world.kube.clock = Skewed(world.clock, ahead)
        uid = await self.failed(world)
        world.clock.now += AGAIN_SECONDS - 60
        await world.settle()
        assert world.kube.live(JOBS, "b-backup-delete-g2")["metadata"]["uid"] == uid
        assert world.condition()["reason"] == "DeletionFailed"
        world.clock.now += 60
        await world.settle()

        job = world.kube.live(JOBS, "b-backup-delete-g2")
        assert job["metadata"]["uid"] != uid
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        world.kube.put(JOBS, job)
        await world.settle()
        assert not self.finalizers(world)

    async def test_a_deletion_that_failed_while_a_clock_was_ahead_is_retried(
        self, world: World
    ) -> None:
        world.clock.now += 365 * 86400
        uid = await self.failed(world)
        world.clock.now -= 365 * 86400
        await world.settle()

        assert world.kube.live(JOBS, "b-backup-delete-g2")["metadata"]["uid"] != uid

    async def test_an_edit_retries_a_failed_deletion_at_once(self, world: World) -> None:
        await self.failed(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["s3"]["awsSecret"] = "mended"
        body["metadata"]["generation"] = 3
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert "b-backup-delete-g3" in world.jobs()
        assert world.condition()["reason"] == "Deleting"

    async def test_another_owners_job_does_not_count_as_the_deletion(self, world: World) -> None:
        """When it ended, the object was let go and nothing had been deleted."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        metadata = {"namespace": "default", "name": "b-backup-delete-g2"}
        world.kube.put(JOBS, {"metadata": metadata, "status": done})
        await world.settle()

        assert self.finalizers(world)
        assert world.condition()["reason"] == "JobOfAnother"
        assert world.kube.calls["delete Job"] == 0

    async def test_a_namespace_that_is_being_deleted_is_not_delayed(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        words = "forbidden: unable to create: namespace default is being terminated"
        world.kube.failures["create Job"] = [Rejected(words, status=403)]
        await world.backups.reconcile(KEY)

        assert not self.finalizers(world)

    async def test_if_the_role_is_deleted_first_the_remedy_is_logged_once(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As when the namespace of both is deleted: not even the status can be written."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        for call in ("get Job", "patch EtcdBackup", "apply EtcdBackup/status"):
            world.kube.failures[call] = [Rejected("forbidden", status=403)] * 99
        caplog.clear()
        for _ in range(5):
            assert await world.backups.reconcile(KEY) == REJECTED_SECONDS
        said = [one.getMessage() for one in caplog.records]
        assert len(said) == 1
        assert "kubectl patch etcdbackup b --namespace default" in said[0]
        assert self.finalizers(world)

        world.kube.failures.clear()
        await world.settle()
        assert "b-backup-delete-g2" in world.jobs()

    async def test_an_invalid_spec_does_not_delay_the_deletion(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["storageType"] = "FTP"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert not self.finalizers(world)

    async def test_an_object_that_is_gone_was_patched_without_a_pause_until_the_watch_said_so(
        self, world: World
    ) -> None:
        """If the watch was broken, for minutes."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        world.declare(generation=2, deletionPolicy="Retain")
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"] |= {"finalizers": [deletion.FINALIZER]}
        world.kube.put(ETCD_BACKUPS, body)
        await self.gone(world)
        world.kube.failures["patch EtcdBackup"] = [Rejected("it is gone", status=404)]

        assert await world.backups.reconcile(KEY) == 1.0

    async def test_another_finalizer_is_left_alone(self, world: World) -> None:
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"]["finalizers"] = ["other/one"]
        world.kube.put(ETCD_BACKUPS, body)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Delete"
        world.kube.put(ETCD_BACKUPS, body)
        await world.backups.reconcile(KEY)
        await self.gone(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Retain"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert self.finalizers(world) == ["other/one"]


async def test_the_end_of_a_backup_is_an_event(world: World) -> None:
    await made(world)

    assert any(kind == EVENTS for kind, *_ in world.kube.objects)


@pytest.mark.parametrize("name", ["b", "b" * 42, "b" * 43, "b" * 253, "a.b", "a-" * 30 + "a"])
def test_the_name_of_a_job_is_valid_whatever_the_name_of_the_backup(name: str) -> None:
    found = naming.backup_job(name, "1700003600")

    assert len(found) <= 63
    assert "." not in found
    assert naming.backup_job(name + "x", "1700003600") != found
    assert naming.backup_job("a-b", "g1") != naming.backup_job("a.b", "g1")


class TestAppliedAgain:
    """An object that was saved with what the operator had written into it, and applied again."""

    def order(self, world: World) -> order.Order:
        [name] = world.jobs()
        [container] = world.kube.live(JOBS, name)["spec"]["template"]["spec"]["containers"]
        [told] = [one["value"] for one in container["env"] if one["name"] == order.VARIABLE]
        return order.parse(told)

    async def test_an_object_deleted_and_applied_again_is_distinguished_from_a_new_one(
        self, world: World
    ) -> None:
        await world.settle()
        assert not self.order(world).brought_back
        saved = world.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]

        again = World()
        again.declare(uid="uid-of-the-copy")
        body = again.kube.live(ETCD_BACKUPS, "b")
        again.kube.put(ETCD_BACKUPS, body | {"metadata": body["metadata"] | {"annotations": saved}})
        await again.settle()

        assert self.order(again).brought_back
        kept = again.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]
        assert kept == saved, "a try later it would be forgotten"

    async def test_an_object_is_marked_before_its_job_is_created(self, world: World) -> None:
        world.kube.failures["create Job"] = [Unavailable("down")]
        with pytest.raises(Unavailable):
            await world.backups.reconcile(KEY)

        notes = world.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]
        assert notes == {naming.BEGUN_AS: "uid-b"}

    async def test_a_backup_with_an_interval_is_not_marked(self, world: World) -> None:
        world.declare(backupPolicy={"backupIntervalInSecond": 60})
        await world.settle()
        world.clock.now += 61
        await world.settle()

        assert world.jobs()
        assert "annotations" not in world.kube.live(ETCD_BACKUPS, "b")["metadata"]


async def test_each_question_to_a_pod_that_hangs_left_a_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any pod with the labels of a backup could use up all file descriptors of the operator."""
    closed = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    monkeypatch.setattr(order, "PROGRESS_PORT", server.sockets[0].getsockname()[1])
    monkeypatch.setattr(jobs, "PROGRESS_SECONDS", 0.02)
    async with server:
        assert await jobs.ask_progress("127.0.0.1") is None

        await asyncio.wait_for(closed.wait(), 1)
