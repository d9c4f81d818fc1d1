"""Whole passes with the real planner and fakes: what is written, when, and how often."""

from __future__ import annotations

import asyncio
import logging

import pytest
from reconcile_bench import KEY, Bench

from etcd_operator.cluster import requeue
from etcd_operator.kube.api import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    ETCD_CLUSTERS,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from etcd_operator.objects.reading import secret as read_secret
from etcd_operator.telemetry.metrics import asked_at


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
async def settled():
    return await Bench.settled()


class TestCreation:
    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    async def test_ends_with_a_running_cluster(self, bench, size):
        bench.declare(size=size)
        delay = await bench.run(200)
        assert bench.status["phase"] == "Running"
        assert bench.status["readyMembers"] == size
        assert bench.condition("Progressing")["reason"] == "AsDeclared"
        assert len({ticket.member_id for ticket in bench.start.taken}) == size
        assert len(bench.start.taken) == size, "one ticket for each"
        assert delay == max(15.0, 10.0 * (size + 1))

    async def test_writes_each_thing_once(self, bench):
        bench.declare()
        await bench.run()
        writes = bench.kube.writes()
        status = writes.pop("apply EtcdCluster/status")
        assert writes == {
            "create Secret": 1,
            "apply Service": 2,
            "apply StatefulSet": 1,
            "apply PodDisruptionBudget": 1,
            "apply NetworkPolicy": 1,
            "patch Secret": 2,
            "patch PersistentVolumeClaim": 3,
            "patch Pod": 3,
        }
        assert status <= 4

    async def test_lets_clients_in_only_after_the_cluster_has_formed(self, bench):
        bench.declare()
        await bench.run()
        log = bench.kube.log
        latch = max(at for at, line in enumerate(log) if line == "patch Secret a-start")
        assert log.index("apply Service a-client") > latch

    async def test_with_an_empty_dir(self, bench):
        bench.declare(pod={"emptyDir": {}})
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert bench.kube.calls["patch Pod"] == 6, "three records and three labels"
        assert bench.kube.calls["patch PersistentVolumeClaim"] == 0

    async def test_reports_what_a_user_wants_to_know(self, bench):
        bench.declare(TLS=None)
        await bench.run()
        reasons = bench.events.reasons()
        assert reasons.count("TicketGiven") == 3
        assert reasons.count("Created") == 5
        assert reasons.count("Formed") == 1
        assert reasons[-1] == "AsDeclared"
        assert not [kind for kind, *_ in bench.events.posted if kind == "Warning"]

    async def test_logs_one_line_for_each_decision(self, bench, caplog):
        caplog.set_level(logging.INFO)
        bench.declare()
        bench.nodes.readiness = False
        for _ in range(40):
            delay = await bench.once()
            bench.nodes.turn()
            bench.clock.now += delay or 0
        lines = [(record.getMessage(), record.reason) for record in caplog.records]
        assert len(lines) == len(set(lines))
        assert any("gave pod a-0 its ticket" in line for line, _ in lines)
        assert all(hasattr(record, "generation") for record in caplog.records)

    async def test_waits_for_pods_that_do_not_exist_yet(self, bench):
        bench.declare()
        delays = list[float]()
        for _ in range(20):
            delays.append(await bench.once())
            bench.clock.now += delays[-1]
        assert max(delays) == requeue.WAIT_SECONDS
        assert "waiting for pod a-0" in bench.status["plan"]

    async def test_polls_start_less_and_less_often(self, bench):
        """Kubernetes reports that the container runs, but not when it listens."""
        bench.declare()
        for _ in range(6):
            await bench.once()
        bench.nodes.turn()
        bench.start.deaf = True
        delays = [await bench.once() for _ in range(14)]
        assert delays[0] == requeue.FIRST_POLL
        assert delays == sorted(delays)
        assert delays[-1] == requeue.LAST_POLL

    async def test_polls_quickly_again_when_pods_change(self, bench):
        bench.declare()
        for _ in range(6):
            await bench.once()
        bench.nodes.turn()
        bench.start.deaf = True
        for _ in range(14):
            await bench.once()
        bench.nodes.kill("a-0")
        bench.nodes.turn()
        assert await bench.once() <= requeue.FIRST_POLL


