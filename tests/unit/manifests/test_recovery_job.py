"""The manifest of the recovery Job, and the shell's requests to the API server for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeClock, FakeKube
from recovery_world import lost
from worlds import body

from etcd_operator.cluster import volume_jobs
from etcd_operator.cluster.volume_jobs import JOB_NAME, VolumeJobs
from etcd_operator.kube.api import CLAIMS, JOBS, PODS, Unavailable
from etcd_operator.kube.store import Store
from etcd_operator.start.journal import Journal
from etcd_operator.step_result import Done, Outdated
from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.tls import Trust
from etcd_stateful.jobs import restore
from etcd_stateful.jobs.recover import parse_order
from etcd_stateful.manifests.recovery_job import job_hash, recovery_job
from etcd_stateful.manifests.restore_job import restore_job
from etcd_stateful.manifests.statefulset import first_claim, stateful_set
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import CreateJob, DeleteJob
from etcd_stateful.records import bootstrap as records
from etcd_stateful.start.configuration import Settings

RESOURCES = {"requests": {"cpu": "2", "memory": "8Gi"}}
RECORD = replace(
    records.adopted("uid", 0xABC, "3.7.3", 3), epoch=2, survivor="c-1", cluster_uid="uid"
)

APPARMOR = "container.apparmor.security.beta.kubernetes.io"
STORE = stores.Store("Volume", "backups", "daily/etcd.db")


def job(**pod: Any) -> dict[str, Any]:
    cluster = parse_cluster(body(3, pod=pod) if pod else body(3))
    return recovery_job(cluster, RECORD, 0x123, operator_image="operator:1")


def containers(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]["template"]["spec"]
    return {one["name"]: one for one in spec["initContainers"] + spec["containers"]}


class TestTheManifest:
    def test_etcd_runs_as_a_sidecar_between_prepare_and_finish(self) -> None:
        spec = job()["spec"]["template"]["spec"]

        assert [one["name"] for one in spec["initContainers"]] == ["prepare", "etcd"]
        assert [one["name"] for one in spec["containers"]] == ["finish"]
        etcd = containers(job())["etcd"]
        assert etcd["restartPolicy"] == "Always"
        assert etcd["image"] == "quay.io/coreos/etcd:v3.7.3"
        assert etcd["command"] == [
            "/usr/local/bin/etcd",
            "--config-file=/var/etcd/data/member/wal/../../../recovery.yaml",
        ]
        assert "ports" not in etcd

    def test_the_reason_why_its_etcd_failed_was_only_in_the_log(self) -> None:
        """Whether the data is damaged decides on another survivor, and status.plan should say
        so."""
        etcd = containers(job(etcdEnv=[{"name": "ETCD_MAX_TXN_OPS", "value": "256"}]))["etcd"]

        assert etcd["terminationMessagePolicy"] == "FallbackToLogsOnError"
        assert etcd["env"][0] == {"name": "GOTRACEBACK", "value": "none"}
        assert [one["name"] for one in etcd["env"][1:]] == ["ETCD_MAX_TXN_OPS"]

    def test_an_apparmor_annotation_for_another_container_had_the_job_refused(self) -> None:
        """At each try: `start` is in members' pods only, and etcd itself in no Job of a restore."""
        of_etcd, of_start = (f"{APPARMOR}/{name}" for name in ("etcd", "start"))
        notes = {of_etcd: "runtime/default", of_start: "unconfined", "team": "storage"}
        cluster = parse_cluster(body(3, pod={"annotations": notes}))
        first = records.first_attempt("uid", {"c-0": cluster.peer_url(0)}, "3.7.3")
        back = restore_job(
            cluster,
            records.restoring(first, size=3),
            STORE,
            claim_uid="v1",
            operator_image="operator:1",
        )
        recovers, restores = (
            one["spec"]["template"]["metadata"]["annotations"]
            for one in (job(annotations=notes), back)
        )

        assert recovers == {of_etcd: "runtime/default", "team": "storage"}
        assert restores == {"team": "storage"}

    @pytest.mark.parametrize("prefix", ["", "batch.kubernetes.io/"])
    def test_a_label_of_pods_that_kubernetes_gives_to_those_of_jobs_had_the_job_refused(
        self, prefix: str
    ) -> None:
        asked = {f"{prefix}job-name": "mine", f"{prefix}controller-uid": "u", "team": "storage"}

        labels = job(labels=asked)["spec"]["template"]["metadata"]["labels"]

        assert labels["team"] == "storage"
        assert not labels.keys() & (asked.keys() - {"team"})

    def test_only_the_finish_container_mounts_roots_password(self) -> None:
        auth = {"rootSecret": {"name": "root", "key": "pw"}}
        made = recovery_job(
            parse_cluster(body(3, auth=auth)), RECORD, 0x123, operator_image="operator:1"
        )
        spec = made["spec"]["template"]["spec"]
        [volume] = [one for one in spec["volumes"] if one["name"] == "root"]
        mounted = [
            name
            for name, one in containers(made).items()
            if "root" in [mount["name"] for mount in one["volumeMounts"]]
        ]

        assert volume["secret"]["secretName"] == "root"
        assert volume["secret"]["items"] == [{"key": "pw", "path": "password"}]
        assert volume["secret"]["optional"] is True
        assert mounted == ["finish"]
        assert "root" not in [one["name"] for one in job()["spec"]["template"]["spec"]["volumes"]]

    def test_the_volume_is_the_survivors(self) -> None:
        [volume] = job()["spec"]["template"]["spec"]["volumes"]

        assert volume["persistentVolumeClaim"] == {"claimName": "data-c-1"}

    def test_there_is_never_more_than_one_pod_on_it(self) -> None:
        spec = job()["spec"]

        assert (spec["parallelism"], spec["completions"]) == (1, 1)
        assert spec["podReplacementPolicy"] == "Failed"
        assert spec["template"]["spec"]["restartPolicy"] == "Never"

    def test_evictions_do_not_count_as_attempts(self) -> None:
        """Nodes were drained one after another, and the recovery had failed."""
        rules = job()["spec"]["podFailurePolicy"]["rules"]

        disrupted = [{"type": "DisruptionTarget", "status": "True"}]
        assert {"action": "Ignore", "onPodConditions": disrupted} in rules
        [refused] = [one["onExitCodes"] for one in rules if one["action"] == "FailJob"]
        assert (refused["containerName"], refused["values"]) == ("prepare", [3])

    def test_it_meets_the_restricted_pod_security_level(self) -> None:
        spec = job()["spec"]["template"]["spec"]

        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec.keys() & {"hostPID", "hostNetwork", "hostIPC"}
        for one in containers(job()).values():
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }

    def test_it_is_scheduled_as_a_member_is(self) -> None:
        policy = {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "etcd", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "high",
            "securityContext": {"runAsUser": 9000},
            "affinity": {"nodeAffinity": {"x": "y"}},
        }
        cluster = parse_cluster(body(3, pod=policy))
        member = stateful_set(cluster, replicas=3, operator_image="o")["spec"]["template"]["spec"]
        spec = job(**policy)["spec"]["template"]["spec"]

        for key in (
            "nodeSelector",
            "tolerations",
            "imagePullSecrets",
            "priorityClassName",
            "securityContext",
            "affinity",
        ):
            assert spec[key] == member[key], key

    def test_it_fits_where_a_member_fits(self) -> None:
        found = containers(job(resources=RESOURCES))

        assert found["etcd"]["resources"] == RESOURCES
        assert found["prepare"]["resources"] == RESOURCES
        assert found["finish"]["resources"]["requests"] == {"cpu": "200m", "memory": "128Mi"}
        assert not any("resources" in one for one in containers(job()).values())

    @pytest.mark.parametrize("kinds", [("limits",), ("requests", "limits")])
    def test_a_quota_of_ephemeral_storage_refused_its_pod(self, kinds: tuple[str, ...]) -> None:
        """Such a quota requires it of each container, and the members' had it."""
        room = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
        finish = containers(job(resources=dict.fromkeys(kinds, room)))["finish"]["resources"]

        for kind in kinds:
            assert finish[kind].keys() == room.keys()

    def test_no_service_or_stateful_set_selects_its_pod(self) -> None:
        labels = job(labels={"team": "a"})["spec"]["template"]["metadata"]["labels"]

        assert not naming.selector("c").items() <= labels.items()
        assert labels[naming.LABEL_MANAGED_BY] == naming.MANAGER
        assert labels[naming.LABEL_INSTANCE] == "c"
        assert labels["team"] == "a"

    def test_the_longest_name_fits(self) -> None:
        cluster = parse_cluster(body(3, name="a" * 52))
        made = recovery_job(cluster, RECORD, 1, operator_image="o")

        assert len(made["metadata"]["name"]) <= 63

    def test_its_containers_can_read_their_settings(self) -> None:
        """They are the settings of the member's pod, apart from those about where it runs."""
        for name in ("prepare", "finish"):
            given = {one["name"]: one.get("value", "pod") for one in containers(job())[name]["env"]}
            order = parse_order(given)
            assert (order.member_id, order.cluster_id) == (0x123, 0xABC)
            assert isinstance(order.settings, Settings)
            assert (order.settings.member, order.settings.epoch) == ("c-1", 2)
            cluster = parse_cluster(body(3))
            pods = stateful_set(cluster, replicas=3, operator_image="o", epoch=2)
            start = pods["spec"]["template"]["spec"]["initContainers"][0]
            said = {one["name"]: one.get("value") for one in start["env"]}
            assert json.loads(given["START_SETTINGS"]) == json.loads(said["START_SETTINGS"])

    def test_it_was_recreated_when_only_the_authorities_of_members_had_changed(self) -> None:
        """It mounts no certificates."""
        cluster = parse_cluster(body(3))

        assert job_hash(replace(cluster, trust=Trust("0123", "4567"))) == job_hash(cluster)

    def test_it_does_not_get_the_ticket_key(self) -> None:
        assert "secret" not in json.dumps(job()).lower()


