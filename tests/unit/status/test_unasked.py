"""The status while the spec is refused or the cluster is paused, when etcd is not queried.

These are whole passes, because only the shell knows what it observes then.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from reconcile_bench import Bench

from etcd_operator.kube.api import CLAIMS, ETCD_CLUSTERS, PODS, SECRETS, STATEFUL_SETS
from etcd_stateful.observed.members import Alarm

SAID = "etcd refuses writes: alarm NOSPACE is raised"


@pytest.fixture
async def settled() -> Bench:
    return await Bench.settled()


async def edited(bench: Bench, **spec: Any) -> None:
    """An edit, and the one pass that it causes. None removes a field."""
    wanted = {**bench.body["spec"], **spec}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    bench.kube.put(ETCD_CLUSTERS, {**bench.body, "spec": wanted})
    await bench.once()


def readiness(bench: Bench, name: str, ready: str) -> None:
    pod = copy.deepcopy(bench.kube.live(PODS, name))
    for one in pod["status"]["conditions"]:
        if one["type"] == "Ready":
            one["status"] = ready
    bench.kube.put(PODS, pod)


async def seen_later(bench: Bench, name: str, ready: str) -> None:
    """Continues after the second within which the details of a status are not written again."""
    readiness(bench, name, ready)
    bench.clock.now += 1.0
    await bench.once()


def said(bench: Bench, kind: str) -> tuple[str, str]:
    found = bench.condition(kind) or {"status": "", "reason": ""}
    return found["status"], found["reason"]


async def until(bench: Bench, kind: str, *, passes: int = 40) -> None:
    """Passes and rounds of the world until this condition is true."""
    for _ in range(passes):
        delay = await bench.once()
        if said(bench, kind)[0] == "True":
            return
        bench.nodes.turn()
        bench.clock.now += delay or 1.0
    raise AssertionError(f"{kind} has not come up: {bench.status['conditions']}")


class TestRefused:
    """After an invalid edit, or an operator that no longer supports its version, a cluster was
    reported as unavailable while all of its members served."""

    async def test_it_is_available_as_long_as_its_members_serve(self, settled: Bench) -> None:
        await edited(settled, version="3.7.0")

        assert said(settled, "Accepted") == ("False", "UnsupportedVersion")
        assert said(settled, "Available") == ("True", "QuorumServes")
        assert said(settled, "Degraded") == ("False", "AllMembersServe")
        assert said(settled, "Blocked") == ("", "")
        assert settled.condition("Available")["message"] == "3 of 3 members serve"

    async def test_its_pods_are_still_observed(self, settled: Bench) -> None:
        await edited(settled, size=9)
        readiness(settled, "a-1", "False")
        assert await settled.once() is None, "the next event comes"

        assert said(settled, "Available") == ("True", "QuorumServes")
        assert said(settled, "Degraded") == ("True", "MembersNotReady")
        assert "a-1" in settled.condition("Degraded")["message"]
        assert settled.status["members"] == {"ready": ["a-0", "a-2"], "unready": ["a-1"]}
        assert settled.status["readyMembers"] == 2
        readiness(settled, "a-0", "False")
        wait = await settled.once()
        assert wait, "a status that changes in its details only is not written twice a second"
        settled.clock.now += wait
        assert await settled.once() is None
        assert settled.status["readyMembers"] == 1
        readiness(settled, "a-2", "False")
        await settled.once()
        assert said(settled, "Available") == ("False", "NoQuorum")

    @pytest.mark.parametrize("wiped", [False, True])
    async def test_a_new_operator_reports_it_even_without_a_status(
        self, settled: Bench, wiped: bool
    ) -> None:
        body = {**settled.body, "spec": {**settled.body["spec"], "version": "3.7.0"}}
        settled.kube.put(ETCD_CLUSTERS, {**body, "status": {}} if wiped else body)
        settled.begin_process()
        await settled.once()

        assert said(settled, "Available") == ("True", "QuorumServes")
        assert said(settled, "Degraded") == ("False", "AllMembersServe")
        assert settled.status["phase"] == "Running"

    async def test_even_if_its_secret_is_lost_and_not_recreated(self, settled: Bench) -> None:
        settled.kube.remove(SECRETS, "default", "a-start")
        await edited(settled, size=9)

        assert said(settled, "Available") == ("True", "QuorumServes")

    async def test_conditions_that_were_true_still_are(self, settled: Bench) -> None:
        before = copy.deepcopy(settled.condition("Plaintext"))
        assert before

        await edited(settled, size=9)

        assert settled.condition("Plaintext") == before, "of the spec of then"
        assert settled.events.reasons() == ["InvalidSpec"]
        await edited(settled, size=3)
        assert "Plaintext" not in settled.events.reasons()

    async def test_users_and_restores_of_the_earlier_spec_are_kept(self, settled: Bench) -> None:
        known = {
            "auth": {"enabled": True, "users": ["web"], "roles": []},
            "restore": {"uid": "u", "state": "Done", "message": "it has the data of the backup"},
        }
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "status": {**settled.status, **known}})

        await edited(settled, size=9)

        assert {key: settled.status.get(key) for key in known} == known

    async def test_an_alarm_is_not_forgotten(self, settled: Bench) -> None:
        settled.etcd.raised = (Alarm("NOSPACE", 1),)
        await until(settled, "Degraded")

        await edited(settled, size=9)
        await settled.once()

        assert said(settled, "Degraded") == ("True", "AlarmRaised")
        assert settled.condition("Degraded")["message"] == f"{SAID}, when it was last asked"

    async def test_it_says_that_it_is_paused_too(self, settled: Bench) -> None:
        await edited(settled, size=9, paused=True)

        assert said(settled, "Paused") == ("True", "SpecPaused")

    async def test_nothing_is_claimed_of_a_cluster_that_never_formed(self) -> None:
        bench = Bench()
        bench.declare(size=9)
        await bench.once()

        assert said(bench, "Available") == ("False", "NotAccepted")
        assert said(bench, "Degraded") == ("False", "NotFormed")
        assert "members" not in bench.status

    async def test_it_writes_nothing_and_sends_no_request(self, settled: Bench) -> None:
        await edited(settled, version="3.7.0")
        await settled.once()

        assert settled.kube.calls == {"apply EtcdCluster/status": 1}
        assert not settled.etcd.calls

    async def test_the_metrics_follow_its_pods_too(self, settled: Bench) -> None:
        await edited(settled, size=9)
        for name in ("a-0", "a-1", "a-2"):
            readiness(settled, name, "False")
        await settled.once()

        labels = {"namespace": "default", "etcd_cluster": "a"}
        value = settled.metrics.registry.get_sample_value
        assert value("etcd_cluster_available", labels) == 0
        assert value("etcd_cluster_members_ready", labels) == 0
        assert value("etcd_cluster_size", labels) == 3

    async def test_no_alert_said_that_a_member_is_missing_once_the_operator_had_restarted(
        self, settled: Bench
    ) -> None:
        """Its size was unknown then, and nothing replaces a member of such a cluster."""
        await edited(settled, size=9)
        settled.begin_process()
        readiness(settled, "a-0", "False")
        await settled.once()

        labels = {"namespace": "default", "etcd_cluster": "a"}
        value = settled.metrics.registry.get_sample_value
        assert value("etcd_cluster_members_ready", labels) == 2
        assert value("etcd_cluster_size", labels) == 3


class TestPaused:
    """A pause is an edit. Half-way through a change it made the status forget the change."""

    async def test_half_way_through_growth_it_is_still_scaling(self, settled: Bench) -> None:
        await edited(settled, size=5)
        for _ in range(40):
            settled.nodes.turn()
            settled.clock.now += await settled.once() or 1.0
            if settled.etcd.learners:
                break
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 5
        assert said(settled, "Scaling") == ("True", "ScalingUp")

        await edited(settled, paused=True)
        await settled.once()

        assert said(settled, "Scaling") == ("True", "Paused")
        assert said(settled, "Progressing") == ("False", "Paused")
        assert "Recovering" not in {one["type"] for one in settled.status["conditions"]}
        await edited(settled, paused=None)
        assert said(settled, "Scaling") == ("True", "ScalingUp")
        await settled.run(200)
        assert said(settled, "Scaling") == ("", "")

    async def test_half_way_through_a_replacement_it_is_still_recovering(
        self, settled: Bench
    ) -> None:
        settled.kube.remove(CLAIMS, "default", "data-a-2")
        settled.nodes.kill("a-2")
        await until(settled, "Recovering")

        await edited(settled, paused=True)
        await settled.once()

        assert said(settled, "Recovering") == ("True", "Paused")
        assert said(settled, "Degraded")[0] == "True"

    async def test_an_alarm_is_not_forgotten(self, settled: Bench) -> None:
        settled.etcd.raised = (Alarm("NOSPACE", 1),)
        await until(settled, "Degraded")
        assert settled.condition("Degraded")["message"] == SAID

        await edited(settled, paused=True)

        assert said(settled, "Degraded") == ("True", "AlarmRaised")
        await seen_later(settled, "a-1", "False")
        assert said(settled, "Degraded") == ("True", "MembersNotReady")
        await seen_later(settled, "a-1", "True")
        assert settled.condition("Degraded")["message"] == f"{SAID}, when it was last asked"
        settled.etcd.raised = ()
        await edited(settled, paused=None)
        await settled.run()
        assert said(settled, "Degraded") == ("False", "AllMembersServe")
