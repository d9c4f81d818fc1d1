"""Recovery from a lost quorum: the steps of the planner. `recovery_world` has the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recovery_world import RecoveryWorld, formed, lost
from views import with_pod
from worlds import Conflict, drive, is_write, labels, once

from etcd_stateful.api.tls import Link, Links
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    Hold,
    Settled,
    WriteBootstrap,
)
from etcd_stateful.observed.certificates import Certificates
from unit.membership.recovery.driving import drive_until, hold, raised, wait


class TestTheWholeChain:
    def test_the_survivor_continues_alone_and_the_others_join_it(self) -> None:
        world = lost()
        claim = world.claims[1].uid
        had = len(world.history)
        world.ask(1)

        assert drive(world) == Settled()
        assert labels(world.history[had:]) == [
            "StatefulSet c",
            "ledger 3",
            "StatefulSet c",
            "CreateJob",
            "record data-c-1",
            "DeleteJob",
            "delete data-c-0",
            "delete data-c-2",
            "ledger 3",
            "StatefulSet c",
            "PodDisruptionBudget c",
            "add c-0",
            "PodDisruptionBudget c",
            "ledger 4",
            "record data-c-0",
            "push c-0 existing",
            "promote c-0",
            "add c-2",
            "ledger 5",
            "record data-c-2",
            "push c-2 existing",
            "promote c-2",
        ]
        assert world.claims[1].uid == claim
        assert (world.record.epoch, world.record.survivor) == (2, "")
        assert {world.epochs[one.uid] for one in world.claims.values()} == {2}
        assert len(world.jobs) == 1

    def test_no_human_is_needed_while_the_survivor_starts(self) -> None:
        """The others wait with empty volumes then, as they should."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        while world.record.survivor or world.record.epoch == 1:
            once(world)
        world.stuck = {1}
        for _ in range(20):
            step = once(world)
            assert not isinstance(step, Hold), step
        assert world.pods[0].where == world.pods[2].where == "start"
        world.stuck = set()

        assert drive(world) == Settled()

    @pytest.mark.parametrize(
        ("size", "gone", "kept"),
        [(1, (), 0), (2, (0,), 1), (3, (1, 2), 0), (5, (0, 2, 4), 3), (5, (0, 1, 2), 4)],
    )
    def test_of_any_size_and_any_ordinal(self, size: int, gone: tuple[int, ...], kept: int) -> None:
        world = formed(size)
        if gone:
            world.wipe(*gone)
            drive(world, idle=3)
            world.ask(kept)

        assert drive(world) == Settled()
        assert len(world.etcds[world.record.cluster_id].voters) == size

    @pytest.mark.parametrize("size", [1, 3])
    def test_the_survivor_may_be_beyond_the_size(self, size: int) -> None:
        """Members below it join first. It is removed once they serve."""
        world = lost(5, (0, 1, 2))
        world.ask(4)
        world.edit(size=size)

        assert drive(world) == Settled()
        assert len(world.etcds[world.record.cluster_id].voters) == size
        recorded = [one for one in sorted(world.claims) if world.member_record(one)]
        assert recorded == list(range(size))

    def test_a_request_counts_for_one_recovery(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)

        assert decide(world.observe()) == Settled()
        world.wipe(0, 2)
        rest = drive(world)

        hold(rest, "QuorumLost", "epoch 2 and the survivor")
        assert len(world.pods) == 3

    def test_one_recovery_may_follow_another(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)
        world.wipe(1, 2)
        drive(world)
        world.ask(0)

        assert drive(world) == Settled()
        assert world.record.epoch == 3
        assert len(world.jobs) == 2

    def test_a_settled_cluster_does_not_look_for_jobs(self) -> None:
        world = lost()
        assert not survivor.needs_lookup(world.observe())
        world.ask(1)
        assert survivor.needs_lookup(world.observe())
        drive(world)
        assert not survivor.needs_lookup(world.observe())

    def test_any_operator_continues_it_from_any_point(self) -> None:
        """Every step is chosen by an operator that has just started. Here each irreversible write
        is also repeated, as if its answer had been lost. The repetition is refused."""
        world = lost()
        world.ask(1)
        for _ in range(200):
            step = decide(world.observe())
            if not is_write(step):
                if isinstance(step, Settled):
                    break
                world.turn()
                continue
            world.apply(step)
            if isinstance(step, DeleteClaim | DeleteJob | CreateJob | WriteBootstrap):
                with pytest.raises((Conflict, AssertionError, KeyError)):
                    world.apply(step)
        assert decide(world.observe()) == Settled()
        assert len(world.jobs) == 1


