"""A restore in place: its steps, one after the other.

`inplace_world` checks every write against the rules: no pod is stopped before its successor is on a
disk, and no old volume is deleted before the successor serves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from inplace_world import running
from restore_world import FIRST, backup, place
from worlds import drive, is_write, labels, until

from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateJob, DeleteJob, Hold, Settled, Wait
from etcd_stateful.observed.put_off import PutOff
from etcd_stateful.status.restore_progress import restoring
from unit.membership.in_place.disturbed_world import MOST, data_of, go, is_stop, until_job


def test_a_late_job_filled_the_claim_of_a_member_that_was_added_since() -> None:
    """Its pod waited for a claim with that name, and created a cluster of one with the ID of this
    cluster."""
    world = running(3)
    world.ask()
    job = until_job(world)
    assert drive(world, idle=8, limit=MOST) == Settled()
    world.edit(size=4)
    late = replace(world.observe(), job=job)

    assert isinstance(decide(late), DeleteJob)
    assert isinstance(decide(replace(late, job=replace(job, deleting=True))), Wait)
    assert is_write(decide(replace(late, job=replace(job, stranger="another cluster"))))


def test_the_first_volume_lay_where_the_cluster_was_about_to_grow() -> None:
    """The write of the StatefulSet was put off, and then the quorum was lost. Later a pod was
    created on the volume that the restore fills."""
    world = running(3)
    world.edit(size=5)
    world.apply(decide(world.observe()))
    grow = decide(world.observe())
    assert labels([grow]) == ["StatefulSet c"]
    world.cut_off = True
    world.edit(size=3)
    world.ask()
    off = {(grow.kind, grow.name): PutOff(grow.manifest, "refused")}

    world.apply(decide(replace(world.observe(), put_off=off)))

    assert world.record.successor.ordinal == 5


def test_the_number_of_members_stays_recorded_while_all_are_stopped() -> None:
    """The member list may be old, and the size may have been edited."""
    world = running(3)
    world.ask()
    go(world, is_stop)
    seen = world.observe()
    assert seen.etcd is not None
    shrunk = replace(seen.etcd, members=seen.etcd.members[:1])

    assert (
        replicas.record(replace(seen, cluster=replace(seen.cluster, size=1), etcd=shrunk)) is None
    )


class TestTheWholeChain:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
    def test_another_cluster_serves_under_the_same_names(self, size: int) -> None:
        world = running(size)
        old, epoch = world.record.cluster_id, world.record.epoch
        world.ask()

        assert drive(world, idle=8, limit=MOST) == Settled()

        record = world.record
        assert record.cluster_id != old
        assert (record.epoch, record.retired, record.successor) == (epoch + 1, (), None)
        assert sorted(world.pods) == sorted(world.claims) == list(range(size))
        assert not data_of(world, old)
        assert len(world.etcd.voters if world.etcd else ()) == size
        assert len(world.jobs) == 1

    def test_the_cluster_serves_until_all_of_the_backup_is_on_a_disk(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "Job c-restore to restore" in step.reason
        assert world.serving() == {0, 1, 2}
        assert not world.claims[3].data

    def test_the_first_member_is_removed_when_all_others_have_its_data(self) -> None:
        """Until then, writes are on as many volumes as there are."""
        world = running()
        world.ask()
        drive(world, idle=8, limit=MOST)

        changes = [one for one in labels(world.history) if one.startswith(("promote", "remove"))]
        assert changes == ["promote c-0", "promote c-1", "promote c-2", "remove c-3"]

    def test_the_first_member_stays_while_the_others_are_silent(self) -> None:
        """Silent for a moment only. It was removed, and only one volume had the writes of that
        time."""
        world = running()
        world.ask()
        world.apply(until(world, "promote c-0"))
        for ordinal in (1, 2):
            world.pods[ordinal].silent = True

        assert decide(world.observe()) == Wait("pod c-1 to answer from its init container start")

    def test_it_is_done_once(self) -> None:
        """The EtcdRestore still names a cluster that no longer exists."""
        world = running()
        world.ask()
        drive(world, idle=8, limit=MOST)
        now = world.record

        assert drive(world, idle=3) == Settled()
        assert world.record == now
        told = restoring(world.observe())
        assert told is not None
        assert (told["uid"], told["state"]) == ("uid-r", "Done")
        assert told["source"] == "s3://mybucket/etcd.backup"

    def test_a_restore_that_names_another_cluster_id_does_nothing(self) -> None:
        world = running()
        world.ask(cluster_id="00000000000000ab")
        before = len(world.history)

        assert drive(world, idle=3) == Settled()
        assert len(world.history) == before
        assert restoring(world.observe()) is None

    def test_a_finished_restore_requests_nothing(self) -> None:
        world = running()
        for status in ({"succeeded": True}, {"succeeded": False, "observedGeneration": 1}):
            world.ask()
            assert world.restore is not None
            world.restore["status"] = status
            assert decide(world.observe()) == Settled(), status

    def test_an_etcdbackup_is_looked_up_once(self) -> None:
        world = running()
        world.ask(backupRef={"name": "b"})
        step = drive(world, idle=3)
        assert isinstance(step, Hold)
        assert "EtcdBackup b does not exist" in step.message

        world.backups["b"] = backup()
        go(world, lambda one: isinstance(one, CreateJob))
        del world.backups["b"]
        taking = world.record.successor
        assert taking is not None
        assert taking.store == replace(place(FIRST))

        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"
