"""A cluster that is bootstrapped from an EtcdBackup by name: looked up once, recorded, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from restore_world import FIELD, FIRST, LATER, RESTORE, RestoreWorld, backup, named, place
from worlds import OLDER, UID, body, drive, formed, is_write, labels

from etcd_stateful.backup.reference import Chosen
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateSecret, Hold, Settled, Step, Wait, WriteBootstrap
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord


def born(size: int = 1, **backups: Any) -> RestoreWorld:
    world = RestoreWorld(body(size, bootstrap=named()))
    world.backups = backups
    return world


def fetched(world: RestoreWorld) -> list[str]:
    """The keys that the Jobs were told to fetch, one for each Job."""
    told = []
    for job in world.jobs:
        pod = job["spec"]["template"]["spec"]
        said = {one["name"]: one.get("value") for one in pod["initContainers"][0]["env"]}
        told.append(json.loads(said["RESTORE"])["store"]["key"])
    return told


class TestOnce:
    def test_what_it_has_stored_last_becomes_the_first_members_data(self) -> None:
        world = born(3, b=backup())

        assert drive(world, idle=2) == Settled()

        assert fetched(world) == [FIRST]
        assert labels(world.history)[0] == "CreateSecret"
        [first, *_] = world.history
        assert isinstance(first, CreateSecret)
        assert first.record.chosen == Chosen("b", place(FIRST)), "before anything is made"
        assert "EtcdBackup b" in first.reason
        assert world.record.chosen is None
        assert len(world.etcds[world.record.cluster_id].voters) == 3

    def at_every_step(self, happens: Callable[[RestoreWorld], None]) -> int:
        """Makes it happen at every step after the record is written. Returns the number of
        steps."""
        for number in range(1, 40):
            world = born(2, b=backup())
            if not self.goes_to(world, number):
                return number
            happens(world)
            assert bootstrap_source.wanted_backup(world.observe()) == "", "it is on record"
            assert drive(world, idle=3) == Settled(), number
            assert fetched(world) == [FIRST], number
        raise AssertionError("it never ends")

    def goes_to(self, world: RestoreWorld, number: int) -> bool:
        done = 0
        while done < number:
            if world.secret is not None and not world.record.restoring:
                return False
            step = decide(world.observe())
            if is_write(step):
                world.apply(step)
                done += 1
            else:
                world.turn()
        return True

    def test_deleted_in_the_middle_it_changes_nothing(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.backups.clear()

        assert self.at_every_step(happens) > 5

    def test_with_another_backup_in_the_middle_it_changes_nothing(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.backups["b"] = backup(LATER)

        assert self.at_every_step(happens) > 5

    def test_with_another_store_in_the_middle_it_changes_nothing(self) -> None:
        def happens(world: RestoreWorld) -> None:
            other = backup(LATER)
            other["spec"]["s3"] = {"path": "another/etcd", "awsSecret": "other"}
            world.backups["b"] = other

        assert self.at_every_step(happens) > 5

    def test_failing_in_the_middle_it_changes_nothing(self) -> None:
        def happens(world: RestoreWorld) -> None:
            world.backups["b"] = backup(succeeded=False, reason="full", location="")

        assert self.at_every_step(happens) > 5

    def test_a_deleted_job_is_recreated_for_the_same_backup(self) -> None:
        world = born(1, b=backup())
        world.job_runs = False
        drive(world, idle=2)
        world.backups["b"] = backup(LATER)
        world.job, world.job_runs = None, True

        assert drive(world, idle=2) == Settled()
        assert fetched(world) == [FIRST, FIRST]

    def test_once_born_it_is_never_looked_up_again(self) -> None:
        world = born(1, b=backup())
        drive(world, idle=2)
        world.edit(bootstrap=named("another"))
        world.backups.clear()

        assert bootstrap_source.wanted_backup(world.observe()) == ""
        assert drive(world, idle=2) == Settled()
        assert len(world.jobs) == 1

    def test_a_lost_secret_of_a_running_cluster_starts_no_restore(self) -> None:
        world = born(1, b=backup())
        drive(world, idle=2)
        world.lose_secret()
        world.backups["b"] = backup(LATER)

        assert drive(world, idle=2) == Settled()
        assert len(world.jobs) == 1


class TestWhatIsWaitedFor:
    def waits(self, world: RestoreWorld) -> Step:
        step = drive(world, idle=3)
        assert not world.history, "nothing is made meanwhile"
        assert world.secret is None
        assert not world.pods
        return step

    def test_a_missing_backup_is_named_and_used_once_it_exists(self) -> None:
        world = born(1)

        step = self.waits(world)

        assert isinstance(step, Hold)
        assert step.reason == "BackupAwaited"
        assert step.message.startswith(f"{FIELD}: EtcdBackup b does not exist")
        world.backups["b"] = backup()
        assert drive(world, idle=2) == Settled()
        assert fetched(world) == [FIRST]

    def test_a_running_backup_needs_no_human(self) -> None:
        unmade = backup()
        unmade["status"] = {"progress": {"bytes": 1}}
        world = born(1, b=unmade)

        step = self.waits(world)

        assert isinstance(step, Wait)
        assert not step.soon
        assert "EtcdBackup b" in step.reason
        assert FIELD in step.reason

    def test_a_failed_backup_says_why(self) -> None:
        world = born(1, b=backup(succeeded=False, reason="the store is full", location=""))

        step = self.waits(world)

        assert isinstance(step, Hold)
        assert "the store is full" in step.message

    def test_a_look_that_was_not_had_is_no_answer(self) -> None:
        seen = replace(born(1, b=backup()).observe(), backup=None)

        assert isinstance(decide(seen), Wait)


class TestAnEditOfTheSpec:
    """As long as nothing is restored, the edit may be the correction."""

    def stopped(self) -> RestoreWorld:
        world = born(1, b=backup(), other=backup(LATER))
        world.job_runs = False
        drive(world, idle=2)
        assert world.job is not None
        world.job = replace(world.job, state="failed", trouble="spec.s3.path: there is no such")
        return world

    def test_a_failure_names_the_store_that_it_concerns(self) -> None:
        step = decide(self.stopped().observe())

        assert isinstance(step, Hold)
        assert "EtcdBackup b" in step.message

    def test_another_backup_is_looked_up_and_written_down_first(self) -> None:
        world = self.stopped()
        world.edit(bootstrap=named("other"))

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.record.chosen == Chosen("other", place(LATER))
        assert step.record.cluster_id == world.record.cluster_id
        world.job_runs = True
        assert drive(world, idle=2) == Settled()
        assert fetched(world) == [FIRST, LATER]

    def test_one_that_is_not_there_is_waited_for(self) -> None:
        world = self.stopped()
        world.edit(bootstrap=named("nobody"))

        step = drive(world, idle=2)

        assert isinstance(step, Hold)
        assert "EtcdBackup nobody" in step.message
        assert world.record.chosen == Chosen("b", place(FIRST))

    def test_a_place_needs_no_backup(self) -> None:
        world = self.stopped()
        world.backups.clear()
        world.edit(bootstrap={"restore": RESTORE})
        world.job_runs = True

        assert drive(world, idle=2) == Settled()
        assert fetched(world) == [FIRST, "etcd.backup"]

    def test_a_name_in_place_of_a_place(self) -> None:
        world = RestoreWorld(body(1, bootstrap={"restore": RESTORE}))
        world.job_runs = False
        drive(world, idle=2)
        world.backups["b"] = backup()
        world.edit(bootstrap=named())
        world.job_runs = True

        assert drive(world, idle=2) == Settled()
        assert fetched(world) == ["etcd.backup", FIRST]


class TestTheRecord:
    def test_what_was_chosen_survives_in_the_secret(self) -> None:
        chosen = Chosen("b", place(FIRST))
        record = records.restoring(
            records.first_attempt("u", {"c-0": "http://c-0"}, "3.7.3"), size=3, chosen=chosen
        )

        assert load_bootstrap(dump_bootstrap(record)) == record

    def test_of_every_other_cluster_it_is_as_it_was(self) -> None:
        record = records.restoring(
            records.first_attempt("u", {"c-0": "http://c-0"}, "3.7.3"), size=3
        )

        assert "chosen" not in dump_bootstrap(record)
        assert "chosen" not in dump_bootstrap(records.restored(record, 3))

    @pytest.mark.parametrize("garbled", [None, {}, "b", {"backup": "b"}, {"backup": 1, "store": 2}])
    def test_an_incomplete_record_is_not_used(self, garbled: Any) -> None:
        """The backup would be looked up again, and another one might be used."""
        record = records.restoring(
            records.first_attempt("u", {"c-0": "http://c-0"}, "3.7.3"), size=3
        )
        text = json.dumps(json.loads(dump_bootstrap(record)) | {"chosen": garbled})

        with pytest.raises(BadRecord):
            load_bootstrap(text)


def test_a_mistyped_name_cost_the_volumes_of_the_deleted_cluster() -> None:
    """They were discarded at once, and there was no backup to begin from."""
    old = formed(3)
    world = RestoreWorld(
        body(3, uid=OLDER, bootstrap=named(), retainedClaims={"discard": UID}),
    )
    world.claims, world.etcds, world.ticketed = old.claims, old.etcds, old.ticketed

    step = drive(world, idle=2)

    assert isinstance(step, Hold)
    assert step.reason == "BackupAwaited"
    assert (world.history, sorted(world.claims)) == ([], [0, 1, 2])

    world.backups["b"] = backup()
    assert drive(world, idle=2) == Settled()
    assert fetched(world) == [FIRST]