class TestBeforeTheEpochIsRaised:
    def test_an_internal_error_hid_that_certificates_had_expired_meanwhile(self) -> None:
        """The pods had stopped, and the epoch waits for certificates with which the survivor can
        start. The status asked for a report of a bug, in every pass."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        seen = world.observe()
        cluster = replace(seen.cluster, links=Links(Link("Static", "expired")))

        step = decide(replace(seen, cluster=cluster, certificates=Certificates(0.0)))

        hold(step, "CertificatesUnusable", "Secret expired")

    def test_removing_the_request_cancels_it(self) -> None:
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        assert not world.pods

        world.take_back()

        hold(drive(world), "QuorumLost")
        assert world.record.epoch == 1
        assert len(world.pods) == 3
        assert not world.jobs

    def test_cancelled_with_another_minor_in_the_spec_all_pods_stayed_away(self) -> None:
        """Whether the version can change depends on what members report."""
        world = lost()
        world.ask(1)
        drive_until(world, WriteBootstrap)
        assert not world.pods
        world.edit(version="3.6.16")

        world.take_back()

        hold(drive(world), "QuorumLost")
        assert len(world.pods) == 3

    def test_a_quorum_that_comes_back_cancels_it(self) -> None:
        """The pods were about to be stopped when the members were back."""
        world = formed()
        world.ask(1, fenced=["c-0", "c-2"])
        for ordinal in (0, 2):
            world.pods[ordinal].silent = True
        wait_for_stop = decide(world.observe())
        assert isinstance(wait_for_stop, ApplyChild)
        for pod in world.pods.values():
            pod.silent = False

        hold(drive(world), "RecoveryNotNeeded")
        assert world.record.epoch == 1
        assert world.record.declined

    def test_no_pod_is_left_when_the_epoch_is_raised(self) -> None:
        world = lost()
        world.ask(1)
        world.apply(decide(world.observe()))
        assert world.observe().replicas == 0

        step = wait(decide(world.observe()), "pod c-0", "pod c-1", "pod c-2", "to stop")

        assert step.soon

    def test_a_pod_without_its_labels_is_waited_for(self) -> None:
        """It was ours once. Nothing stops it, which the wait did not say, and it still uses the
        volume."""
        world = lost()
        world.ask(1)
        world.strangers = ("c-2",)
        for _ in range(20):
            once(world)

        ways = "delete the Node, or force-delete the pod"
        wait(decide(world.observe()), "pods c-2 to stop", "kubectl delete pod c-2", ways)
        assert world.record.epoch == 1

    def test_stopping_all_pods_and_raising_the_epoch_are_decided_twice(self) -> None:
        world = lost()
        world.ask(1)

        assert is_final(drive_until(world, ApplyChild))
        assert is_final(drive_until(world, WriteBootstrap))
        assert is_final(drive_until(world, CreateJob))
        assert is_final(drive_until(world, DeleteClaim))


def test_another_minor_in_the_spec_kept_the_survivor_away() -> None:
    world = raised()
    world.edit(version="3.6.16")

    drive(world, idle=8, limit=600)

    assert len(world.serving()) == 3


def test_a_new_default_version_kept_the_survivor_away() -> None:
    """The cluster was created by an older operator, and its spec names no version."""
    world = lost(version="3.7.2")
    del world.body["spec"]["version"]
    world.ask(1)

    drive(world, idle=8, limit=600)

    assert len(world.serving()) == 3
    assert world.record.version == "3.7.2"


class TestFencing:
    def stuck(self) -> RecoveryWorld:
        """The node of c-2 is silent, so nothing confirms that its pod has stopped."""
        world = formed()
        world.wipe(0)
        world.pods[2].silent = True
        world.turn()
        world.ask(1)
        world.apply(drive_until(world, ApplyChild))
        world.pods[2].deleting = world.pods[2].overdue = True
        world.pods[2].trouble = "it was deleted and node n2 has not confirmed that it stopped"
        for _ in range(5):
            world.turn()
        return world

    def test_a_pod_that_does_not_confirm_is_reported_and_waited_for(self) -> None:
        world = self.stuck()

        wait(decide(world.observe()), "c-2", "node n2", "list the pod in spec.recovery.fenced")

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_survivor_that_does_not_confirm_was_to_be_fenced_which_is_refused(
        self, begun: bool
    ) -> None:
        """Its volume is needed, so a spec that lists it among the fenced is not accepted."""
        world = raised() if begun else lost()
        if begun:
            world.take_back()
        else:
            world.ask(1)
            world.apply(drive_until(world, ApplyChild))
        stuck = {"deleting": True, "overdue": True, "trouble": "it was deleted", "ready": False}
        [kept] = with_pod(lost().observe(), 1, **stuck).pods[1:2]

        step = decide(replace(world.observe(), pods=(kept,)))

        way = "if its node is off for good, delete the Node, or force-delete the pod"
        assert "fenced" not in wait(step, "pod c-1 (it was deleted", way).reason

    def test_a_fenced_pod_is_force_deleted(self) -> None:
        world = self.stuck()
        world.ask(1, fenced=["c-2"])

        step = decide(world.observe())

        assert isinstance(step, DeletePod)
        assert (step.name, step.force) == ("c-2", True)
        assert drive(world) == Settled()

    def test_a_fenced_pod_that_a_finalizer_keeps_was_force_deleted_for_ever(self) -> None:
        world = self.stuck()
        world.ask(1, fenced=["c-2"])

        step = decide(with_pod(world.observe(), 2, kept_by="mesh/a"))

        wait(step, "pod c-2 (its finalizer mesh/a keeps it: if what set that is gone, remove it")

    def test_a_fenced_pod_is_given_time_to_stop(self) -> None:
        """A human may be wrong. A node that answers stops the pod within its grace period."""
        world = self.stuck()
        world.ask(1, fenced=["c-2"])
        world.pods[2].overdue = False

        wait(decide(world.observe()), "pod c-2")

    def test_a_pod_that_answers_is_not_fenced(self) -> None:
        world = lost()
        world.ask(1, fenced=["c-0"])

        hold(drive(world), "RecoveryRefused", "spec.recovery.fenced lists c-0, but c-0 answers")
        assert len(world.pods) == 3

    def test_a_fenced_pod_may_still_be_ready(self) -> None:
        """Kubernetes notices only after 40 seconds that a node is off."""
        seen = lost().observe()
        world = lost()
        world.pods[2].silent = True
        world.ask(1, fenced=["c-2"])
        pods = tuple(
            replace(pod, ready=True, answer=None) if pod.ordinal == 2 else pod
            for pod in world.observe().pods
        )
        seen = replace(world.observe(), pods=pods)

        assert survivor.accepted(seen) is not None
        assert survivor.accepted(replace(seen, cluster=world_without_fence(seen))) is None


def world_without_fence(seen: Observation) -> Any:
    assert seen.cluster.recovery is not None
    return replace(seen.cluster, recovery=replace(seen.cluster.recovery, fenced=()))
