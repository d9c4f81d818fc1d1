"""Passes over a cluster of which one object is refused or changed each time: the rest continues."""

from __future__ import annotations

import contextlib
import logging

import pytest
from reconcile_bench import Bench

from etcd_operator.cluster.tickets import NoAnswer
from etcd_operator.cluster.volume_jobs import JOB_NAME
from etcd_operator.kube.api import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    ETCD_CLUSTERS,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    REJECTED_SECONDS,
    SERVICES,
    STATEFUL_SETS,
    Rejected,
    Unavailable,
)
from etcd_operator.rate_limit import SECONDS_PER_WRITE
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests import volume_job

QUOTA = Rejected('networkpolicies "a" is forbidden: exceeded quota', status=403)
DOWN = Unavailable("failed calling webhook", status=500)


@pytest.fixture
def bench():
    bench = Bench()
    bench.declare()
    return bench


@pytest.fixture
async def settled(bench):
    await bench.run()
    bench.forget()
    return bench


async def live(bench, seconds):
    """Runs the world and the operator for so many seconds, whatever happens."""
    ends = bench.clock.now + seconds
    while bench.clock.now < ends:
        delay = 1.0
        with contextlib.suppress(Unavailable):
            delay = await bench.once()
        bench.nodes.turn()
        bench.clock.now += min(delay or 0.01, 5.0)


@pytest.mark.parametrize(
    ("resource", "name"),
    [(NETWORK_POLICIES, "a"), (SERVICES, "a-client"), (DISRUPTION_BUDGETS, "a")],
)
async def test_an_object_that_was_deleted_to_mend_a_refused_change_was_missing_until_the_next_try(
    settled, resource, name
):
    found = settled.kube.live(resource, name)
    found["metadata"]["labels"].pop("app.kubernetes.io/name")
    settled.kube.put(resource, found)
    refused = Rejected("spec: Invalid value: field is immutable", status=422)
    for verb in ("apply", "patch"):
        settled.kube.failures[f"{verb} {resource.kind}"] = [refused]
    await settled.until_failed()

    assert await settled.missing_for(resource, name) < 1


async def test_a_pod_in_which_no_ticket_arrived_kept_all_others_from_theirs(bench):
    """Its node lost long packets, or somebody flooded its port between answer and ticket."""
    push, tries = bench.start.push, []

    async def lost(address, pod_uid, key, ticket):
        if ticket.member != "a-0":
            return await push(address, pod_uid, key, ticket)
        tries.append(bench.clock.now)
        raise NoAnswer(f"{address}: closed before a whole line came")

    bench.start.push = lost
    await live(bench, 30)

    assert bench.status["readyMembers"] == 2
    assert "closed before a whole line came" in bench.condition("Progressing")["message"]
    bench.start.push = push
    await live(bench, 10)
    assert bench.status["phase"] == "Running"
    assert bench.status["readyMembers"] == 3
    assert "whole line" not in str(bench.status)
    assert len(tries) <= 20


@pytest.mark.parametrize(
    "error", [Rejected("a policy denied the request", status=403), DOWN], ids=["refused", "down"]
)
async def test_a_claim_that_could_not_be_recorded_kept_all_other_pods_from_their_tickets(
    bench, error
):
    patch = bench.kube.merge_patch

    async def fails(resource, namespace, name, *rest, **more):
        if name == "data-a-0":
            raise error
        return await patch(resource, namespace, name, *rest, **more)

    bench.kube.merge_patch = fails
    await live(bench, 40)

    assert bench.status["readyMembers"] == 2
    assert str(error) in bench.condition("Progressing")["message"]
    bench.kube.merge_patch = patch
    await live(bench, 2 * REJECTED_SECONDS)
    assert bench.status["phase"] == "Running"
    assert bench.status["readyMembers"] == 3
    assert str(error) not in str(bench.status)


def unreadable(resource):
    words = f'{resource.plural}.{resource.group} "a" is forbidden: User "x" cannot get resource'
    return Rejected(words, status=403)