class Crash(BaseException):
    """The process is killed."""


@pytest.mark.parametrize("lost", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("size", [1, 3])
async def test_after_a_kill_at_any_write_a_new_process_continues(size, lost):
    """Each write in turn, just before it, and just after it with its answer lost."""
    whole = Bench()
    whole.declare(size=size)
    await whole.run()
    writes = whole.kube.writes().total()
    for fatal in range(writes):
        bench = Bench()
        bench.declare(size=size)
        _kill_at(bench, fatal, lost=lost)
        for _ in range(80):
            try:
                await bench.run()
                break
            except Crash:
                bench.begin_process()
        assert bench.status["phase"] == "Running", fatal
        tickets = {}
        for ticket in bench.start.taken:
            tickets.setdefault(ticket.member_id, set()).add(ticket.challenge)
        assert len(tickets) == size
        assert all(len(challenges) == 1 for challenges in tickets.values()), fatal


def _kill_at(bench, fatal, *, lost):
    kube = bench.kube
    count = 0

    def wrap(name):
        real = getattr(kube, name)

        async def wrapped(*args, **kwargs):
            nonlocal count
            count += 1
            if count - 1 == fatal and not lost:
                raise Crash
            answer = await real(*args, **kwargs)
            if count - 1 == fatal and lost:
                raise Crash
            return answer

        setattr(kube, name, wrapped)

    for name in ("apply", "create", "merge_patch", "delete"):
        wrap(name)


async def test_the_cluster_still_forms_after_a_kill_between_ticket_and_receipt():
    bench = Bench()
    bench.declare()
    bench.start.lose_receipt = True
    await bench.run()
    assert bench.status["phase"] == "Running"
    assert len(bench.start.taken) == 3


class TestRest:
    async def test_ten_minutes_need_no_api_request(self, settled):
        await settled.rest(600)
        assert not settled.kube.calls
        assert 0 < len(settled.etcd.calls) <= 60

    async def test_events_that_change_nothing_need_no_request_either(self, settled):
        for _ in range(20):
            await settled.once()
        assert not settled.kube.calls
        assert not settled.etcd.calls

    async def test_a_new_process_only_looks(self, settled):
        settled.begin_process()
        await settled.run()
        assert not settled.kube.calls
        assert settled.events.posted == [], "a restart is no news of the cluster"

    async def test_a_write_is_never_based_on_an_old_view(self, settled):
        """The pods look the same. Only etcd knows better, and is asked before anything is
        written."""
        settled.kube.remove(DISRUPTION_BUDGETS, "default", "a")
        await settled.once()
        assert settled.etcd.calls
        await settled.run()
        settled.etcd.calls.clear()
        settled.kube.remove(STATEFUL_SETS, "default", "a")
        _orphan_pods(settled)
        await settled.once()
        assert settled.etcd.calls

    @pytest.mark.parametrize(
        ("resource", "name"), [(SERVICES, "a"), (SERVICES, "a-client"), (NETWORK_POLICIES, "a")]
    )
    async def test_services_and_policies_are_put_back_without_asking_etcd_or_reading_twice(
        self, settled, resource, name
    ):
        settled.kube.remove(resource, "default", name)
        settled.kube.log.clear()
        assert await settled.once() == 0
        kind = resource.kind
        assert settled.kube.log[:2] == [f"get {kind} {name}", f"apply {kind} {name}"]
        assert not settled.etcd.calls
        await settled.run()
        assert settled.etcd.calls, "whatever else may have to be done"

    @pytest.mark.parametrize("name", ["a", "a-client"])
    async def test_a_deleted_service_is_put_back_in_one_pass(self, settled, name):
        settled.kube.remove(SERVICES, "default", name)
        assert await settled.once() == 0
        assert settled.kube.find(SERVICES, name)
        await settled.run()
        assert settled.kube.writes()["apply Service"] == 1

    async def test_a_deleted_stateful_set_is_put_back_with_its_replicas(self, settled):
        settled.kube.remove(STATEFUL_SETS, "default", "a")
        _orphan_pods(settled)
        assert await settled.once() == 0
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 3
        assert settled.events.reasons() == ["PutBack"]

    async def test_a_stateful_set_deleted_with_its_pods_waits_for_them_to_stop(self, settled):
        """Created at once, it would find their names taken, and its controller would back off."""
        settled.kube.remove(STATEFUL_SETS, "default", "a")
        await settled.once()
        assert settled.kube.find(STATEFUL_SETS, "a") is None
        for name in ("a-0", "a-1", "a-2"):
            settled.nodes.kill(name)
        assert await settled.once() == 0
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 3
        await settled.run()
        assert settled.status["readyMembers"] == 3
        assert len(settled.start.taken) == 3, "no new tickets"

    async def test_an_altered_child_is_put_back(self, settled):
        altered = settled.kube.live(STATEFUL_SETS, "a")
        altered["metadata"]["labels"]["app"] = "other"
        altered["spec"]["replicas"] = 2
        settled.kube.put(STATEFUL_SETS, altered)
        await settled.once()
        live = settled.kube.live(STATEFUL_SETS, "a")
        assert (live["metadata"]["labels"]["app"], live["spec"]["replicas"]) == ("etcd", 3)

    async def test_kubectl_rollout_restart_was_said_to_be_reverted(self, settled):
        """What it adds to the template is no drift, and no pod is restarted for it either."""
        altered = settled.kube.live(STATEFUL_SETS, "a")
        notes = altered["spec"]["template"]["metadata"]["annotations"]
        notes["kubectl.kubernetes.io/restartedAt"] = "2026-11-26T00:00:00Z"
        settled.kube.put(STATEFUL_SETS, altered)
        await settled.run()

        live = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]["metadata"]
        assert live["annotations"] == notes
        assert settled.kube.calls["delete Pod"] == 0

    async def test_a_child_without_its_labels_gets_them_back(self, settled):
        stripped = settled.kube.live(SERVICES, "a-client")
        del stripped["metadata"]["labels"]
        settled.kube.put(SERVICES, stripped)
        await settled.run()
        assert settled.kube.live(SERVICES, "a-client")["metadata"]["labels"]["etcd_cluster"] == "a"

    async def test_a_killed_pod_comes_back_with_its_data_and_no_ticket(self, settled):
        tickets = len(settled.start.taken)
        settled.nodes.kill("a-1")
        await settled.once()
        assert settled.condition("Degraded")["status"] == "True"
        await settled.run()
        assert settled.condition("Degraded")["status"] == "False"
        assert len(settled.start.taken) == tickets
        assert settled.events.reasons()[-1] == "AsDeclared"

    @pytest.mark.parametrize("silent_looks", [1, 2])
    async def test_one_look_without_an_answer_is_not_reported(self, settled, silent_looks):
        """Each time it caused an Event, `AsDeclared`, and two writes of the status."""
        settled.forget()
        before = settled.status
        settled.etcd.silent = set(settled.etcd.members)
        settled.clock.now += 60
        for _ in range(silent_looks):
            settled.clock.now += await settled.once()
        told = settled.status != before
        settled.etcd.silent.clear()
        await settled.run()
        assert told is (silent_looks > 1)
        assert settled.events.reasons() == ["AsDeclared"] * told

    async def test_a_held_cluster_was_free_for_a_moment_at_each_missing_answer(self, settled):
        """`Blocked` came and went, with an Event and two writes of the status each time."""
        body = settled.body
        body["spec"]["version"] = "3.5.35"
        settled.kube.put(ETCD_CLUSTERS, body)
        await settled.run()
        assert settled.condition("Blocked")["reason"] == "VersionJump"
        settled.forget()
        settled.etcd.silent = set(settled.etcd.members)
        settled.clock.now += 60
        settled.clock.now += await settled.once()
        settled.etcd.silent.clear()
        await settled.run()
        assert not settled.kube.writes()
        assert settled.events.reasons() == []

    async def test_the_delay_of_a_step_counts_from_the_event_that_caused_it(self, settled):
        settled.kube.remove(SERVICES, "default", "a")
        asked_at.set(asyncio.get_running_loop().time() - 7.0)
        await settled.once()
        value = settled.metrics.registry.get_sample_value
        name = "etcd_operator_step_delay_seconds_bucket"
        quick = value(name, {"step": "ApplyChild", "le": "5.0"})
        assert value(name, {"step": "ApplyChild", "le": "10.0"}) == quick + 1

    async def test_metrics_show_the_cluster(self, settled):
        value = settled.metrics.registry.get_sample_value
        labels = {"namespace": "default", "etcd_cluster": "a"}
        assert value("etcd_cluster_members_ready", labels) == 3
        assert value("etcd_cluster_members", labels) == 3
        assert value("etcd_cluster_available", labels) == 1