class TestWhatIsAsked:
    @pytest.fixture
    def kube(self) -> FakeKube:
        made = FakeKube(FakeClock())
        made.store = Store()
        return made

    async def look(self, kube: FakeKube, *, asked: bool = True) -> Observation:
        world = lost()
        if asked:
            world.ask(1)
        seen = world.observe()
        assert kube.store is not None
        looked_up = VolumeJobs(kube, kube.store, kube.clock, operator_image="operator:1")
        return await looked_up.onto(replace(seen, occupants=(), job=None))

    def made(self, kube: FakeKube, **status: Any) -> dict[str, Any]:
        cluster = parse_cluster(body(3))
        manifest = recovery_job(cluster, RECORD, 1, operator_image="o")
        return kube.put(JOBS, manifest | {"status": status})

    async def test_nothing_unless_a_recovery_is_asked_for(self, kube: FakeKube) -> None:
        seen = await self.look(kube, asked=False)

        assert not kube.calls
        assert (seen.job, seen.occupants) == (None, ())

    @pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
    async def test_a_job_that_nothing_needs_but_has_a_pod(self, kube: FakeKube, phase: str) -> None:
        """One that had ended was overlooked, and its pod kept a deleted claim for ever."""
        pods = self.made(kube)["spec"]["template"]["metadata"]["labels"]
        metadata = {
            "name": "c-recovery-x",
            "namespace": "ns",
            "uid": "p",
            "resourceVersion": "1",
            "labels": pods | {JOB_NAME: "c-recovery"},
        }
        assert kube.store is not None
        kube.store.put(PODS, {"metadata": metadata, "status": {"phase": phase}})

        seen = await self.look(kube, asked=False)

        assert kube.calls == {"get Job": 1}
        assert seen.job is not None

    async def test_the_job_and_every_pod_are_read_by_name(self, kube: FakeKube) -> None:
        seen = await self.look(kube)

        assert kube.calls == {"get Job": 1, "get Pod": 3}
        assert (seen.job, seen.occupants) == (None, ())

    async def test_a_job_that_is_there(self, kube: FakeKube) -> None:
        self.made(kube)

        found = (await self.look(kube)).job

        assert found is not None
        assert (found.name, found.survivor, found.epoch) == ("c-recovery", "c-1", 2)
        assert (found.state, found.deleting, found.stranger) == ("running", False, "")
        assert found.spec_hash == parse_cluster(body(3)).template_hash

    async def test_a_job_that_is_being_deleted(self, kube: FakeKube) -> None:
        """It is waited for, and neither deleted again nor taken for work that is done."""
        made = self.made(kube)
        made["metadata"]["deletionTimestamp"] = kube.clock.rfc3339()
        kube.put(JOBS, made)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.deleting

    async def test_the_claim_that_a_restore_job_fills(self, kube: FakeKube) -> None:
        """Without it the planner would create that Job again and again."""
        raw = self.made(kube)
        raw["metadata"]["annotations"][naming.CLAIM_UID] = "v1"
        kube.put(JOBS, raw)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.claim_uid == "v1"

    @pytest.mark.parametrize(
        ("conditions", "state"),
        [
            ([], "running"),
            ([{"type": "Complete", "status": "True"}], "complete"),
            ([{"type": "Complete", "status": "False"}], "running"),
            ([{"type": "SuccessCriteriaMet", "status": "True"}], "running"),
            ([{"type": "FailureTarget", "status": "True"}], "running"),
            ([{"type": "Failed", "status": "True"}], "failed"),
        ],
    )
    async def test_how_it_ended(
        self, kube: FakeKube, conditions: list[dict[str, str]], state: str
    ) -> None:
        self.made(kube, conditions=conditions)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.state == state

    async def test_a_job_of_another_owner(self, kube: FakeKube) -> None:
        kube.put(JOBS, {"metadata": {"name": "c-recovery", "namespace": "ns"}})

        found = (await self.look(kube)).job

        assert found is not None
        assert "nobody" in found.stranger

    @pytest.mark.parametrize("epoch", ["", "x", "-1", "٣", "9" * 30])
    async def test_a_job_that_was_altered(self, kube: FakeKube, epoch: str) -> None:
        made = self.made(kube)
        made["metadata"]["annotations"][naming.EPOCH] = epoch
        kube.put(JOBS, made)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.epoch == 0

    async def test_a_pod_without_its_labels_still_occupies_its_volume(self, kube: FakeKube) -> None:
        kube.put(PODS, {"metadata": {"name": "c-2", "namespace": "ns"}})

        assert (await self.look(kube)).occupants == ("c-2",)

    @pytest.mark.parametrize(
        ("phase", "there"),
        [("Pending", True), ("Running", True), ("", True), ("Succeeded", False), ("Failed", False)],
    )
    async def test_pods_of_the_job_occupy_the_volume_until_they_have_ended(
        self, kube: FakeKube, phase: str, there: bool
    ) -> None:
        self.pod(kube, phase=phase)

        assert ((await self.look(kube)).occupants == ("c-recovery-x7k2p",)) is there

    @pytest.mark.parametrize(
        ("container", "state", "crashes"),
        [
            ("etcd", {"waiting": {"reason": "CrashLoopBackOff"}}, True),
            ("etcd", {"running": {}}, False),
            ("finish", {"waiting": {"reason": "CrashLoopBackOff"}}, False),
        ],
    )
    async def test_whether_etcd_keeps_failing_in_it(
        self, kube: FakeKube, container: str, state: dict[str, Any], crashes: bool
    ) -> None:
        self.made(kube)
        self.pod(kube, initContainerStatuses=[{"name": container, "state": state}])

        found = (await self.look(kube)).job

        assert found is not None
        assert found.etcd_crashing is crashes

    async def test_the_last_words_of_its_containers(self, kube: FakeKube) -> None:
        ended = {"exitCode": 3, "message": "refused: the log is of another"}
        self.made(kube, conditions=[{"type": "Failed", "status": "True"}])
        statuses = [{"name": "prepare", "state": {"terminated": ended}}]
        self.pod(kube, phase="Failed", initContainerStatuses=statuses)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == "refused: the log is of another"

    @pytest.mark.parametrize(
        "words",
        [
            restore.bump_too_high(None, 2 * restore.HIGHEST),
            stores.not_meant(stores.Store("S3", "bucket", "p" * 200, sha256="1" * 64), "2" * 64),
        ],
    )
    async def test_the_end_of_its_message_which_says_what_to_do_was_cut_off(
        self, kube: FakeKube, tmp_path: Path, words: str
    ) -> None:
        end = tmp_path / "end"
        end.touch()
        Journal(str(end), "restore").conclude(f"refused: {words}")
        ended = {"exitCode": 3, "message": end.read_text()}
        self.made(kube, conditions=[{"type": "Failed", "status": "True"}])
        statuses = [{"name": "fetch", "state": {"terminated": ended}}]
        self.pod(kube, phase="Failed", initContainerStatuses=statuses)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == f"refused: {words}"

    async def test_a_claim_without_a_volume_was_not_said_to_keep_the_job_waiting(
        self, kube: FakeKube
    ) -> None:
        """Only the scheduler's words were passed on, which do not name it or its class."""
        self.made(kube)
        words = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        unscheduled = {"type": "PodScheduled", "status": "False", "message": words}
        self.pod(kube, phase="Pending", conditions=[unscheduled])
        pod = kube.live(PODS, "c-recovery-x7k2p", "ns")
        pod["metadata"]["creationTimestamp"] = kube.clock.rfc3339()
        kube.put(PODS, pod)
        kube.clock.now += 20.0
        claim = first_claim(parse_cluster(body(3)), 1)
        pending = {"spec": {"storageClassName": "fsat"}, "status": {"phase": "Pending"}}
        kube.put(CLAIMS, claim | pending)

        found = (await self.look(kube)).job

        assert found is not None
        assert "claim data-c-1 waits for a volume of storage class fsat" in found.trouble

    @pytest.mark.parametrize("failure", ["Error: no space left on device", "panic: no database"])
    async def test_what_etcdutl_had_begun_with_was_given_as_its_failure(
        self, kube: FakeKube, failure: str
    ) -> None:
        begins = f"2026-01-02T03:04:05Z\tinfo\trestoring snapshot\t{{{'x' * 300}}}"
        ended = {"exitCode": 1, "message": f"{begins}\n{failure}\n"}
        self.made(kube, conditions=[{"type": "Failed", "status": "True"}])
        statuses = [{"name": "etcdutl", "state": {"terminated": ended}}]
        self.pod(kube, phase="Failed", initContainerStatuses=statuses)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == failure

    @pytest.mark.parametrize(
        ("container", "message"), [("fetch", ""), ("etcdutl", '{"msg":"restoring snapshot"}')]
    )
    async def test_a_container_without_enough_memory_was_said_to_have_failed_without_a_reason(
        self, kube: FakeKube, container: str, message: str
    ) -> None:
        """What etcdutl had logged last was given as the reason."""
        ended = {"exitCode": 137, "reason": "OOMKilled", "message": message}
        self.made(kube, conditions=[{"type": "Failed", "status": "True"}])
        statuses = [{"name": container, "state": {"terminated": ended}}]
        self.pod(kube, phase="Failed", initContainerStatuses=statuses)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == (
            f"spec.pod.resources: container {container} needs more memory than its limit "
            "(OOMKilled): raise limits.memory"
        )

    @pytest.mark.parametrize(
        ("ours", "code", "state"),
        [(True, 0, "complete"), (True, 1, "running"), (False, 0, "running")],
    )
    async def test_a_job_whose_work_was_done_was_waited_for_without_end(
        self, kube: FakeKube, ours: bool, code: int, state: str
    ) -> None:
        """Admission had added a container that never ends. And etcd was started once more by the
        kubelet, without its configuration: its failures made the status name other survivors."""
        made = self.made(kube)
        uid = made["metadata"]["uid"] if ours else "of-an-earlier-job"
        failed = {"terminated": {"exitCode": 1}}
        etcd = {"name": "etcd", "state": failed, "lastState": failed, "restartCount": 1}
        every = [
            {"name": "finish", "state": {"terminated": {"exitCode": code}}},
            {"name": "istio-proxy", "state": {"running": {}}},
        ]
        self.pod(kube, phase="Running", initContainerStatuses=[etcd], containerStatuses=every)
        pod = kube.live(PODS, "c-recovery-x7k2p", "ns")
        pod["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": uid, "controller": True}]
        kube.put(PODS, pod)

        seen = await self.look(kube)

        assert seen.job is not None
        assert seen.job.state == state
        assert seen.job.etcd_crashing is (state == "running")
        assert seen.occupants == ("c-recovery-x7k2p",), "it is deleted, and awaited"

    async def test_a_job_without_a_pod_is_reported(self, kube: FakeKube) -> None:
        """For example if its service account is missing: Kubernetes reports that only in an
        Event."""
        self.made(kube)
        found = (await self.look(kube)).job
        assert found is not None
        assert found.trouble == ""

        kube.clock.now += 6.0
        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == "its pod has not been created; the Events of the Job say why"

    async def test_a_job_that_ended_by_a_deadline_was_said_to_be_explained_by_its_pods(
        self, kube: FakeKube
    ) -> None:
        """A policy had given it one, and Kubernetes deletes the pods of such a Job."""
        words = "Job was active longer than specified deadline"
        failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
        self.made(kube, conditions=[failed | {"message": words}])

        found = (await self.look(kube)).job

        assert found is not None
        assert found.trouble == f"DeadlineExceeded: {words}"

    async def test_what_its_pod_waits_for(self, kube: FakeKube) -> None:
        self.made(kube)
        waiting = {"reason": "CrashLoopBackOff"}
        last = {"terminated": {"exitCode": 2}}
        crashing = {"name": "etcd", "state": {"waiting": waiting}, "lastState": last}
        self.pod(kube, phase="Running", initContainerStatuses=[crashing])

        found = (await self.look(kube)).job

        assert found is not None
        assert "etcd keeps failing" in found.trouble

    async def test_a_pod_whose_node_is_off_was_waited_for_without_a_way_out(
        self, kube: FakeKube
    ) -> None:
        """The Job controller creates no other pod before that one has stopped."""
        self.made(kube)
        self.pod(kube, phase="Running")
        [name] = [one for one in kube.objects if one[0] == PODS]
        stuck = kube.live(PODS, name[2], "ns")
        stuck["metadata"]["deletionTimestamp"] = kube.clock.rfc3339()
        kube.put(PODS, stuck | {"spec": {"nodeName": "n1"}})
        kube.clock.now += 60

        found = (await self.look(kube)).job

        assert found is not None
        assert "node n1 has not confirmed that it stopped" in found.trouble
        assert found.trouble.endswith("kubectl delete pod c-recovery-x7k2p --namespace ns --force")

    @pytest.mark.parametrize(
        ("etcd", "failed", "started"),
        [
            ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, 0, False),
            ({"state": {"running": {}}}, 0, True),
            ({"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 2}}}, 0, True),
            ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, 1, True),
        ],
        ids=["no image", "runs", "crashes", "in a pod before"],
    )
    async def test_whether_its_etcd_may_have_run(
        self, kube: FakeKube, etcd: dict[str, Any], failed: int, *, started: bool
    ) -> None:
        """If it has, the data may be of its minor."""
        self.made(kube, failed=failed)
        finish = {"name": "prepare", "state": {"terminated": {"exitCode": 0}}}
        statuses = [finish, {"name": "etcd"} | etcd]
        self.pod(kube, phase="Pending", initContainerStatuses=statuses)

        found = (await self.look(kube)).job

        assert found is not None
        assert found.etcd_started is started

    async def test_a_pod_that_ended_without_its_image_prevented_going_back(
        self, kube: FakeKube
    ) -> None:
        """As after a drain: the Job counts the pod as failed, but the pod still shows that its etcd
        never ran."""
        self.made(kube, failed=1)
        etcd = {"name": "etcd", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        self.pod(kube, phase="Failed", initContainerStatuses=[etcd])

        found = (await self.look(kube)).job

        assert found is not None
        assert not found.etcd_started

    async def test_an_api_server_that_does_not_answer_is_not_a_missing_job(
        self, kube: FakeKube
    ) -> None:
        kube.failures["get Job"] = [Unavailable("no answer")]

        with pytest.raises(Unavailable):
            await self.look(kube)

    def pod(self, kube: FakeKube, **status: Any) -> None:
        labels = job()["spec"]["template"]["metadata"]["labels"]
        name = {"name": "c-recovery-x7k2p", "namespace": "ns", "labels": labels}
        kube.put(PODS, {"metadata": name, "status": status})


class TestWhatIsDone:
    async def test_a_job_is_created_once(self) -> None:
        kube = FakeKube()
        step = CreateJob("c-recovery", job(), "why")

        assert await volume_jobs.apply(kube, "ns", step) == Done(
            "created Job c-recovery", created=True
        )
        assert isinstance(await volume_jobs.apply(kube, "ns", step), Outdated)
        assert kube.calls == {"create Job": 2}

    async def test_a_job_is_deleted_as_it_was_seen(self) -> None:
        kube = FakeKube()
        made = await kube.create(JOBS, job())
        metadata = made["metadata"]
        seen = DeleteJob("c-recovery", metadata["uid"], metadata["resourceVersion"], "why")

        kube.put(JOBS, made | {"status": {"active": 1}})
        assert isinstance(await volume_jobs.apply(kube, "ns", seen), Outdated)
        now = kube.live(JOBS, "c-recovery", "ns")["metadata"]["resourceVersion"]
        done = await volume_jobs.apply(kube, "ns", replace(seen, resource_version=now))
        assert done == Done("deleted Job c-recovery")
        assert kube.find(JOBS, "c-recovery", "ns") is None