@pytest.mark.parametrize("resource", [NETWORK_POLICIES, DISRUPTION_BUDGETS])
class TestUnreadable:
    """Somebody removed the rule from the operator's Role."""

    def taken_away(self, bench, resource):
        for verb in ("get", "list", "apply"):
            call = f"{verb} {resource.kind}"
            bench.kube.failures[call] = [unreadable(resource)] * 999

    async def test_a_cluster_without_the_right_was_not_even_bootstrapped(self, bench, resource):
        self.taken_away(bench, resource)
        await live(bench, 20)

        assert bench.status["phase"] == "Running"
        assert bench.status["readyMembers"] == 3
        told = bench.condition("Progressing")
        assert (told["status"], told["reason"]) == ("True", "StepFailed")
        assert f'{resource.plural}.{resource.group} "a" is forbidden' in told["message"]
        said = [words for _, reason, words in bench.events.posted if reason == "StepFailed"]
        assert any("cannot get resource" in words for words in said)

    async def test_a_settled_cluster_stopped_when_its_object_could_not_be_seen(
        self, settled, resource
    ):
        self.taken_away(settled, resource)
        settled.store.drop(resource, "default")
        body = settled.body
        body["spec"]["pod"] = {**body["spec"].get("pod", {}), "labels": {"edited": "yes"}}
        settled.kube.put(ETCD_CLUSTERS, body)
        await live(settled, 30)

        template = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]
        assert template["metadata"]["labels"]["edited"] == "yes"
        assert "cannot get resource" in settled.condition("Progressing")["message"]

    async def test_it_is_read_no_more_often_than_a_refused_object_is_written(self, bench, resource):
        self.taken_away(bench, resource)
        await live(bench, 20)
        bench.kube.calls.clear()

        await live(bench, 10 * REJECTED_SECONDS)

        assert 5 <= bench.kube.calls[f"get {resource.kind}"] <= 22
        assert not bench.kube.calls[f"apply {resource.kind}"]

    async def test_once_the_right_is_back_it_is_created_and_nothing_is_reported(
        self, bench, resource
    ):
        self.taken_away(bench, resource)
        await live(bench, 20)
        bench.kube.failures.clear()

        await live(bench, 3 * REJECTED_SECONDS)

        assert bench.kube.live(resource, "a")
        assert "forbidden" not in str(bench.status)


class TestRefused:
    async def test_the_cluster_forms_and_reports_what_it_lacks(self, bench):
        bench.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        await live(bench, 20)

        assert bench.status["phase"] == "Running"
        assert bench.status["readyMembers"] == 3
        told = bench.condition("Progressing")
        assert (told["status"], told["reason"]) == ("True", "StepFailed")
        assert "exceeded quota" in told["message"]
        assert "exceeded quota" in bench.status["plan"]
        assert bench.kube.live(DISRUPTION_BUDGETS, "a")
        assert not bench.kube.find(NETWORK_POLICIES, "a")

    async def test_it_is_tried_again_and_no_more_often_than_before(self, bench):
        bench.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        await live(bench, 20)
        bench.kube.calls.clear()

        await live(bench, 10 * REJECTED_SECONDS)

        assert 8 <= bench.kube.calls["apply NetworkPolicy"] <= 11
        assert not bench.kube.calls["apply EtcdCluster/status"]
        bench.kube.failures.clear()
        await live(bench, REJECTED_SECONDS + 1)
        assert bench.kube.find(NETWORK_POLICIES, "a")
        assert bench.condition("Progressing")["reason"] == "AsDeclared"

    async def test_it_is_one_line_in_the_log(self, bench, caplog):
        caplog.set_level(logging.INFO)
        bench.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        await live(bench, 20)
        caplog.clear()

        await live(bench, 5 * REJECTED_SECONDS)

        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert len([one for one in caplog.records if one.name.endswith("report")]) <= 1

    async def test_an_edit_is_applied_meanwhile(self, settled):
        settled.kube.remove(NETWORK_POLICIES, "default", "a")
        settled.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        settled.declare(size=4)

        await live(settled, 20)

        assert len(settled.etcd.listed) == 4
        assert "exceeded quota" in settled.condition("Progressing")["message"]

    async def test_an_edit_of_the_refused_object_is_tried_at_once(self, settled):
        settled.kube.remove(NETWORK_POLICIES, "default", "a")
        settled.kube.failures["apply NetworkPolicy"] = [QUOTA] * 2
        await live(settled, 1)
        assert settled.kube.calls["apply NetworkPolicy"] == 1

        settled.declare(networkPolicy={"clients": []})
        await live(settled, 1)

        assert settled.kube.calls["apply NetworkPolicy"] == 2

    async def test_with_a_different_error_each_time_is_not_a_hot_loop(self, settled, monkeypatch):
        """If each look renders another manifest, it must not be sent as fast as it is refused."""
        settled.kube.remove(NETWORK_POLICIES, "default", "a")
        settled.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        monkeypatch.setattr("etcd_stateful.observed.put_off.PutOff.is_of", lambda *_: False)

        await live(settled, 20)

        assert settled.kube.calls["apply NetworkPolicy"] < 20

    async def test_an_event_said_as_declared_while_the_policy_was_refused(self, bench, caplog):
        """It came last, so `kubectl describe` ended with it. The log said the same."""
        caplog.set_level(logging.INFO)
        bench.kube.failures["apply NetworkPolicy"] = [QUOTA] * 99
        await live(bench, 20)
        assert bench.status["readyMembers"] == 3
        assert "AsDeclared" not in bench.events.reasons()
        assert "as declared" not in caplog.messages

        bench.kube.failures.clear()
        await live(bench, REJECTED_SECONDS + 1)
        assert bench.events.reasons()[-1] == "AsDeclared"
        assert caplog.messages[-1] == "as declared"

    async def test_in_a_namespace_that_is_being_deleted_it_is_no_trouble(self, settled):
        settled.kube.remove(NETWORK_POLICIES, "default", "a")
        error = Rejected("cannot create: namespace default is being terminated", status=403)
        settled.kube.failures["apply NetworkPolicy"] = [error]

        assert await settled.once() == REJECTED_SECONDS
        assert not settled.events.posted


