"""Passes whose requests fail: how that is reported, and how often they are tried again."""

from __future__ import annotations

import contextlib
import itertools
import logging
from dataclasses import replace

import pytest
from reconcile_bench import KEY, Bench

from etcd_operator.cluster import reconcile, report, requeue
from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    NETWORK_POLICIES,
    PODS,
    REJECTED_SECONDS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Conflict,
    Rejected,
    Unavailable,
)
from etcd_operator.queue.workqueue import WorkQueue
from etcd_operator.rate_limit import BURST, SECONDS_PER_WRITE, RateLimit
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful.membership.steps import (
    ApplyChild,
    DeleteClaim,
    DeletePod,
    Leader,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
)


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


class TestRejected:
    async def test_is_reported_to_the_user_and_tried_again_slowly(self, bench):
        error = Rejected("spec.template: Invalid value", status=422)
        bench.kube.failures["apply StatefulSet"] = [error, error]
        for _ in range(10):
            if (delay := await bench.once()) == REJECTED_SECONDS:
                break
        assert delay == REJECTED_SECONDS
        assert "spec.template: Invalid value" in bench.condition("Progressing")["message"]
        warned = [reason for kind, reason, _ in bench.events.posted if kind == "Warning"]
        assert warned.count("StepFailed") == 1

        assert await bench.once() == REJECTED_SECONDS
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert "Invalid" not in str(bench.status)

    async def test_a_read_that_is_not_allowed_is_reported_too(self, bench, caplog):
        """The Role was made by hand, and this operator needs one right more than the one before."""
        error = Rejected('services "a" is forbidden: cannot get', status=403)
        bench.kube.failures["get Service"] = [error] * 3
        assert [await bench.once() for _ in range(3)] == [REJECTED_SECONDS] * 3

        assert "services" in bench.condition("Progressing")["message"]
        assert "StepFailed" in bench.events.reasons()
        [said] = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert said.exc_info is None
        assert sum(bench.kube.writes().values()) == 1, "the status, once"
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert "forbidden" not in str(bench.status)

    async def test_without_the_right_to_list_pods_a_cluster_that_serves_had_none(self, settled):
        """The Role of one namespace of several lacked it, or came bit by bit. Then status and
        metrics said that no member is ready, and the StatefulSet was touched without end."""
        pods = {name: one for name, one in settled.kube.objects.items() if name[0] is PODS}
        for name in pods:
            del settled.kube.objects[name]
        settled.begin_process()
        settled.kube.objects |= pods
        settled.store.refuse(PODS, "default", "list pods: pods is forbidden: cannot list")
        assert [await settled.once() for _ in range(3)] == [REJECTED_SECONDS] * 3

        assert settled.condition("Available")["status"] == "True"
        assert settled.condition("Blocked") is None
        assert "pods is forbidden" in settled.condition("Progressing")["message"]
        assert sum(settled.kube.writes().values()) == 1, "the status, once"
        listing = await settled.kube.list(PODS, "default")
        settled.store.replace(PODS, "default", listing.items, listing.version)
        await settled.run()
        assert settled.condition("Ready")["status"] == "True"

    async def test_without_the_right_to_list_pods_the_metrics_said_that_a_cluster_serves(
        self, settled
    ):
        """As they had been last, for as long as nobody could know, and no alert fired."""
        labels = {"namespace": "default", "etcd_cluster": "a"}

        def value(name):
            return settled.metrics.registry.get_sample_value(f"etcd_cluster_{name}", labels)

        settled.store.refuse(PODS, "default", "not allowed")
        await settled.once()
        assert value("available") is None
        assert value("observed") == 0
        assert value("members_ready") is None
        assert value("size") == 3

        listing = await settled.kube.list(PODS, "default")
        settled.store.replace(PODS, "default", listing.items, 10**9)
        await settled.once()
        assert value("observed") == 1
        assert value("available") == 1

    @pytest.mark.parametrize(
        "error",
        [
            Rejected("secrets is forbidden: namespace n is being terminated", status=403),
            Rejected('namespaces "default" not found', status=404),
        ],
    )
    async def test_a_namespace_that_is_being_deleted_is_no_trouble(self, bench, caplog, error):
        bench.kube.failures["create Secret"] = [error] * 3
        for _ in range(3):
            assert await bench.once() == REJECTED_SECONDS
            bench.clock.now += REJECTED_SECONDS
        assert bench.events.posted == []
        assert not bench.status
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    async def test_no_object_is_put_back_in_a_namespace_that_is_being_deleted(self, bench, caplog):
        caplog.set_level(logging.INFO)
        bench.declare(size=1)
        await bench.run()
        caplog.clear()
        error = Rejected("cannot create: namespace default is being terminated", status=403)
        for call in ("apply Service", "apply StatefulSet", "apply NetworkPolicy", "create Secret"):
            bench.kube.failures[call] = [error] * 99
        bench.kube.calls.clear()
        bench.etcd.calls.clear()
        kinds = (SERVICES, NETWORK_POLICIES, STATEFUL_SETS, SECRETS)
        for resource, namespace, name in list(bench.kube.objects):
            if resource in kinds:
                bench.kube.remove(resource, namespace, name)
                delay = await bench.once()
                bench.clock.now += 0.1

        assert 0 < delay <= REJECTED_SECONDS
        assert sum(bench.kube.writes().values()) == 1
        [said] = [one.getMessage() for one in caplog.records if one.name.endswith("report")]
        assert "the namespace to be gone" in said

    async def test_a_deleted_namespace_does_not_hold_up_a_new_cluster_with_the_same_name(
        self, bench
    ):
        error = Rejected("namespace default is being terminated", status=403)
        bench.kube.failures["create Secret"] = [error]
        await bench.once()
        bench.kube.remove(ETCD_CLUSTERS, "default", "a")
        bench.declare()
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_is_no_traceback(self, bench, caplog):
        bench.kube.failures["apply StatefulSet"] = [Rejected("no", status=422)] * 3
        for _ in range(6):
            await bench.once()
        assert not [record for record in caplog.records if record.exc_info]
        assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1

    async def test_of_the_status_of_a_deleted_cluster_is_no_error(self, bench, caplog):
        bench.kube.failures["apply EtcdCluster/status"] = [Rejected("not found", status=404)]
        await bench.once()
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    async def test_of_the_status_is_logged_and_the_work_continues(self, bench, caplog):
        bench.kube.failures["apply EtcdCluster/status"] = [Rejected("bad", status=422)] * 99
        for _ in range(30):
            await bench.once()
            bench.nodes.turn()
        assert "status was rejected" in caplog.text
        assert len(bench.start.taken) == 3

    async def test_of_the_status_was_told_to_nobody_who_looks_at_the_object(self, bench):
        """As on Kubernetes 1.30, for a spec that was stored before a rule of the CRD."""
        error = Rejected("spec.size: Invalid value: size must be 1 to 7", status=422)
        bench.kube.failures["apply EtcdCluster/status"] = [error] * 99
        for _ in range(30):
            await bench.once()
            bench.nodes.turn()
        told = [message for _, reason, message in bench.events.posted if reason == "StatusRefused"]
        assert len(told) == 1
        assert "spec.size" in told[0]

    async def test_of_the_status_in_a_namespace_that_ends_is_no_event(self, bench):
        error = Rejected("forbidden: namespace n is being terminated", status=403)
        bench.kube.failures["apply EtcdCluster/status"] = [error] * 3
        await bench.once()
        assert "StatusRefused" not in bench.events.reasons()

    async def test_of_the_status_is_logged_once_and_tried_twice_a_minute(self, bench, caplog):
        """As if the operator's Role is gone: each second's wait would be written and logged
        again."""
        bench.kube.failures["apply EtcdCluster/status"] = [Rejected("no", status=403)] * 10
        for _ in range(90):
            await bench.once()
            bench.nodes.turn()
            bench.clock.now += 1
        assert bench.kube.calls["apply EtcdCluster/status"] <= 4
        assert caplog.text.count("status was rejected") == 1

        bench.kube.failures.clear()
        bench.clock.now += 30
        await bench.run()
        assert bench.status["phase"] == "Running"


