"""How soon a cluster is reconciled again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import cluster_body

from etcd_operator.cluster.observe import ObservedCluster
from etcd_operator.cluster.requeue import (
    DECLINED_SECONDS,
    DECLINED_TRIES,
    FIRST_POLL,
    LAST_POLL,
    MANY_POLLS,
    WAIT_SECONDS,
    Memory,
    requeue_after,
)
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Leader, MemberPromote, Wait
from etcd_stateful.observed.members import EtcdView
from etcd_stateful.observed.objects import Secret
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records

FORMED = records.latch(records.first_attempt("uid-a", {"a-0": "http://a-0:2380"}, "3.7.3"))


def seen(*pods):
    body = cluster_body()
    body["metadata"] |= {"uid": "uid-a", "generation": 1}
    observation = Observation(parse_cluster(body), Secret("1", FORMED), None, None, None, pods=pods)
    return ObservedCluster(observation, fresh=True, next_sweep=40.0)


def pod(*, in_start=False, deleting=False):
    return Pod(
        ordinal=0,
        name="a-0",
        uid="u",
        resource_version="1",
        address="10.0.0.1",
        deleting=deleting,
        ready=False,
        in_start=in_start,
        etcd_started=not in_start,
    )


def delays(step, looked_at, times=12):
    memory = Memory("uid-a")
    return [requeue_after(memory, looked_at, step) for _ in range(times)]


def test_what_may_end_without_an_event_is_polled():
    """Kubernetes reports neither that a learner has caught up, nor that a leader answers."""
    found = delays(Wait("learner a-3 to catch up", soon=True), seen(pod()))
    assert found[0] == FIRST_POLL
    assert found == sorted(found)
    assert found[-1] == LAST_POLL


def test_silent_members_were_queried_every_second_for_as_long_as_it_lasted():
    found = delays(Wait("a quorum to answer", soon=True), seen(pod()), times=1000)
    assert set(found[10:MANY_POLLS]) == {LAST_POLL}
    assert found == sorted(found)
    assert found[-1] == WAIT_SECONDS


def test_what_ends_with_an_event_is_not_polled():
    assert set(delays(Wait("pod a-3 to be made"), seen(pod()))) == {WAIT_SECONDS}


@pytest.mark.parametrize(
    ("touch", "delay"), [(2.0, 2.0), (0.01, FIRST_POLL), (9.0, WAIT_SECONDS), (0.0, WAIT_SECONDS)]
)
def test_a_touch_that_waits_for_something_else_caused_twenty_passes_a_second(touch, delay):
    looked_at = replace(seen(), next_touch=touch)

    assert set(delays(Wait("pod a-3 to be made"), looked_at)) == {delay}


def test_what_is_held_for_its_version_may_still_come_and_was_left_to_the_sweep():
    """A pod in `start` got its ticket tens of seconds late."""
    held = Hold("VersionFails", "spec.version is 3.6.16. Until then: pod a-0 to start")
    with_quorum = replace(seen(pod()).observation, etcd=EtcdView(2, ()))

    assert delays(held, seen(pod(in_start=True)))[0] == FIRST_POLL
    assert delays(held, seen(pod()))[0] == FIRST_POLL, "a quorum may come back"
    assert delays(held, replace(seen(), observation=with_quorum))[0] == WAIT_SECONDS
    assert not Memory("uid-a", step=held).quiet


def test_a_learner_was_left_to_the_sweep_while_something_else_was_held():
    """Why a pod gets no ticket is said in place of the wait for the learner, which goes on."""
    held = Hold("ForeignData", "the volume of pod a-4 holds data of a-4", soon=True)
    present = seen(pod())
    present = replace(present, observation=replace(present.observation, etcd=EtcdView(1, ())))

    assert delays(held, present)[0] == FIRST_POLL
    assert delays(replace(held, soon=False), present)[0] == present.next_sweep
    assert not Memory("uid-a", step=held).quiet
    assert Memory("uid-a", step=replace(held, soon=False)).quiet


def test_start_is_polled_whatever_the_wait():
    assert delays(Wait("pod a-0 to start"), seen(pod(in_start=True)))[0] == FIRST_POLL


def test_start_in_a_pod_that_stops_is_not_polled():
    stops = pod(in_start=True, deleting=True)
    assert delays(Wait("pod a-0 to stop"), seen(stops))[0] == WAIT_SECONDS


class TestDeclined:
    STEP = MemberPromote(Leader("10.0.0.1", 1, 2), 8, "has caught up")

    def tries(self, memory, times, step=STEP):
        found = []
        for _ in range(times):
            found.append(memory.next_try(step))
            memory.step = step
        return found

    def test_at_full_speed_for_longer_than_etcds_health_interval(self):
        found = self.tries(Memory("uid-a"), DECLINED_TRIES)
        assert found[0] == FIRST_POLL, "a learner that is in sync any moment"
        assert set(found[3:]) == {DECLINED_SECONDS}
        assert sum(found) > 6

    def test_then_less_and_less_often(self):
        found = self.tries(Memory("uid-a"), 200)
        assert found == sorted(found)
        assert found[-1] == WAIT_SECONDS

    def test_another_step_starts_over(self):
        memory = Memory("uid-a")
        self.tries(memory, 100)
        other = MemberPromote(Leader("10.0.0.1", 1, 2), 9, "has caught up")
        assert memory.next_try(other) == FIRST_POLL


@pytest.mark.parametrize("times", [1, 30])
def test_a_step_that_comes_too_late_is_repeated_at_growing_intervals(times):
    memory = Memory("uid-a")
    found = [memory.next_retry() for _ in range(times)]
    assert found[0] == FIRST_POLL
    assert found == sorted(found)
    assert found[-1] <= WAIT_SECONDS