class TestDeletion:
    async def test_a_deleted_cluster_is_left_to_garbage_collection(self, settled):
        settled.kube.remove(ETCD_CLUSTERS, "default", "a")
        assert await settled.once() is None
        assert not settled.kube.calls
        labels = {"namespace": "default", "etcd_cluster": "a"}
        registry = settled.metrics.registry
        assert registry.get_sample_value("etcd_cluster_members_ready", labels) is None

    async def test_a_cluster_that_is_being_deleted_is_not_touched(self, settled):
        body = settled.body
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        settled.kube.put(ETCD_CLUSTERS, body)
        settled.kube.remove(STATEFUL_SETS, "default", "a")
        assert await settled.once() is None
        assert not settled.kube.calls

    async def test_a_cluster_that_is_created_again_holds_and_names_both_ways_out(self, settled):
        old = settled.body["metadata"]["uid"]
        _garbage_collect(settled)
        settled.declare()
        delay = await settled.run()
        blocked = settled.condition("Blocked")
        assert blocked["reason"] == "RetainedClaims"
        assert old in blocked["message"]
        assert "data-a-0" in blocked["message"]
        assert 0 < delay <= 30, "a claim that is deleted by hand must be noticed"
        assert settled.kube.find(STATEFUL_SETS, "a") is None
        assert settled.events.reasons().count("RetainedClaims") == 1

    async def test_discard_deletes_the_claims_and_starts_empty(self, settled):
        old = settled.body["metadata"]["uid"]
        before = {ticket.cluster_id for ticket in settled.start.taken}
        _garbage_collect(settled)
        settled.declare(retainedClaims={"discard": old})
        await settled.run()
        assert settled.status["phase"] == "Running"
        assert settled.kube.calls["delete PersistentVolumeClaim"] == 3
        assert not before & {ticket.cluster_id for ticket in settled.start.taken[3:]}