class TestUnavailable:
    async def test_is_left_to_the_queue_which_backs_off(self, bench):
        bench.kube.failures["create Secret"] = [Unavailable("late")]
        with pytest.raises(Unavailable):
            await bench.once()
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_is_reported_if_it_goes_on(self, bench):
        """For example if a webhook for StatefulSets is down. To the operator it looks like an API
        server that does not answer, and the status would never say so."""
        error = Unavailable("failed calling webhook", status=500)
        bench.kube.failures["apply StatefulSet"] = [error] * 8
        told = []
        while bench.kube.failures["apply StatefulSet"]:
            with contextlib.suppress(Unavailable):
                await bench.once()
            told.append("failed calling webhook" in str(bench.status))
        assert told.count(True) == 4, "from the fifth on"
        assert "webhook" in bench.condition("Progressing")["message"]
        assert "StepFailed" in bench.events.reasons()
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert "webhook" not in str(bench.status)

    async def test_is_not_reported_if_other_calls_are_answered_in_between(self, bench):
        """A cluster forms by many writes, of which an API server with too much to do loses some."""
        writes = ("create Secret", "apply Service", "apply NetworkPolicy", "apply StatefulSet")
        lost = (*writes, "patch Secret")
        bench.kube.failures |= {call: [Unavailable("late")] * 2 for call in lost}
        while any(bench.kube.failures.values()):
            with contextlib.suppress(Unavailable):
                await bench.once()
            bench.nodes.turn()
            bench.clock.now += 1

        assert "StepFailed" not in bench.events.reasons()

    async def test_a_write_whose_answer_was_lost_is_not_repeated(self, bench):
        """The next pass must find the Secret that was created, and not create another."""
        real = bench.kube.create

        async def create(*args):
            await real(*args)
            bench.kube.create = real
            raise Unavailable("the answer was lost")

        bench.kube.create = create
        bench.kube.watching = False
        with pytest.raises(Unavailable):
            await bench.once()
        bench.kube.watching = True
        key = bench.kube.live(SECRETS, "a-start")["data"]["key"]
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert bench.kube.live(SECRETS, "a-start")["data"]["key"] == key

    async def test_of_the_status_alone_made_each_step_wait_up_to_a_minute(self, bench, caplog):
        """For example if a webhook for statuses is down: each pass ended as a failed one, and the
        queue backed off."""
        error = Unavailable("failed calling webhook", status=500)
        bench.kube.failures["apply EtcdCluster/status"] = [error] * 99
        for _ in range(30):
            await bench.once()
            bench.nodes.turn()
            bench.clock.now += 1
        assert len(bench.start.taken) == 3
        assert bench.kube.calls["apply EtcdCluster/status"] <= 5, "each may last until its deadline"
        assert caplog.text.count("failed calling webhook") == 1

        bench.kube.failures.clear()
        bench.clock.now += report.UNANSWERED_SECONDS
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_of_the_status_for_a_moment_is_made_up_for_soon(self, bench):
        bench.kube.failures["apply EtcdCluster/status"] = [Unavailable("late")]
        await bench.once()
        bench.clock.now += report.STATUS_SECONDS
        await bench.once()
        assert bench.status

    async def test_a_failed_check_for_a_free_name_stops_the_pass(self, bench):
        bench.kube.failures["get StatefulSet"] = [Unavailable("late")]
        with pytest.raises(Unavailable):
            await bench.once()
        assert not bench.kube.writes()


