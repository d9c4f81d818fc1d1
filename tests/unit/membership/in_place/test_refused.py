"""Restores in place that are refused; the rise of revisions; the record."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inplace_world import running
from restore_world import backup
from world_api import Volume
from worlds import OLDER, UID, Data, drive, until

from etcd_stateful import naming
from etcd_stateful.jobs.restore import BUMP
from etcd_stateful.membership.epochs import in_place_request
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateJob, DeleteClaim, Hold, Settled
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.successor import bump, raised_by
from etcd_stateful.status.restore_progress import restoring
from unit.membership.in_place.disturbed_world import MOST, deleted_and_adopted, go


class TestWhatIsRefused:
    def test_seven_members_leave_no_free_ordinal(self) -> None:
        world = running(7)
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert step.reason == "RestoreRefused"
        assert "set spec.size to 5" in step.message
        assert world.record.successor is None

    def test_a_smaller_size_was_asked_for_where_only_a_claim_is_in_the_way(self) -> None:
        """Also of a cluster that was not as large, and whose size had never been more."""
        world = running(3)
        world.claims[6] = Volume("v-by-hand", 1, {})
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert "spec.size" not in step.message
        assert "claims data-c-6" in step.message

    def test_a_smaller_size_was_asked_for_where_restored_clusters_had_never_served(self) -> None:
        """Nothing removes their ordinals without a quorum, whatever the size is."""
        world = running(5)
        for first in (5, 6):
            world.ask(uid=f"uid-{first}")
            world.failing = {world.record.version}
            drive(world, idle=3)
            assert len(world.record.retired) == first - 4
        world.ask(uid="uid-7")

        told = restoring(world.observe())

        assert told is not None
        assert (told["state"], "set spec.size" in told["message"]) == ("Held", False)
        assert "restore into a new cluster" in told["message"]

    @pytest.mark.parametrize("size", [1, 3])
    def test_an_empty_dir_is_refused(self, size: int) -> None:
        """Its pods are not stopped: all data would be gone before the new data is proven."""
        world = running(size, pod={"emptyDir": {}})
        before, known = len(world.history), world.record
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert (step.reason, "emptyDir" in step.message) == ("RestoreRefused", True)
        assert (world.history[before:], world.record) == ([], known)
        assert world.serving() == set(range(size))
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "emptyDir" in told["message"]) == ("Held", True)

    def test_a_recovery_comes_first(self) -> None:
        world = running()
        world.ask()
        seen = world.observe()
        assert seen.secret is not None
        busy = replace(seen.secret, bootstrap=replace(world.record, survivor="c-1"))

        assert "recovery" in in_place_request.why_not(replace(seen, secret=busy))

    @pytest.mark.parametrize("word", [{}, {"adopt": OLDER}, {"discard": UID}])
    def test_a_claim_whose_adoption_was_taken_back_was_left_over(
        self, word: dict[str, str]
    ) -> None:
        """Its data is of the etcd cluster that is replaced, its record names the EtcdCluster of
        before: nothing would have deleted it when the restore was over."""
        world = deleted_and_adopted(running())
        world.stuck = {2}
        drive(world, idle=3)
        world.edit(retainedClaims=word)
        world.ask()

        drive(world, idle=3)

        told = restoring(world.observe())
        assert (world.serving(), world.record.successor) == ({0, 1}, None)
        assert told is not None
        assert told["state"] == "Held"
        assert f"data-c-2 must be adopted first (spec.retainedClaims.adopt: {UID})" in str(told)
        world.stuck = set()
        world.empty(2)
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"

    def test_a_claim_to_be_adopted_whose_record_was_damaged_was_left_over(self) -> None:
        """Until its record was corrected it counted as nobody's, and the cluster was replaced."""
        world = deleted_and_adopted(running())
        world.stuck = {2}
        drive(world, idle=3)
        sound = world.claims[2].annotations
        world.claims[2].annotations = sound | {naming.EPOCH: "?"}
        world.ask()

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert (step.reason, world.record.successor) == ("ClaimRecordDamaged", None)
        told = restoring(world.observe())
        assert f"data-c-2 must be adopted first (spec.retainedClaims.adopt: {UID})" in str(told)
        world.claims[2].annotations = sound
        world.claims[2].resource_version += 1000
        world.stuck = set()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.restored_by == "uid-r"
        assert UID not in {one.cluster_uid for one in world.observe().claims}

    def test_a_claim_of_another_cluster_is_never_deleted(self) -> None:
        """It is at the ordinal that the successor needs."""
        world = running()
        world.ask()
        until(world, "CreateJob")
        notes = world.claims[3].annotations
        notes[naming.CLUSTER_ID] = "00000000000000cd"
        world.claims[3].data = Data(UID, "c-3", 1, 0xCD)

        step = drive(world, idle=3)

        assert isinstance(step, Hold)
        assert not any(isinstance(one, DeleteClaim) for one in world.history)