def _orphan_pods(bench):
    """Does what the garbage collector does for `kubectl delete --cascade=orphan`."""
    for resource, namespace, name in list(bench.kube.objects):
        if resource == PODS:
            pod = bench.kube.live(PODS, name, namespace)
            del pod["metadata"]["ownerReferences"]
            bench.kube.put(PODS, pod)


def _garbage_collect(bench):
    for resource, namespace, name in list(bench.kube.objects):
        if resource == PODS:
            bench.nodes.kill(name, namespace)
        elif resource != CLAIMS:
            bench.kube.remove(resource, namespace, name)
    bench.etcd.listed.clear()


class TestRefusal:
    BAD = {"size": 3, "version": "3.2.13"}  # noqa: RUF012

    async def test_is_reported_in_one_pass_and_nothing_is_created(self, bench):
        bench.declare(version="3.2.13")
        assert await bench.once() is None
        assert bench.condition("Accepted")["reason"] == "UnsupportedVersion"
        assert "3.5.32" in bench.condition("Accepted")["message"]
        assert bench.status["phase"] == "Failed"
        assert bench.kube.calls == {"apply EtcdCluster/status": 1}
        assert bench.events.reasons() == ["UnsupportedVersion"]

    async def test_is_reported_once(self, bench, caplog):
        caplog.set_level(logging.INFO)
        bench.declare(version="3.2.13")
        for _ in range(5):
            await bench.once()
        assert bench.kube.calls == {"apply EtcdCluster/status": 1}
        assert bench.events.reasons() == ["UnsupportedVersion"]
        assert len(caplog.records) == 1
        assert caplog.records[0].exc_info is None

    async def test_ends_when_the_spec_is_corrected(self, bench):
        bench.declare(version="3.2.13")
        await bench.once()
        bench.kube.put(ETCD_CLUSTERS, {**bench.body, "spec": {"size": 1}})
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_of_a_running_cluster_leaves_it_running(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": self.BAD})
        assert await settled.once() is None
        assert settled.status["phase"] == "Running"
        assert settled.kube.writes() == {"apply EtcdCluster/status": 1}


class TestPause:
    async def test_stops_all_writes_except_the_status(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 3, "paused": True}})
        settled.kube.remove(SERVICES, "default", "a")
        assert await settled.once() is None
        assert settled.kube.calls == {"apply EtcdCluster/status": 1}
        assert settled.status["controlPaused"] is True
        assert settled.condition("Paused")["status"] == "True"
        assert settled.kube.find(SERVICES, "a") is None
        assert settled.events.reasons() == ["Paused"]
        assert not settled.etcd.calls

    async def test_ends(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 3, "paused": True}})
        settled.kube.remove(SERVICES, "default", "a")
        await settled.once()
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 3}})
        await settled.run()
        assert settled.kube.find(SERVICES, "a")
        assert settled.condition("Paused") is None
        assert settled.status["controlPaused"] is False