class TestConflict:
    async def test_is_no_failure_and_the_pass_is_repeated_soon(self, bench, caplog):
        bench.kube.failures["patch Secret"] = [Conflict("changed", status=409)]
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    async def test_again_and_again_is_not_a_hot_loop(self, settled):
        settled.kube.remove(SERVICES, "default", "a")
        settled.kube.failures["apply Service"] = [Conflict("changed", status=409)] * 100
        delays = []
        for _ in range(15):
            delay = await settled.once()
            delays.append(delay)
            settled.clock.now += delay
        assert delays[0] <= requeue.FIRST_POLL
        assert delays == sorted(delays)
        assert delays[-1] == requeue.WAIT_SECONDS


class TestTicketRefused:
    async def test_is_reported_and_not_repeated_at_once(self, bench):
        bench.start.refusal = "this run has taken another ticket"
        push, pushed = bench.start.push, {}

        async def counted(address, *rest):
            pushed.setdefault(address, []).append(bench.clock.now)
            return await push(address, *rest)

        bench.start.push = counted
        for _ in range(12):
            await bench.once()
            bench.nodes.turn()
        await bench.rest(30)
        assert "taken another ticket" in bench.condition("Progressing")["message"]
        assert len(pushed) == 3
        for times in pushed.values():
            assert len(times) >= 4
            assert all(b - a >= requeue.WAIT_SECONDS for a, b in itertools.pairwise(times))