class TestWebhookDown:
    """To the operator it looks like an API server that does not answer."""

    async def test_the_rest_continues_after_a_few_attempts(self, bench):
        bench.kube.failures["apply NetworkPolicy"] = [DOWN] * 99
        await live(bench, 40)

        assert bench.status["phase"] == "Running"
        assert "failed calling webhook" in bench.condition("Progressing")["message"]
        bench.kube.failures.clear()
        await live(bench, REJECTED_SECONDS + 1)
        assert bench.condition("Progressing")["reason"] == "AsDeclared"

    async def test_an_object_that_members_need_is_waited_for(self, bench):
        bench.kube.failures["apply Service"] = [DOWN] * 99
        await live(bench, 40)

        assert not bench.kube.find(STATEFUL_SETS, "a")
        assert "failed calling webhook" in bench.condition("Progressing")["message"]


async def test_a_claim_that_may_not_be_deleted_is_tried_again_now_and_then(settled):
    """Of a member that was removed. Nothing else was done any more."""
    left = settled.kube.live(CLAIMS, "data-a-0")
    notes = left["metadata"]["annotations"] | {
        naming.CLAIM_UID: "uid-left",
        naming.MEMBER_ID: "abc",
    }
    named = {"name": "data-a-5", "uid": "uid-left", "annotations": notes}
    settled.kube.put(CLAIMS, left | {"metadata": left["metadata"] | named})
    denied = Rejected("a policy denied the request", status=403)
    settled.kube.failures["delete PersistentVolumeClaim"] = [denied] * 99
    await live(settled, 2)
    settled.kube.remove(SERVICES, "default", "a-client")

    await live(settled, 3 * REJECTED_SECONDS)

    assert settled.kube.find(SERVICES, "a-client")
    assert settled.kube.calls["delete PersistentVolumeClaim"] <= 5
    assert "a policy denied the request" in settled.condition("Progressing")["message"]


