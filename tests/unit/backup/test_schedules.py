"""The next step of an EtcdBackupSchedule: due, late, suspended, held up, forgotten, retention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from etcd_operator.timestamps import rfc3339
from etcd_stateful.api.schedule import EtcdBackupSchedule, Retention
from etcd_stateful.backup import retention, schedule_status, schedules
from etcd_stateful.backup.clocks import LONGEST_WAIT
from etcd_stateful.backup.deletion import FINALIZER
from etcd_stateful.backup.retention import FAILED_KEPT, MOST_LEAVING, DeleteBackup
from etcd_stateful.backup.scheduled import ScheduledBackup, as_scheduled
from etcd_stateful.backup.schedules import Create, Due, ObservedSchedule, Record, WriteStatus
from etcd_stateful.naming import LET_GO, SCHEDULE_UID, scheduled_backup

NOON = 1_795_262_400
HOURLY = EtcdBackupSchedule("ns", "s", "uid-s", "0 * * * *", {})
RECORD = Record(float(NOON - 3600), HOURLY.times, last_made=NOON - 3600)


def seen(**changes: Any) -> ObservedSchedule:
    base = ObservedSchedule(HOURLY, RECORD, now=NOON + 2.0, began=0.0, upcoming=NOON + 3600)
    return replace(base, **changes)


def made(moment: int, **changes: Any) -> ScheduledBackup:
    name = scheduled_backup("s", moment)
    base = ScheduledBackup(name, f"uid-{moment}", "1", moment, "stored")
    return replace(base, **changes)


def missed(step: object) -> tuple[str, int, float]:
    """The reason, the number of missed runs, and the time until which they are counted."""
    assert isinstance(step, WriteStatus)
    assert step.miss
    assert step.after == 0.0
    return step.miss.reason, step.record.missed, step.record.counted_until


class TestDue:
    def test_a_run_that_is_due_is_started(self) -> None:
        assert schedules.decide(seen(due=Due(NOON))) == Create(NOON)

    def test_a_started_run_is_recorded_before_anything_else(self) -> None:
        """Also after an operator died before it could record it."""
        step = schedules.decide(seen(due=Due(NOON), made=(made(NOON, state="running"),)))

        assert step == WriteStatus(replace(RECORD, last_made=NOON, counted_until=NOON), 0.0)

    def test_a_run_of_a_clock_that_was_ahead_does_not_make_the_others_missed(self) -> None:
        """Each run was made and then reported as missed: it got in its own way."""
        wrong, own = made(NOON + 365 * 86400), made(NOON, state="running")
        record = replace(RECORD, last_made=wrong.moment)
        step = schedules.decide(seen(record=record, due=Due(NOON), made=(wrong, own)))

        assert step == WriteStatus(replace(record, counted_until=float(NOON)), 0.0)

    def test_nothing_is_done_between_two(self) -> None:
        assert schedules.decide(seen()) == WriteStatus(RECORD, LONGEST_WAIT)
        step = schedules.decide(seen(now=NOON + 3590.0))
        assert isinstance(step, WriteStatus)
        assert step.after == 10.0

    def test_a_run_does_not_overlap_the_one_before(self) -> None:
        before = made(NOON - 3600, state="running", words="the snapshot is on its way")
        step = schedules.decide(seen(due=Due(NOON), made=(before,)))

        assert missed(step) == ("StillRunning", 1, NOON)
        assert isinstance(step, WriteStatus)
        assert step.miss
        assert before.name in step.miss.message
        assert "the snapshot is on its way" in step.miss.message

    @pytest.mark.parametrize(
        "changes", [{"state": "failed"}, {"state": "running", "deleting": True}]
    )
    def test_a_finished_run_blocks_nothing(self, changes: Any) -> None:
        before = made(NOON - 3600, **changes)

        assert schedules.decide(seen(due=Due(NOON), made=(before,))) == Create(NOON)

    def test_the_deadline(self) -> None:
        strict = replace(HOURLY, deadline=60)

        assert schedules.decide(seen(schedule=strict, now=NOON + 60.0, due=Due(NOON))) == Create(
            NOON
        )
        step = schedules.decide(seen(schedule=strict, now=NOON + 61.5, due=Due(NOON)))
        assert missed(step) == ("TooLate", 1, NOON)

    def test_without_a_deadline_late_is_better_than_never(self) -> None:
        assert schedules.decide(seen(now=NOON + 1e6, due=Due(NOON))) == Create(NOON)

    def test_a_taken_name_is_not_a_backup(self) -> None:
        assert missed(schedules.decide(seen(due=Due(NOON), taken=True))) == ("NameTaken", 1, NOON)

    def test_missed_runs_are_counted_before_one_makes_up_for_them(self) -> None:
        """In this order, because a crash in between would lose the count."""
        due = Due(NOON, 5, NOON - 3600)
        first = schedules.decide(seen(due=due, began=NOON - 10.0))
        assert missed(first) == ("OperatorAway", 5, NOON - 1)
        assert isinstance(first, WriteStatus)
        assert first.record.last_missed == NOON - 3600

        assert schedules.decide(seen(record=first.record, due=Due(NOON))) == Create(NOON)

    def test_a_run_was_announced_that_made_up_for_others_and_was_missed_itself(self) -> None:
        strict, due = replace(HOURLY, deadline=60), Due(NOON, 5, NOON - 3600)
        running = (made(NOON - 7200, state="running"),)
        in_time = seen(schedule=strict, due=due, began=NOON - 10.0)
        late = replace(in_time, now=NOON + 100.0)
        for one, words in ((in_time, True), (late, False), (replace(in_time, made=running), False)):
            step = schedules.decide(one)
            assert isinstance(step, WriteStatus)
            assert step.miss
            assert ("one run makes up for all of these now" in step.miss.message) is words

    def test_an_operator_that_was_running_is_not_reported_as_away(self) -> None:
        due = Due(NOON, 5, NOON - 3600)
        step = schedules.decide(
            seen(due=due, began=NOON - 3601.0, creation_error="a webhook is down")
        )

        assert missed(step) == ("NotMade", 5, NOON - 1)
        assert isinstance(step, WriteStatus)
        assert step.miss
        assert "could not be created: a webhook is down" in step.miss.message

    def test_while_suspended_all_are_missed_and_none_is_made_up_for(self) -> None:
        suspended = replace(HOURLY, suspend=True)
        step = schedules.decide(seen(schedule=suspended, due=Due(NOON, 2, NOON - 3600)))

        assert missed(step) == ("Suspended", 3, NOON)

    def test_other_times_count_from_when_they_were_seen(self) -> None:
        """Otherwise an edit in the afternoon would make up for the whole morning at once."""
        edited = replace(HOURLY, cron="*/5 * * * *")
        step = schedules.decide(seen(schedule=edited))

        assert step == WriteStatus(replace(RECORD, counted_until=float(NOON + 2)), 0.0)

    @pytest.mark.parametrize(("suspend", "why"), [(True, "Suspended"), (False, "OperatorAway")])
    def test_runs_due_by_the_times_before_an_edit_are_missed(self, suspend: bool, why: str) -> None:
        edited = replace(HOURLY, cron="*/5 * * * *", suspend=suspend)
        late = seen(schedule=edited, due=Due(NOON, 2, NOON - 3600), began=NOON + 1.0)
        step = schedules.decide(late)

        assert missed(step) == (why, 3, NOON + 2)
        made_by_then = schedules.decide(replace(late, made=(made(NOON),)))
        assert isinstance(made_by_then, WriteStatus)
        assert made_by_then.miss is None


class TestJitter:
    SPREAD = replace(HOURLY, jitter=600)

    def test_each_object_keeps_its_own(self) -> None:
        uids = [f"uid-{number}" for number in range(1000)]
        found = [schedules.jitter(replace(self.SPREAD, uid=uid)) for uid in uids]

        assert found == [schedules.jitter(replace(self.SPREAD, uid=uid)) for uid in uids]
        assert (min(found) >= 0, max(found) <= 600) == (True, True)
        per_minute = [sum(low <= one < low + 60 for one in found) for low in range(0, 600, 60)]
        assert min(per_minute) > 70, "spread evenly"
        assert max(per_minute) < 130

    @pytest.mark.parametrize(
        ("period", "most"), [(60, 6), (300, 30), (900, 90), (3000, 300), (3600, 300)]
    )
    def test_without_the_field_there_is_a_little_jitter(self, period: int, most: int) -> None:
        """A thousand clusters had the same cron, and their backups began in the same second."""
        unsaid = [replace(HOURLY, uid=f"uid-{number}") for number in range(1000)]
        found = [schedules.jitter(schedules.with_default_jitter(one, period)) for one in unsaid]

        assert found == [
            schedules.jitter(schedules.with_default_jitter(one, period)) for one in unsaid
        ]
        assert set(found) <= set(range(most + 1))
        assert len(set(found)) > most * 0.9, "spread over all of it"

    @pytest.mark.parametrize("said", [0, 1, 86400])
    def test_a_declared_jitter_is_used_and_zero_is_none(self, said: int) -> None:
        schedule = replace(HOURLY, jitter=said)

        assert schedules.with_default_jitter(schedule, 60) == schedule
        assert schedules.jitter(schedule) <= said

    def test_a_run_starts_later_by_the_jitter(self) -> None:
        later = schedules.jitter(self.SPREAD)
        assert later > 0
        step = schedules.decide(seen(schedule=self.SPREAD, now=NOON + 3599.0, upcoming=NOON + 3600))

        assert isinstance(step, WriteStatus)
        assert step.after == min(1 + later, LONGEST_WAIT)

    def test_overdue_runs_do_not_all_start_at_once_with_a_new_operator(
        self,
    ) -> None:
        later = schedules.jitter(self.SPREAD)
        began = NOON + 5000.0
        overdue = seen(
            schedule=self.SPREAD, due=Due(NOON), began=began, now=began, upcoming=NOON + 7200
        )

        step = schedules.decide(overdue)

        assert isinstance(step, WriteStatus)
        turn = later + 600 * 8
        assert 5000 < turn <= 5600
        assert (step.after, step.miss) == (turn - 5000, None)
        assert schedules.decide(replace(overdue, now=float(NOON + turn))) == Create(NOON)

    def test_a_second_hand_over_while_it_was_held_made_it_too_late(self) -> None:
        """Each operator held the run again, and the time that the one before had held it counted as
        late."""
        later = schedules.jitter(self.SPREAD)
        strict = replace(self.SPREAD, deadline=60)
        turn = NOON + 2.0 * later
        for began in (NOON + later + 1.0, turn - later / 2, turn - 1.0):
            held = seen(schedule=strict, due=Due(NOON), began=began, now=began)
            step = schedules.decide(held)
            assert isinstance(step, WriteStatus)
            assert step.miss is None
            assert schedules.decide(replace(held, now=turn)) == Create(NOON), began

        began, turn = turn + 30.0, NOON + later + 600.0
        missed_its_turn = seen(schedule=strict, due=Due(NOON), began=began, now=turn)
        assert schedules.decide(missed_its_turn) == Create(NOON)

    def test_a_run_waited_for_the_turn_of_the_one_before_and_was_missed(self) -> None:
        """The operator began just before it: it was looked at again only when the overdue one had
        its turn, and was too late by then."""
        spread = replace(HOURLY, jitter=500, deadline=60)
        began = NOON + 3600.0 + schedules.jitter(spread) - 5.0
        held = seen(schedule=spread, due=Due(NOON), began=began, now=began)
        step = schedules.decide(held)

        assert isinstance(step, WriteStatus)
        assert (step.after, step.miss) == (5.0, None)

    def test_copies_that_are_held_are_spread_evenly(self) -> None:
        copies = [replace(self.SPREAD, uid=f"uid-{number}") for number in range(1000)]
        began = NOON + 5000.0
        held = [
            schedules.decide(
                seen(schedule=one, due=Due(NOON), began=began, now=began, upcoming=NOON + 7200)
            )
            for one in copies
        ]
        waits = [one.after for one in held if isinstance(one, WriteStatus)]
        assert len(waits) > 990
        per_minute = [sum(low <= one < low + 60 for one in waits) for low in range(0, 600, 60)]
        assert (min(per_minute) > 70, max(per_minute) < 130) == (True, True)

    def test_an_operator_that_restarts_more_often_than_the_jitter_never_began_it(self) -> None:
        often = schedules.jitter(self.SPREAD) / 3
        for restarts in range(100, 106):
            began = NOON + restarts * often
            at_its_end = seen(schedule=self.SPREAD, due=Due(NOON), began=began, now=began + often)
            if schedules.decide(at_its_end) == Create(NOON):
                return
        pytest.fail("held for ever")

    @pytest.mark.parametrize("before", [0.0, 10.0, 590.0])
    def test_a_hand_over_shortly_before_a_run_does_not_make_it_late(self, before: float) -> None:
        """It was held as if it were overdue, beyond its deadline, and there was no backup that
        day."""
        begins = NOON + schedules.jitter(self.SPREAD)
        strict = replace(self.SPREAD, deadline=60)
        fallen_due = seen(schedule=strict, due=Due(NOON), began=begins - before, now=begins + 1.0)

        assert schedules.decide(fallen_due) == Create(NOON)

    def test_that_it_is_held_makes_no_run_late(self) -> None:
        """It was ten seconds late when the operator began, and was given up for the minutes of its
        jitter."""
        later = schedules.jitter(self.SPREAD)
        strict = replace(self.SPREAD, deadline=60)
        began = NOON + later + 10.0
        held = seen(schedule=strict, due=Due(NOON), began=began, now=began)
        assert later > 60
        step = schedules.decide(held)
        assert isinstance(step, WriteStatus)
        assert (step.after, step.miss) == (min(later - 10.0, LONGEST_WAIT), None)

        turn = NOON + 2.0 * later
        assert schedules.decide(replace(held, now=turn)) == Create(NOON)
        assert schedules.decide(replace(held, now=turn + 60.0)) == Create(NOON)
        step = schedules.decide(replace(held, now=turn + 61.0))
        assert missed(step) == ("TooLate", 1, NOON)
        assert isinstance(step, WriteStatus)
        assert step.miss
        assert step.miss.message.startswith("a run was missed: 61 s late")

    def test_a_run_that_was_too_late_at_the_operators_start_is_reported_after_the_hold(
        self,
    ) -> None:
        later = schedules.jitter(self.SPREAD)
        strict = replace(self.SPREAD, deadline=60)
        began, turn = NOON + 2.0 * later + 61.0, NOON + later + 600.0
        held = seen(schedule=strict, due=Due(NOON), began=began, now=began)
        first = schedules.decide(held)
        assert isinstance(first, WriteStatus)
        assert first.miss is None

        step = schedules.decide(replace(held, now=turn))
        assert missed(step) == ("TooLate", 1, NOON)


class TestRetention:
    STUCK = tuple(made(n, deleting=True, finalizers=(FINALIZER,)) for n in range(MOST_LEAVING))

    def gone(self, kept: Retention, *there: ScheduledBackup, now: float = NOON) -> list[int]:
        return sorted(one.moment for one in retention.not_kept(kept, there, now))

    def test_without_retention_nothing_is_deleted(self) -> None:
        assert self.gone(Retention(), *(made(n, state="failed") for n in range(1, 50))) == []

    def test_by_count_the_newest_stay(self) -> None:
        assert self.gone(Retention(2), *(made(n) for n in (10, 30, 20, 40))) == [10, 20]

    def test_the_last_one_by_the_clock_of_the_api_server_is_kept(self) -> None:
        """The clock of an operator was ahead, and gave the one before it a later time."""
        ahead, last = made(7200, created=3600.0), made(3660, created=3660.0)

        assert retention.not_kept(Retention(count=1), (ahead, last), 7200.0) == []

    def test_by_age(self) -> None:
        day = 86400
        there = [made(NOON - age * day) for age in (0, 6, 7, 8, 30)]

        assert self.gone(Retention(days=7), *there) == [NOON - 30 * day, NOON - 8 * day]

    def test_both_must_hold_it(self) -> None:
        there = [made(NOON - n * 86400) for n in range(5)]

        assert len(self.gone(Retention(2, 30), *there)) == 3
        assert len(self.gone(Retention(4, 1), *there)) == 3

    def test_the_newest_verified_stays_however_old(self) -> None:
        proven = made(10, verified=True)
        there = [made(5, verified=True), proven, *(made(NOON - n) for n in range(10))]

        assert proven.moment not in self.gone(Retention(3, 1), *there)
        assert 5 in self.gone(Retention(3, 1), *there)

    def test_the_newest_that_was_stored_stays_however_old(self) -> None:
        failed = made(NOON, state="failed")

        assert self.gone(Retention(days=1), made(10), made(20), failed) == [10]

    def test_a_clock_that_jumps_ahead_does_not_make_the_whole_history_old(self) -> None:
        """A year, for one moment: all backups but one were deleted with what they had stored."""
        day, ahead = 86400, NOON + 365 * 86400
        there = [made(NOON - age * day, created=NOON - age * day) for age in (8, 6, 1)]
        wrong = made(ahead, created=NOON)

        assert self.gone(Retention(days=7), *there, wrong, now=ahead) == [NOON - 8 * day]

    @pytest.mark.parametrize("made_at", [NOON - 100, NOON + 365 * 86400])
    def test_each_new_backup_was_deleted_after_the_clocks_of_all_nodes_had_been_ahead(
        self, made_at: int
    ) -> None:
        """For a few hours, and by a year: until then the backups of these hours were the newest."""
        wrong = [made(NOON + 365 * 86400 + n, created=made_at + n) for n in (1, 2, 3)]
        there = [made(NOON - age, created=NOON - age) for age in (1, 2, 3, 4)]

        assert self.gone(Retention(3), *there, *wrong) == [NOON - 4]
        later = self.gone(Retention(3), *there, *wrong, now=NOON + 366 * 86400)
        assert later[:3] == [NOON - 4, NOON - 3, NOON - 2], "their time has come"

    def test_the_newest_real_verified_backup_stays_after_a_clock_was_ahead(self) -> None:
        wrong = made(NOON + 86400, created=NOON + 86400, verified=True)
        proven = made(10, created=10, verified=True)

        assert self.gone(Retention(1), made(5), proven, made(20), wrong) == [5]

    def test_a_clock_that_is_behind_deletes_none_of_what_seems_to_be_still_to_come(self) -> None:
        there = [made(NOON + n * 3600, created=NOON + n * 3600) for n in range(-4, 24)]

        assert self.gone(Retention(3), *there) == [NOON - n * 3600 for n in (4, 3)]

    def test_a_clock_of_the_api_server_that_jumps_ahead_does_not_make_it_old_either(self) -> None:
        day = 86400
        there = [made(NOON - age * day, created=NOON - age * day) for age in (8, 6, 1)]
        wrong = made(NOON, created=NOON + 365 * day)

        assert self.gone(Retention(days=7), *there, wrong) == [NOON - 8 * day]

    def test_a_backup_that_is_being_deleted_does_not_count_as_kept(self) -> None:
        """The last two were deleted by hand, and with them everything that counted as older than
        they."""
        leaving = [made(n, deleting=True, verified=True) for n in (30, 40)]
        there = [made(n, verified=True) for n in (10, 20)]

        assert self.gone(Retention(1), *there, *leaving) == [10]
        assert self.gone(Retention(2), *there, *leaving) == []

    def test_the_newest_by_the_calendar_stays_beside_one_of_a_clock_that_was_ahead(self) -> None:
        there = [made(NOON + 365 * 86400, created=10, verified=True)]
        there += [made(n, created=n, verified=True) for n in (5, 20)]
        failed = made(NOON, created=NOON, state="failed")

        assert self.gone(Retention(days=1), *there, failed) == [5]

    def test_an_empty_cluster_of_the_same_name_used_up_the_backups_of_the_one_that_was_lost(
        self,
    ) -> None:
        """It was created again after the loss, and backed up every night."""
        lost, anew = [day * 86400 for day in (1, 2, 3)], [day * 86400 for day in range(40, 60)]
        there = [made(moment, verified=True, cluster_id="0a") for moment in lost]
        there += [made(moment, verified=True, cluster_id="0b") for moment in anew]

        assert self.gone(Retention(14), *there) == [*lost[:2], *anew[:6]]
        gone = self.gone(Retention(14, 30), *there, now=60 * 86400)
        assert gone == [*lost, *anew[:6]], "it may be too old all the same"

    def test_failures_use_up_no_place_of_a_good_one(self) -> None:
        """A month of failures must not leave nothing."""
        failed = [made(NOON + n, state="failed") for n in range(10)]
        there = [made(n) for n in (1, 2, 3)]

        gone = self.gone(Retention(3), *there, *failed)

        assert gone == [NOON + n for n in range(10 - FAILED_KEPT)]

    def test_a_running_backup_is_left_alone(self) -> None:
        assert self.gone(Retention(1), made(10, state="running"), made(20), made(30)) == [20]

    def test_it_is_told_to_take_along_what_it_stored_and_then_deleted(self) -> None:
        old = made(10, finalizers=("other",))
        step = retention.decide(Retention(1), (old, made(20)), NOON)
        assert step == DeleteBackup(old.name, old.uid, "1", ("other", FINALIZER))

        told = replace(old, finalizers=("other", FINALIZER), deletes_stored=True)
        step = retention.decide(Retention(1), (told, made(20)), NOON)
        assert step == DeleteBackup(old.name, old.uid, "1", None)

    def test_a_backup_set_to_retain_stays_when_the_object_is_deleted(self) -> None:
        kept = made(10, keeps_stored=True)

        step = retention.decide(Retention(1), (kept, made(20)), NOON)

        assert step == DeleteBackup(kept.name, kept.uid, "1", None)

    def test_one_that_failed_is_held_by_nothing(self) -> None:
        """There is nothing to delete, and a store that is down would keep the object for good."""
        failed = tuple(made(n, state="failed") for n in range(10, 14))

        step = retention.decide(Retention(1), failed, NOON)

        assert step == DeleteBackup(failed[0].name, failed[0].uid, "1", None)

    def test_what_somebody_has_said_to_retain_stays_so(self) -> None:
        for finalizers, back in (((FINALIZER,), True), ((), False)):
            kept = made(1, let_go=True, deletes_stored=bool(finalizers), finalizers=finalizers)
            step = retention.decide(Retention(2), (kept,), NOON)
            assert isinstance(step, retention.TakeBack) is back

    def test_an_unproven_file_was_deleted_while_a_restore_read_it(self) -> None:
        """It was all that was left, and was named by its place in status.unproven."""
        failed = tuple(made(n, state="failed", unproven=f"s3://b/{n}") for n in range(10, 14))

        assert retention.decide(Retention(1), failed, NOON, frozenset(["s3://b/10"])) is None

    def test_one_whose_trial_failed_takes_along_what_it_stored(self) -> None:
        """Full-size files stayed in the store for good, and nothing mentioned them."""
        failed = tuple(made(n, state="failed", unproven=f"s3://b/{n}") for n in range(10, 14))
        oldest = failed[0]
        step = retention.decide(Retention(1), failed, NOON)
        assert step == DeleteBackup(oldest.name, oldest.uid, "1", (FINALIZER,))

        told = replace(oldest, finalizers=(FINALIZER,), deletes_stored=True)
        step = retention.decide(Retention(1), (told, *failed[1:]), NOON)
        assert step == DeleteBackup(oldest.name, oldest.uid, "1", None)

        kept = replace(oldest, keeps_stored=True)
        step = retention.decide(Retention(1), (kept, *failed[1:]), NOON)
        assert step == DeleteBackup(oldest.name, oldest.uid, "1", None)

    def test_only_a_few_backups_are_deleted_at_the_same_time(self) -> None:
        stuck = self.STUCK

        assert retention.decide(Retention(1), (*stuck, made(10), made(20)), NOON) is None
        assert retention.decide(Retention(1), (*stuck[1:], made(10), made(20)), NOON)

    def test_failed_ones_piled_up_behind_those_that_the_store_refuses_to_delete(self) -> None:
        """One more with each run, although nothing of them is in the store."""
        stuck = self.STUCK
        failed = tuple(made(n, state="failed") for n in range(30, 34))

        step = retention.decide(Retention(1), (*stuck, made(10), made(20), *failed), NOON)

        assert step == DeleteBackup(failed[0].name, failed[0].uid, "1", None)

    @pytest.mark.parametrize("changes", [{"unproven": "s3://b/k"}, {"finalizers": (FINALIZER,)}])
    def test_a_failed_one_that_needs_its_store_waits_behind_those(self, changes: Any) -> None:
        stuck = self.STUCK
        failed = tuple(made(n, state="failed", **changes) for n in range(30, 34))

        assert retention.decide(Retention(1), (*stuck, *failed), NOON) is None

    def test_a_template_that_came_to_say_retain_did_not_let_go_of_those_that_waited(self) -> None:
        stuck = self.STUCK
        kept = made(10, keeps_stored=True)

        step = retention.decide(Retention(1), (*stuck, kept, made(20)), NOON)

        assert step == DeleteBackup(kept.name, kept.uid, "1", None)

    def test_a_finalizer_of_somebody_else_on_a_few_kept_all_later_ones_from_being_deleted(
        self,
    ) -> None:
        """Nothing said so, and what they had stored was deleted long since."""
        held = tuple(replace(one, finalizers=("another.example/held",)) for one in self.STUCK)

        step = retention.decide(Retention(1), (*held, made(10), made(20)), NOON)

        assert step
        assert step.name == made(10).name

    def test_a_schedule_that_is_suspended_deletes_nothing(self) -> None:
        suspended = replace(HOURLY, suspend=True, retention=Retention(1))
        there = tuple(made(n) for n in (10, 20, 30))

        assert isinstance(schedules.decide(seen(schedule=suspended, made=there)), WriteStatus)
        assert isinstance(
            schedules.decide(seen(schedule=replace(suspended, suspend=False), made=there)),
            DeleteBackup,
        )

    def test_starting_a_run_comes_before_deleting_a_backup(self) -> None:
        there = tuple(made(n) for n in (10, 20, 30))
        kept = replace(HOURLY, retention=Retention(1))

        assert schedules.decide(seen(schedule=kept, due=Due(NOON), made=there)) == Create(NOON)


class TestWhose:
    def body(self, name: str = "s-100", uid: str = "uid-s", **changes: Any) -> dict[str, Any]:
        metadata = {"name": name, "uid": "u", "resourceVersion": "7", "labels": {SCHEDULE_UID: uid}}
        return {"spec": {}, **changes, "metadata": metadata | changes.get("metadata", {})}

    def test_its_own(self) -> None:
        one = as_scheduled(HOURLY, self.body())

        assert one
        assert (one.moment, one.state, one.resource_version) == (6000, "running", "7")

    @pytest.mark.parametrize(
        "changes",
        [
            {"uid": "uid-of-the-schedule-of-before"},
            {"uid": ""},
            {"name": "before-the-upgrade"},
            {"name": "s-0100"},
            {"name": "s-١٢"},
            {"name": "s-1-100"},
            {"name": "100"},
            {"name": "s-"},
        ],
    )
    def test_of_others(self, changes: Any) -> None:
        """Whatever their labels say, they are neither counted nor deleted."""
        assert as_scheduled(HOURLY, self.body(**changes)) is None

    def test_a_schedule_that_has_no_uid_owns_nothing(self) -> None:
        assert as_scheduled(replace(HOURLY, uid=""), self.body(uid="")) is None

    @pytest.mark.parametrize(
        ("status", "state"),
        [
            ({}, "running"),
            ({"succeeded": True}, "stored"),
            ({"succeeded": False}, "failed"),
            ({"conditions": [{"type": "Accepted", "status": "False"}]}, "failed"),
            (
                {"conditions": [{"type": "Complete", "status": "False", "reason": "StoreRefused"}]},
                "running",
            ),
        ],
    )
    def test_how_far_it_is(self, status: Any, state: str) -> None:
        one = as_scheduled(HOURLY, self.body(status=status))

        assert one
        assert one.state == state

    @pytest.mark.parametrize(
        ("metadata", "run", "state"),
        [
            ({"generation": 2}, "g1", "running"),
            ({"generation": 2}, "g2", "failed"),
            ({"generation": 2, "annotations": {LET_GO: "retention"}}, "g1", "failed"),
            ({"generation": 2, "deletionTimestamp": "2026-11-21T12:00:00Z"}, "g1", "failed"),
            ({"generation": 2}, "1795262400", "failed"),
        ],
    )
    def test_a_failed_one_that_runs_again_after_an_edit_counted_as_over(
        self, metadata: Any, run: str, state: str
    ) -> None:
        """Retention deleted it while it ran, and the next run began beside it."""
        status = {"succeeded": False, "reason": "no bucket", "run": run}
        one = as_scheduled(HOURLY, self.body(metadata=metadata, status=status))

        assert one
        assert one.state == state

    def test_one_that_runs_again_was_reported_with_the_failure_before(self) -> None:
        told = {"type": "Complete", "status": "Unknown", "message": "Job b is starting"}
        status = {"succeeded": False, "reason": "no bucket", "run": "g1", "conditions": [told]}
        one = as_scheduled(HOURLY, self.body(metadata={"generation": 2}, status=status))

        assert one
        assert one.words == "Job b is starting"

    def test_it_deletes_what_it_stored_only_once_it_is_held_for_that(self) -> None:
        policy = {"spec": {"deletionPolicy": "Delete"}}
        held = {"metadata": {"finalizers": [FINALIZER]}}

        assert as_scheduled(HOURLY, self.body(spec={"deletionPolicy": "Retain"})).keeps_stored  # type: ignore[union-attr]
        assert not as_scheduled(HOURLY, self.body(**held) | policy).keeps_stored  # type: ignore[union-attr]
        assert not as_scheduled(HOURLY, self.body() | policy).deletes_stored  # type: ignore[union-attr]
        assert not as_scheduled(HOURLY, self.body(**held)).deletes_stored  # type: ignore[union-attr]
        assert as_scheduled(HOURLY, self.body(**held) | policy).deletes_stored  # type: ignore[union-attr]

    def test_a_template_that_came_to_say_retain_did_not_keep_what_was_stored_before(self) -> None:
        """Everything made before was deleted together with its files."""
        now = replace(HOURLY, template={"deletionPolicy": "Retain"})
        there = [
            as_scheduled(now, self.body()),
            as_scheduled(now, self.body(spec={"deletionPolicy": "Delete"})),
        ]

        assert [one.keeps_stored for one in there if one] == [True, False]


class TestMeasured:
    @pytest.mark.parametrize(
        ("made_at", "missed_at", "there", "expected"),
        [
            (None, None, (), None),
            (None, NOON, (), False),
            (10, None, (made(10, state="running"),), None),
            (10, None, (made(10),), True),
            (20, None, (made(10), made(20, state="failed")), False),
            (20, None, (made(10, state="failed"), made(20)), True),
            (20, None, (made(10, state="failed"), made(20, state="running")), False),
            (20, 30, (made(20),), False),
            (30, 20, (made(10), made(30, state="running")), True),
            (30, 20, (), None),
        ],
    )
    def test_how_the_last_run_that_is_over_went(
        self, made_at: int | None, missed_at: int | None, there: Any, expected: bool | None
    ) -> None:
        record = replace(RECORD, last_made=made_at, last_missed=missed_at)

        for some in (there, there[::-1]):
            assert schedule_status.last_succeeded(record, seen(made=some)) is expected

    def test_the_newest_that_was_verified_and_none_that_was_not(self) -> None:
        there = [
            made(10, verified=True, over="2026-11-21T03:10:00Z"),
            made(20, verified=True, over="2026-11-21T03:20:00Z"),
            made(30, over="2026-11-21T03:30:00Z"),
        ]

        for some, newest in ((there, "2026-11-21T03:20:00Z"), (there[2:], "")):
            assert schedule_status.last_verified(seen(made=tuple(some)), rfc3339) == newest