class TestUndone:
    async def test_a_write_that_somebody_undoes_is_slowed_down_and_reported(self, settled):
        for _ in range(40):
            service = settled.kube.live(SERVICES, "a")
            service["spec"]["publishNotReadyAddresses"] = False
            settled.kube.put(SERVICES, service)
            delay = await settled.once()
        assert BURST - 1 <= settled.kube.calls["apply Service"] <= BURST
        assert "undoes" in settled.condition("Progressing")["message"]
        assert 0 < delay <= SECONDS_PER_WRITE

    async def test_a_second_operator_in_the_namespace_was_somebody_who_cannot_be_found(
        self, settled
    ):
        """Of another release, with other pods to let in: each takes the other's rule away, under
        one name of a field manager."""
        second = settled.make_reconciler(Metrics(), pod_namespace="elsewhere")
        for _ in range(40):
            settled.clock.now += min(await settled.once(), await second.reconcile(KEY))

        [told] = {words for _, reason, words in settled.events.posted if reason == "StepFailed"}
        assert "NetworkPolicy" in told
        assert "a second operator" in told

    async def test_it_is_still_tried_again(self, settled):
        for _ in range(40):
            service = settled.kube.live(SERVICES, "a")
            service["spec"]["publishNotReadyAddresses"] = False
            settled.kube.put(SERVICES, service)
            settled.clock.now += await settled.once()
        assert BURST + 10 < settled.kube.calls["apply Service"] < 40

    async def test_a_new_cluster_with_the_same_name_is_not_slowed_down(self, settled):
        for _ in range(40):
            service = settled.kube.live(SERVICES, "a")
            service["spec"]["publishNotReadyAddresses"] = False
            settled.kube.put(SERVICES, service)
            await settled.once()
        for resource, namespace, name in list(settled.kube.objects):
            settled.kube.remove(resource, namespace, name)
        settled.etcd.listed.clear()
        settled.declare()
        assert [await settled.once() for _ in range(3)] == [0, 0, 0]
        assert settled.kube.find(SERVICES, "a")