class TestUndone:
    async def test_a_stateful_set_that_a_webhook_rewrites_keeps_no_pod_from_its_ticket(
        self, settled
    ):
        await self._with_a_webhook(settled)
        settled.nodes.kill("a-1")
        await live(settled, 30)
        assert settled.status["readyMembers"] == 3
        told = settled.condition("Progressing")
        assert (told["status"], told["reason"]) == ("True", "StepFailed")
        assert "undoes" in told["message"]

    async def test_it_is_still_tried_every_ten_seconds(self, settled):
        await self._with_a_webhook(settled)
        settled.kube.calls.clear()
        await live(settled, 10 * SECONDS_PER_WRITE)
        assert 8 <= settled.kube.calls["apply StatefulSet"] <= 12

    async def test_the_status_said_something_else_for_a_moment_at_each_try(self, settled):
        """It was written twice every ten seconds, for as long as the webhook was there, and so that
        of each cluster of the fleet."""
        await self._with_a_webhook(settled)
        await live(settled, 2 * SECONDS_PER_WRITE)
        settled.forget()

        await live(settled, 10 * SECONDS_PER_WRITE)

        assert settled.kube.calls["apply StatefulSet"]
        assert not settled.kube.calls["apply EtcdCluster/status"]
        assert "AsDeclared" not in settled.events.reasons()

    async def test_each_time_it_was_as_declared_until_a_controller_undid_the_write(self, settled):
        """As a second operator does, a moment later: `kubectl wait` for Ready went through."""
        told = set()
        for second in range(120):
            if second % 3 == 0:
                policy = settled.kube.live(NETWORK_POLICIES, "a")
                policy["spec"]["ingress"] = []
                settled.kube.put(NETWORK_POLICIES, policy)
            await settled.once()
            settled.clock.now += 1.0
            if second == 40:
                settled.forget()
            if second > 40:
                told.add(settled.condition("Progressing")["reason"])

        assert settled.kube.calls["apply NetworkPolicy"] >= 6
        assert told == {"StepFailed"}
        assert not settled.kube.calls["apply EtcdCluster/status"]

        await live(settled, 2 * SECONDS_PER_WRITE)
        assert settled.condition("Ready")["status"] == "True"

    async def test_users_are_still_created(self, settled):
        """The last steps are not kept waiting for good."""
        await self._with_a_webhook(settled)
        policy = settled.kube.live(NETWORK_POLICIES, "a")
        settled.kube.put(NETWORK_POLICIES, {**policy, "spec": {**policy["spec"], "ingress": []}})
        await live(settled, 20)
        assert settled.kube.live(NETWORK_POLICIES, "a")["spec"]["ingress"]
        assert settled.kube.live(PODS, "a-0")

    async def test_a_cluster_whose_stateful_set_a_webhook_rewrites_never_formed(self, bench):
        self._install(bench)
        await live(bench, 60)

        assert bench.status["readyMembers"] == 3
        assert bench.status["phase"] == "Running"
        assert "undoes" in bench.condition("Progressing")["message"]

    async def test_a_policy_for_labels_kept_every_cluster_from_forming(self, bench):
        real = bench.kube.apply

        async def apply(resource, manifest, *, status=False):
            if not status:
                labels = manifest["metadata"]["labels"] | {"app.kubernetes.io/part-of": "team"}
                manifest = {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
            return await real(resource, manifest, status=status)

        bench.kube.apply = apply
        await live(bench, 90)

        assert bench.status["readyMembers"] == 3
        assert bench.status["phase"] == "Running"
        assert "undoes" in bench.condition("Progressing")["message"]

    async def _with_a_webhook(self, bench):
        self._install(bench)
        found = bench.kube.live(STATEFUL_SETS, "a")
        bench.kube.put(STATEFUL_SETS, _mirrored(found))
        await live(bench, 5)

    def _install(self, bench):
        real = bench.kube.apply

        async def apply(resource, manifest, *, status=False):
            if resource == STATEFUL_SETS:
                manifest = _mirrored(manifest)
            return await real(resource, manifest, status=status)

        bench.kube.apply = apply


def _mirrored(stateful_set):
    spec = stateful_set["spec"]
    pod = spec["template"]["spec"]
    etcd = {**pod["containers"][0], "image": "mirror/etcd:v3.7.1"}
    template = {**spec["template"], "spec": {**pod, "containers": [etcd]}}
    return {**stateful_set, "spec": {**spec, "template": template}}


class TestLargerVolumes:
    """That a dry run is allowed does not say that the request is: some webhooks do not look at dry
    runs, and others put the size back."""

    WAYS = ("refused", "down", "undone")

    def declare(self, bench, how):
        for one in range(3):
            claim = bench.kube.live(CLAIMS, f"data-a-{one}")
            sized = claim["status"] | {"capacity": {"storage": "8Gi"}}
            bench.kube.put(CLAIMS, claim | {"status": sized})
        patch = bench.kube.merge_patch

        async def with_webhook(resource, namespace, name, change, *, dry_run=False, **more):
            if resource == CLAIMS and "spec" in change and not dry_run:
                if how != "undone":
                    raise DOWN if how == "down" else Rejected("a policy denies it", status=403)
                change = {"metadata": change["metadata"]}
            return await patch(resource, namespace, name, change, dry_run=dry_run, **more)

        bench.kube.merge_patch = with_webhook
        body = bench.body
        larger = {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "16Gi"}}}}
        bench.kube.put(ETCD_CLUSTERS, {**body, "spec": {**body["spec"], "size": 4, "pod": larger}})
        return patch

    @pytest.mark.parametrize("how", WAYS)
    async def test_nothing_else_was_done_any_more(self, settled, how):
        self.declare(settled, how)

        await live(settled, 60)

        assert len(settled.etcd.listed) == 4
        told = settled.condition("Progressing")["message"]
        assert told.startswith("waiting for the volume of claim data-a-0 to grow")
        for one in range(3):
            assert f"claim data-a-{one} requests 16Gi instead of 8Gi" in told

    @pytest.mark.parametrize("how", WAYS)
    async def test_they_are_requested_once_that_is_allowed(self, settled, how):
        patch = self.declare(settled, how)
        await live(settled, 60)

        settled.kube.merge_patch = patch
        await live(settled, 2 * REJECTED_SECONDS)

        for one in range(3):
            claim = settled.kube.live(CLAIMS, f"data-a-{one}")
            assert claim["spec"]["resources"]["requests"] == {"storage": "16Gi"}
        assert "requests 16Gi" not in str(settled.status)


