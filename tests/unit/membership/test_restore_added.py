"""`spec.bootstrap.restore` is added, changed or removed before a cluster has formed.

An empty cluster never forms in place of the backup.
"""

from __future__ import annotations

from typing import Any

import pytest
from restore_world import FIRST, LATER, RESTORE, RestoreWorld, backup, named, place
from worlds import body, drive, labels, until

from etcd_stateful.backup.reference import Chosen
from etcd_stateful.membership.beginning import attempts, bootstrap_source
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, PushTicket, Settled, Wait, WriteBootstrap

ASKED = {"restore": RESTORE}


def waiting(size: int = 3, **spec: Any) -> RestoreWorld:
    """A cluster that began without a backup. Its pods wait for an image, and have no tickets."""
    world = RestoreWorld(body(size, **({"version": "3.6.14"} | spec)))
    world.bad_images = {"3.6.14"}
    drive(world, idle=3)
    assert world.pods
    assert not world.record.issued
    world.history.clear()
    return world


class TestNoTicketsGiven:
    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize("edit", [{}, {"version": "3.6.15"}, {"size": 2}])
    def test_the_backup_was_silently_ignored_and_the_cluster_formed_empty(
        self, edit: dict[str, Any], size: int
    ) -> None:
        world = waiting(size)
        world.edit(bootstrap=ASKED, **edit)
        world.bad_images = set()

        assert drive(world, idle=3) == Settled()

        told = labels(world.history)
        assert "CreateJob" in told
        assert not [one for one in told if one.endswith("new")]
        assert world.data(0).cluster_id == world.record.cluster_id
        assert (world.record.attempt, world.record.bump > 0) == (2, True)
        assert len(world.etcd.voters) == world.cluster.size
        assert {pod.version for pod in world.pods.values()} == {str(world.cluster.version)}

    def test_before_anything_is_created_it_is_like_a_new_cluster(self) -> None:
        world = RestoreWorld(body(3))
        world.apply(until(world, "CreateSecret"))
        first = world.record
        world.edit(bootstrap=ASKED)

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.final
        assert step.record.restoring
        assert len(step.record.members) == 1
        assert step.record.token != first.token
        assert step.record.cluster_id != first.cluster_id
        assert drive(world, idle=3) == Settled()
        assert len(world.jobs) == 1

    def test_links_that_the_spec_speaks_of_no_more_are_as_for_any_new_cluster(self) -> None:
        world = waiting(TLS={"peer": "Plaintext", "client": "Plaintext"})
        del world.body["spec"]["TLS"]
        world.edit(bootstrap=ASKED)

        world.apply(decide(world.observe()))

        assert not world.record.links.are_plaintext
        assert world.record.initial_cluster.startswith("c-0=https://")

    def test_an_etcd_backup_by_name_is_looked_up_once_and_recorded(self) -> None:
        world = waiting()
        world.edit(bootstrap=named())

        rest = decide(world.observe())
        assert isinstance(rest, Hold)
        assert rest.reason == "BackupAwaited"

        world.backups["b"] = backup(FIRST)
        world.bad_images = set()
        world.apply(decide(world.observe()))
        assert world.record.chosen == Chosen("b", place(FIRST))
        world.backups["b"] = backup(LATER)
        assert drive(world, idle=3) == Settled()
        assert bootstrap_source.wanted_backup(world.observe()) == ""

    def test_once_recorded_it_may_be_changed_but_not_removed(self) -> None:
        world = waiting()
        world.job_runs = False
        world.edit(bootstrap=ASKED)
        assert isinstance(drive(world, idle=3), Wait)

        other = RESTORE | {"s3": {"path": "mybucket/other", "awsSecret": "aws"}}
        world.edit(bootstrap={"restore": other})
        assert isinstance(drive(world, idle=3), Wait)
        assert len(world.jobs) == 2

        world.edit(bootstrap={})
        rest = drive(world, idle=3)
        assert isinstance(rest, Hold)
        assert "was removed before it was done: put it back" in rest.message


class TestTooLate:
    def test_is_reported_with_the_ways_out_and_no_ticket_is_pushed(self) -> None:
        world = RestoreWorld(body(3))
        world.apply(until(world, "push c-0 new"))
        world.history.clear()
        world.edit(bootstrap=ASKED)

        rest = drive(world, idle=3)

        assert rest == Hold(
            "BegunOtherwise",
            "spec.bootstrap.restore was added after the cluster had begun without it, and members "
            "may already have data. The cluster is kept from forming, so that no empty cluster "
            "takes the place of the backup. To start from the backup, delete the EtcdCluster and "
            "its claims, and create it again; or remove the field to go on without the backup",
        )
        assert not [one for one in world.history if isinstance(one, PushTicket)]

        world.edit(bootstrap={})
        assert drive(world, idle=3) == Settled()
        assert world.jobs == []

    @pytest.mark.parametrize("label", ["ledger 3", "record data-c-1", "push c-1 new", "latch"])
    def test_at_no_step_an_empty_cluster_lets_clients_in(self, label: str) -> None:
        world = RestoreWorld(body(3))
        step = until(world, label)
        world.edit(bootstrap=ASKED)
        taken = decide(world.observe())

        if label == "ledger 3":
            assert taken != step, "nothing was handed out yet"
            assert drive(world, idle=3) == Settled()
            assert len(world.jobs) == 1
        else:
            assert getattr(drive(world, idle=3), "reason", "") == "BegunOtherwise"
            assert not world.record.latched
            assert ("Service", "c-client") not in world.objects

    def test_emptied_volumes_begin_no_other_attempt_without_it(self) -> None:
        world = RestoreWorld(body(3))
        world.apply(until(world, "ledger 3"))
        world.edit(bootstrap=ASKED)
        for ordinal in range(3):
            world.restart_pod(ordinal)

        assert getattr(drive(world, idle=3), "reason", "") == "BegunOtherwise"
        assert world.record.attempt == 1

    def test_it_is_reported_beside_missing_certificates(self) -> None:
        world = RestoreWorld(body(3))
        world.apply(until(world, "push c-0 new"))
        world.edit(bootstrap=ASKED)

        assert "spec.bootstrap.restore was added" in attempts.describe_late_edits(world.observe())

    def test_a_formed_cluster_continues(self) -> None:
        world = RestoreWorld(body(3))
        assert drive(world, idle=3) == Settled()
        world.edit(bootstrap=ASKED)

        assert drive(world, idle=3) == Settled()
        assert world.jobs == []
        assert attempts.late_backup(world.observe()) is None