class TestRateLimit:
    STEP = ApplyChild("Service", "a", {"metadata": {}, "spec": {"x": 1}}, "differs at x")

    def repeated(self, *steps, times=5):
        rate_limit = RateLimit()
        for _ in range(times):
            for step in steps:
                rate_limit.happened(step, 0.0)
        return rate_limit

    def test_lets_a_burst_through_and_then_one_at_a_time(self):
        rate_limit = RateLimit()
        for _ in range(5):
            assert rate_limit.pause(self.STEP, 0.0) == 0.0
            rate_limit.happened(self.STEP, 0.0)
        assert rate_limit.pause(self.STEP, 0.0) == SECONDS_PER_WRITE
        assert rate_limit.pause(self.STEP, SECONDS_PER_WRITE) == 0.0
        rate_limit.happened(self.STEP, SECONDS_PER_WRITE)
        assert rate_limit.pause(self.STEP, SECONDS_PER_WRITE) > 0

    def test_counts_only_successful_writes(self):
        """After a conflict, or a refusal by etcd, nobody has undone the write."""
        rate_limit = RateLimit()
        assert [rate_limit.pause(self.STEP, 0.0) for _ in range(50)] == [0.0] * 50

    def test_counts_each_object_by_itself(self):
        rate_limit = self.repeated(self.STEP)
        assert rate_limit.pause(replace(self.STEP, name="b"), 0.0) == 0.0
        assert rate_limit.pause(DeleteClaim("c", "u", "1", "x"), 0.0) == 0.0

    def test_the_same_manifest_at_another_version_is_the_same_write(self):
        versioned = replace(self.STEP, manifest={"metadata": {"resourceVersion": "7"}})
        again = replace(self.STEP, manifest={"metadata": {"resourceVersion": "8"}})
        assert self.repeated(versioned).pause(again, 0.0) > 0

    def test_another_manifest_is_another_write(self):
        """Replicas that go down from 7 to 1 within a second are six writes of one field."""
        rate_limit = RateLimit()
        for replicas in range(7, 0, -1):
            manifest = {"metadata": {}, "spec": {"replicas": replicas}}
            step = ApplyChild("StatefulSet", "a", manifest, "size is 1")
            assert rate_limit.pause(step, 0.0) == 0.0
            rate_limit.happened(step, 0.0)

    def test_growing_shrinking_and_rolling_seven_members_is_not_limited(self):
        rate_limit, leader = RateLimit(), Leader("10.0.0.1", 1, 2)
        for n in range(7):
            for step in (
                MemberAddLearner(leader, f"http://a-{n}:2380", "size is 7"),
                MemberPromote(leader, n, f"a-{n} has caught up"),
                DeletePod(f"a-{n}", f"uid-{n}", "1", "the spec was edited"),
                MemberRemove(leader, n, f"a-{n} (2{n}) is removed: spec.size is 1"),
            ):
                assert rate_limit.pause(step, 0.0) == 0.0
                rate_limit.happened(step, 0.0)

    def test_a_member_added_and_removed_in_circles_is_limited(self):
        leader = Leader("10.0.0.1", 1, 2)
        add = MemberAddLearner(leader, "http://a-3:2380", "size is 5")
        rate_limit = RateLimit()
        for n in range(5):
            rate_limit.happened(replace(add, reason=f"attempt {n}"), 0.0)
            rate_limit.happened(MemberRemove(leader, n, f"a-3 ({n}) does not start"), 0.0)
        assert rate_limit.pause(add, 0.0) > 0

    def test_a_pod_deleted_in_circles_is_limited(self):
        step = DeletePod("a-3", "uid-1", "1", "it keeps failing")
        again = replace(step, uid="uid-7", resource_version="9")
        assert self.repeated(step).pause(again, 0.0) > 0


class TestUnexpected:
    @pytest.fixture
    def broken(self, bench, monkeypatch):
        def decide(_):
            raise LookupError("a case nobody thought of")

        monkeypatch.setattr(reconcile, "decide", decide)
        return bench

    async def test_is_a_condition(self, broken):
        for _ in range(3):
            with pytest.raises(LookupError):
                await broken.once()
        assert "a case nobody thought of" in broken.condition("Progressing")["message"]
        assert broken.kube.calls["apply EtcdCluster/status"] == 1

    async def test_was_counted_as_a_pass_that_went_well(self, broken):
        queue = WorkQueue("clusters", broken.metrics, workers=1)
        queue.add(KEY)

        async def once(key):
            queue.stop()
            return await broken.reconciler.reconcile(key)

        await queue.run(once)

        passes = broken.metrics.registry.get_sample_value
        name = "etcd_operator_reconciles_total"
        assert passes(name, {"queue": "clusters", "result": "error"}) == 1
        assert passes(name, {"queue": "clusters", "result": "ok"}) is None

    async def test_is_forgotten_once_it_is_over(self, broken, monkeypatch):
        with pytest.raises(LookupError):
            await broken.once()
        monkeypatch.undo()
        await broken.run()
        assert broken.status["phase"] == "Running"
        assert "nobody thought of" not in str(broken.status)

    async def test_is_reported_also_while_reading_the_objects(self, bench):
        await bench.run()
        broken = bench.kube.live(SERVICES, "a")
        broken["metadata"]["ownerReferences"] = ["nonsense"]
        bench.kube.put(SERVICES, broken)
        with pytest.raises(AttributeError):
            await bench.once()
        assert "internal error" in bench.condition("Progressing")["message"]