class TestTicketThatIsRefused:
    """The volume of one pod cannot be written, so its `start` refuses the ticket each time."""

    WORDS = "cannot write: /var/etcd/data: Permission denied"

    def refused(self, bench, member):
        bench.start.refusal, bench.start.refuses = self.WORDS, frozenset({member})

    async def test_the_other_members_never_got_theirs(self, bench):
        self.refused(bench, "a-0")
        await live(bench, 30)

        assert {ticket.member for ticket in bench.start.taken} == {"a-1", "a-2"}
        assert bench.status["phase"] == "Running"
        assert self.WORDS in bench.condition("Progressing")["message"]

    async def test_the_size_could_not_be_set_back(self, settled):
        self.refused(settled, "a-3")
        body = settled.body
        settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {**body["spec"], "size": 4}})
        await live(settled, 20)
        assert len(settled.etcd.listed) == 4
        assert self.WORDS in settled.condition("Progressing")["message"]

        body = settled.body
        settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {**body["spec"], "size": 3}})
        await live(settled, 30)

        assert len(settled.etcd.listed) == 3
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 3
        assert "Permission denied" not in str(settled.status)

    async def test_it_is_offered_now_and_then_and_taken_once_the_volume_can_be_written(
        self, settled
    ):
        self.refused(settled, "a-3")
        body = settled.body
        settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {**body["spec"], "size": 4}})
        await live(settled, 20)
        settled.events.posted.clear()
        asked = settled.start.asked
        await live(settled, 60)
        assert 10 <= settled.start.asked - asked <= 200

        settled.start.refusal = ""
        await live(settled, 30)

        assert settled.status["phase"] == "Running"
        assert settled.status["readyMembers"] == 4
        assert "Permission denied" not in str(settled.status)


def late_job(bench):
    """A Job of a recovery whose create request was carried out long after it was sent."""
    cluster = parse_cluster(bench.body)
    notes = {naming.SURVIVOR: "a-0", naming.EPOCH: "2"}
    job = volume_job.job(
        cluster, naming.recovery_job("a"), notes, {}, {"initContainers": [], "containers": []}
    )
    bench.kube.put(JOBS, job)
    name = f"{naming.recovery_job('a')}-x"
    labels = naming.labels("a") | {
        naming.LABEL_NAME: volume_job.LABEL,
        JOB_NAME: job["metadata"]["name"],
    }
    metadata = {"name": name, "namespace": "default", "labels": labels}
    bench.kube.put(PODS, {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})
    return job["metadata"]["name"], name


@pytest.mark.parametrize("error", [Rejected("jobs are kept", status=403), DOWN])
async def test_all_else_waited_for_an_unneeded_job_that_could_not_be_deleted(settled, error):
    job, pod = late_job(settled)
    settled.kube.failures["delete Job"] = [error] * 200
    settled.kube.remove(SERVICES, "default", "a-client")
    pods = {settled.kube.live(PODS, f"a-{one}")["metadata"]["uid"] for one in range(3)}
    settled.declare(size=5)
    await live(settled, 120)

    assert settled.kube.live(SERVICES, "a-client")
    assert settled.condition("Blocked")["reason"] == "JobNotDeleted"
    assert job in settled.condition("Blocked")["message"]
    assert str(error) in settled.condition("Progressing")["message"]
    same = {settled.kube.live(PODS, f"a-{one}")["metadata"]["uid"] for one in range(3)}
    assert same == pods
    assert settled.kube.find(PODS, "a-3") is None, "the Job might work on its volume"

    settled.kube.failures.clear()
    await live(settled, 40)
    assert settled.kube.find(JOBS, job) is None
    settled.kube.remove(PODS, "default", pod)
    await live(settled, 120)
    assert settled.condition("Blocked") is None
    assert settled.kube.find(PODS, "a-4") is not None