class TestRevisions:
    @pytest.mark.parametrize(
        ("live", "last", "least"),
        [
            (0, 0, BUMP),
            (5000, 0, 5000 + BUMP),
            # After an earlier restore, the backup may be from before it, and the bump would be the
            # same.
            (BUMP + 40, BUMP, 2 * BUMP + 40),
            # Without any answer: that bump, and what its backup had from one before it.
            (0, BUMP, 2 * BUMP),
            (0, 3 * BUMP, 6 * BUMP),
            # Only a learner answers, which has not got the data yet.
            (1, 3 * BUMP, 6 * BUMP),
        ],
    )
    def test_begin_above_every_revision_that_was_ever_used(
        self, live: int, last: int, least: int
    ) -> None:
        assert bump(live, last) >= least

    def test_are_raised_by_what_members_report(self) -> None:
        world = running()
        world.revision = 7 * BUMP + 3
        world.ask()
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={8 * BUMP + 3}" in str(world.jobs[-1])

    @pytest.mark.parametrize(
        ("lies", "live", "raised"),
        [
            (6 * BUMP, 7 * BUMP + 3, 2 * BUMP + 3),
            (7 * BUMP + 3, 7 * BUMP + 3, BUMP),
            # It is another cluster's backup, or the members that answer know little: what was
            # reached is unknown.
            (7 * BUMP + 4, 7 * BUMP + 3, 8 * BUMP + 3),
            (0, 7 * BUMP + 3, 8 * BUMP + 3),
            (True, 7 * BUMP + 3, 8 * BUMP + 3),
        ],
    )
    def test_were_doubled_by_each_restore_of_an_own_backup(
        self, lies: int, live: int, raised: int
    ) -> None:
        """The backup's own revisions are already included. The record has what was reached."""
        world = running()
        world.revision = live
        world.backups["b"] = backup(etcdRevision=lies, sha256="ab")
        world.ask(backupRef={"name": "b"})
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={raised}" in str(world.jobs[-1])
        counted = live + BUMP - raised
        assert (f'"revision": {counted}' in str(world.jobs[-1])) is bool(counted), "it is compared"
        assert world.record.successor
        assert world.record.successor.bump == live + BUMP
        assert load_bootstrap(dump_bootstrap(world.record)) == world.record

    def test_of_a_backup_without_a_recorded_file_are_unknown(self) -> None:
        """Its status does not say which file its revision belongs to."""
        world = running()
        world.backups["b"] = backup(etcdRevision=world.revision)
        world.ask(backupRef={"name": "b"})
        go(world, lambda one: isinstance(one, CreateJob))
        world.apply(decide(world.observe()))

        assert f"--bump-revision={world.revision + BUMP}" in str(world.jobs[-1])

    def test_are_raised_by_everything_recorded_if_no_member_answers(self) -> None:
        """The backup's revision may be older, or from a cluster that had come further."""
        assert raised_by(0, 3 * BUMP, 2 * BUMP) == bump(0, 3 * BUMP)

    def test_went_back_behind_those_of_another_clusters_backup_that_was_restored_before(
        self,
    ) -> None:
        """Its own were higher than any that the members had reported. The world refuses it."""
        world = running()
        world.ask()
        go(world, lambda _: world.etcd is not None and bool(world.record.retired))
        world.revision = 1000 * BUMP
        assert drive(world, idle=8, limit=MOST) == Settled()
        world.wipe(0, 1, 2)

        world.ask(uid="again")
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.restored_by == "again"

    def test_of_an_older_record_are_raised_by_its_bump(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        text = dump_bootstrap(world.record)

        assert "raisedBy" not in text
        taking = load_bootstrap(text).successor
        assert taking is not None
        assert taking.raised_by == taking.bump


class TestTheRecord:
    def test_can_be_read_back_from_the_secret(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        taking = world.record.successor
        assert taking is not None
        record = replace(
            world.record, retired=(7, 8), restored_by="u", restored_from="b", bump=5,
            successor=replace(taking, claim="v1", backup="b"),
        )  # fmt: skip

        assert load_bootstrap(dump_bootstrap(record)) == record

    def test_of_most_clusters_says_nothing_of_it(self) -> None:
        text = dump_bootstrap(running().record)

        unknown = {"successor", "retired", "bump", "restoredBy", "restoredFrom"}
        assert not unknown & set(text.split('"'))

    def test_that_is_garbled_is_no_record(self) -> None:
        world = running()
        world.ask()
        until(world, "CreateJob")
        text = dump_bootstrap(world.record)

        for word, other in (
            ('"c-3"', '"c-x"'),
            ('"successor": {', '"successor": {"member": 1, "x": {'),
        ):
            assert word in text
            with pytest.raises(BadRecord):
                load_bootstrap(text.replace(word, other))