class TestForeign:
    async def test_a_service_of_another_owner_is_reported_and_left_alone(self, bench):
        theirs = bench.kube.put(
            SERVICES, {"metadata": {"name": "a", "namespace": "default"}, "spec": {"x": 1}}
        )
        bench.declare()
        delay = await bench.run()
        assert bench.condition("Blocked")["reason"] == "NameTaken"
        assert bench.kube.live(SERVICES, "a") == theirs
        assert bench.kube.writes() == {"apply EtcdCluster/status": 1}
        assert delay == requeue.FOREIGN_SECONDS

    async def test_once_it_is_gone_the_cluster_is_created(self, bench):
        bench.kube.put(SERVICES, {"metadata": {"name": "a", "namespace": "default"}, "spec": {}})
        bench.declare()
        bench.clock.now += await bench.run()
        bench.kube.remove(SERVICES, "default", "a")
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_the_services_of_the_coreos_operator_led_to_an_empty_cluster(self, bench):
        """Its EtcdCluster was still there when this operator was installed, and owns them. Its
        members lost each other's names, and clients found nothing of their data."""
        body = bench.declare()
        coreos = {"app": "etcd", "etcd_cluster": "a"}
        owner = {"kind": "EtcdCluster", "name": "a", "uid": body["metadata"]["uid"]}
        for name in ("a", "a-client"):
            metadata = {"name": name, "namespace": "default", "labels": coreos}
            metadata |= {"ownerReferences": [owner | {"controller": True}]}
            bench.kube.put(SERVICES, {"metadata": metadata, "spec": {"selector": coreos}})
        bench.clock.now += await bench.run()
        assert bench.condition("Blocked")["reason"] == "NameTaken"
        assert "Service a belongs to the coreos operator" in bench.condition("Blocked")["message"]
        assert bench.kube.writes() == {"apply EtcdCluster/status": 1}

        bench.kube.remove(SERVICES, "default", "a")
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert "Service a-client belongs" in bench.condition("Blocked")["message"]
        assert bench.kube.live(SERVICES, "a-client")["spec"]["selector"] == coreos

    async def test_a_stateful_set_of_another_owner(self, bench):
        theirs = bench.kube.put(
            STATEFUL_SETS,
            {"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 0}},
        )
        bench.declare()
        await bench.run()
        assert bench.condition("Blocked")["reason"] == "NameTaken"
        assert bench.kube.live(STATEFUL_SETS, "a") == theirs


async def test_two_operators_at_once_give_each_member_one_ticket():
    """The Lease only brings order. Safety must not depend on it."""
    bench = Bench()
    bench.declare()
    first, second = bench.reconciler, Bench.begin_process
    second(bench)
    other = bench.reconciler
    for _ in range(60):
        for reconciler in (first, other):
            await reconciler.reconcile(KEY)
            bench.nodes.turn()
        bench.clock.now += 0.5
    assert bench.status["phase"] == "Running"
    tickets = [(ticket.member_id, ticket.challenge) for ticket in bench.start.taken]
    assert len(tickets) == len(set(tickets)) == 3
    assert read_secret(bench.kube.objects[_secret(bench)]).bootstrap.attempt == 1


def _secret(bench):
    return next(name for name in bench.kube.objects if name[2] == "a-start")