class TestStatus:
    async def test_with_fields_that_the_api_server_drops_is_not_written_in_a_loop(self, bench):
        """An older CRD, which is upgraded after the operator, drops fields that it does not
        know."""
        real = bench.kube.apply

        async def apply(resource, manifest, *, status=False):
            if status:
                kept = {k: v for k, v in manifest["status"].items() if k != "plan"}
                manifest = {**manifest, "status": kept}
            return await real(resource, manifest, status=status)

        bench.kube.apply = apply
        await bench.run()
        bench.kube.calls.clear()
        for _ in range(5):
            bench.clock.now += 2
            await bench.once()
        assert not bench.kube.calls

    async def test_was_written_for_each_condition_that_another_controller_added(self, settled):
        theirs = {"type": "example.com/Audited", "status": "True"}
        for _ in range(3):
            conditions = [*settled.status["conditions"], theirs]
            status = settled.status | {"conditions": conditions}
            settled.kube.put(ETCD_CLUSTERS, {**settled.body, "status": status})
            await settled.once()
        assert not settled.kube.calls

    @pytest.mark.parametrize("conditions", ["x", ["x"], {"x": "y"}])
    async def test_with_conditions_of_another_form_ended_each_pass(self, settled, conditions):
        """The API server does not check what was stored before the CRD had a schema."""
        status = settled.status | {"conditions": conditions}
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "status": status})
        await settled.once()
        assert settled.condition("Available")["status"] == "True"

    async def test_is_not_written_twice_if_the_watch_is_late(self, bench):
        await bench.run()
        pod = bench.kube.live(PODS, "a-1")
        bench.kube.put(PODS, {**pod, "status": {**pod["status"], "conditions": []}})
        bench.kube.calls.clear()
        bench.kube.watching = False
        for _ in range(3):
            await bench.once()
            bench.clock.now += 2
        assert bench.kube.calls == {"apply EtcdCluster/status": 1}

    async def test_is_written_again_after_somebody_wiped_it(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "status": {}})
        await settled.once()
        assert settled.status["phase"] == "Running"
        assert settled.status["clusterID"]

    async def test_is_not_written_to_another_cluster_with_the_same_name(self, bench):
        def replaced():
            bench.kube.remove(ETCD_CLUSTERS, "default", "a")
            bench.declare(size=5)

        bench.kube.before["apply EtcdCluster/status"] = replaced
        await bench.once()
        assert not bench.status

    async def test_is_not_written_at_every_step_of_a_chain(self, bench):
        bench.declare(size=7)
        await bench.run(200)
        assert bench.kube.calls["apply EtcdCluster/status"] <= 5
        assert bench.kube.writes().total() > 15

    async def test_is_never_older_than_a_second_in_a_long_chain(self, bench):
        bench.declare(size=7)
        for _ in range(30):
            before = bench.kube.writes().total()
            await bench.once()
            bench.nodes.turn()
            bench.clock.now += 1.1
            if bench.kube.writes().total() > before:
                log = [one for one in bench.kube.log if not one.startswith("patch Pod")]
                assert log[-1].startswith("apply EtcdCluster/status")

    async def test_was_written_as_fast_as_possible_while_another_controller_wrote_its_own(
        self, settled
    ):
        """Such as a second operator: each write was the event of the other's next pass."""
        for _ in range(40):
            settled.kube.put(
                ETCD_CLUSTERS, {**settled.body, "status": settled.status | {"phase": "Theirs"}}
            )
            delay = await settled.once()
            settled.clock.now += 0.02
        assert BURST - 1 <= settled.kube.calls["apply EtcdCluster/status"] <= BURST
        assert 0 < delay <= SECONDS_PER_WRITE

        settled.clock.now += delay
        await settled.once()
        assert settled.status["phase"] == "Running"

    async def test_with_different_details_is_written_once_a_second(self, settled):
        await _touch(settled, "one")
        first = settled.kube.calls["apply EtcdCluster/status"]
        delay = await _touch(settled, "two")
        assert settled.kube.calls["apply EtcdCluster/status"] == first
        assert 0 < delay <= 1, "the pass that writes it must not need an event"
        settled.clock.now += delay
        await settled.once()
        assert settled.kube.calls["apply EtcdCluster/status"] == first + 1
        assert "two" in settled.condition("Degraded")["message"]


async def _touch(bench, words):
    """Pod a-1 fails with another error."""
    pod = bench.kube.live(PODS, "a-1")
    status = {**pod["status"], "conditions": [], "phase": "Failed", "message": words}
    bench.kube.put(PODS, {**pod, "status": status})
    return await bench.once()


async def test_an_unknown_key_is_nothing_to_do(bench):
    assert await bench.reconciler.reconcile(("default", "b")) is None
    assert await bench.reconciler.reconcile(KEY) is not None
