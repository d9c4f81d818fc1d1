"""Bugs in scheduled backups."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_CRON = "operator/etcd_operator/backup_controllers/cron.py"
_MADE = "backup/scheduled.py"
_OTHERS = "backup/foreign_files.py"
_OUTCOME = "backup/outcome.py"
_RETENTION = "backup/retention.py"
_SCHEDULE = "api/schedule.py"
_SCHEDULES = "backup/schedules.py"
_SHELL = "operator/etcd_operator/backup_controllers/schedule.py"
_STATUS = "backup/schedule_status.py"
_STORE = "operator/etcd_operator/kube/store.py"
_FAILED_PASSES = "operator/etcd_operator/kube/failed_passes.py"

MUTANTS: Final = [
    # When.
    Mutant(
        _CRON,
        "            if moment > last:\n",
        "            if True:\n",
        "what a clock skips is run twice",
    ),
    Mutant(_SCHEDULES, "return now - jitter(schedule)", "return now", "all clusters begin at once"),
    Mutant(
        _SHELL,
        "            schedule = schedules.with_default_jitter(schedule, calendar.period)\n",
        "",
        "copies of one schedule all begin at once",
    ),
    Mutant(
        _SCHEDULES,
        "if schedule.jitter is not None:",
        "if schedule.jitter:",
        "who asks for the minute gets some minutes later",
    ),
    Mutant(
        _SCHEDULES,
        "if seen.due is not None and _held(seen, seen.due.latest) <= 0:",
        "if seen.due is not None:",
        "after an outage of the operator all clusters begin at once",
    ),
    Mutant(
        _SCHEDULES,
        "return _make_room(seen) or _of_due(seen, seen.due)",
        "return _of_due(seen, seen.due)",
        "a quota that is used up keeps retention from making room",
    ),
    Mutant(
        _SCHEDULES,
        "return clock(seen.schedule, seen.began) > moment",
        "return True",
        "a hand-over shortly before a run makes it too late",
    ),
    Mutant(
        _SCHEDULES,
        "return max(before, 0.0) - _held(seen, moment)",
        "return clock(seen.schedule, seen.now) - moment",
        "what is held to spread the load is given up as too late",
    ),
    Mutant(
        _SCHEDULES,
        "    if seen.began <= own + later:\n        return own + later\n"
        "    return own + longest * math.ceil((seen.began - own) / longest)\n",
        "    return seen.began + later\n",
        "an operator that restarts often never begins what it holds",
    ),
    Mutant(
        _SCHEDULES,
        "    if is_edited(schedule, record):\n",
        "    if False:\n",
        "an edit makes up for the hours before it",
    ),
    Mutant(
        _SCHEDULES,
        "if newest is not None and (record.last_made or 0) < newest:",
        "if False:",
        "an operator that dies before it could tell makes the run again",
    ),
    Mutant(
        _SCHEDULES,
        "until = replace(told.record, counted_until=due.latest - 1)",
        "until = replace(told.record, counted_until=due.latest)",
        "after an outage nothing is made up for",
    ),
    Mutant(
        _SCHEDULES,
        "    if _overdue(seen, moment):\n        return Miss",
        "    if True:\n        return Miss",
        "a webhook that is down is told as an operator that was away",
    ),
    Mutant(
        _FAILED_PASSES,
        "if is_due:",
        "if False:",
        "a schedule that cannot make its backups looks well",
    ),
    Mutant(
        _FAILED_PASSES,
        "if after != 0:",
        "if True:",
        "a run that was missed makes the API server's failures forgotten",
    ),
    Mutant(
        _SCHEDULES,
        'if one.state == "running" and not one.deleting:',
        "if False:",
        "two backups of a cluster at once",
    ),
    Mutant(
        _SCHEDULES,
        "if deadline is not None and late > deadline:",
        "if deadline and late < 0:",
        "a backup of the night is begun at noon",
    ),
    Mutant(
        _SCHEDULES,
        "if seen.schedule.suspend:\n        why = ",
        "if False:\n        why = ",
        "suspended, it goes on",
    ),
    Mutant(
        _SCHEDULES,
        "if seen.taken:",
        "if False:",
        "the name of another is waited for without a word",
    ),
    # What is let go.
    Mutant(
        _RETENTION,
        "for some in (stored, verified)",
        "for some in (stored,)",
        "the last verified backup is deleted",
    ),
    Mutant(
        _RETENTION,
        "for some in (stored, verified)",
        "for some in (verified,)",
        "by age the last backup is deleted",
    ),
    Mutant(
        _RETENTION,
        "min(now - one.moment, last - one.began)",
        "now - one.moment",
        "a clock that is ahead for a moment empties the store",
    ),
    Mutant(
        _RETENTION,
        "_counted(stored, ",
        "_counted(here, ",
        "failures use up the places of good backups",
    ),
    Mutant(
        _RETENTION,
        "if sum(one.deleting and FINALIZER in one.finalizers for one in made) >= MOST_LEAVING:",
        "if False:",
        "a store that is down has a Job for each old backup",
    ),
    Mutant(
        _RETENTION,
        "if _takes_along(one) and not one.deletes_stored:",
        "if False:",
        "what is stored stays for ever",
    ),
    Mutant(
        _RETENTION,
        '(one.state == "stored" or bool(one.unproven))',
        '(one.state == "stored")',
        "what a trial has refused stays for ever",
    ),
    Mutant(
        _RETENTION,
        '(one.state == "stored" or bool(one.unproven))',
        '(one.state in ("stored", "failed"))',
        "a failure that stored nothing is held by a store that is down",
    ),
    Mutant(
        "backup/schedules.py",
        "if due is not None and all(one.moment != due.latest for one in seen.made):",
        "if False:",
        "what was due before an edit is skipped without a word",
    ),
    Mutant(
        _RETENTION,
        "    return is_set and",
        "    return False and",
        "what is kept after all is deleted with its object, as nobody has asked for",
    ),
    Mutant(
        _RETENTION,
        "if one not in every or one.keeps_stored)",
        "if one not in every)",
        "what a template says to retain is deleted, as its object was let go before",
    ),
    Mutant(
        _RETENTION,
        " and not one.keeps_stored\n",
        "\n",
        "what somebody has said to retain is deleted",
    ),
    Mutant(
        _RETENTION,
        "if not retention.limited:",
        "if False:",
        "failures are deleted where nothing is to be",
    ),
    Mutant(
        _SCHEDULES,
        "    if schedule.suspend:\n        return None\n",
        "",
        "suspended, it deletes",
    ),
    # Whose.
    Mutant(
        _MADE,
        "if labels_of(body).get(naming.SCHEDULE_UID) != schedule.uid or not schedule.uid:",
        "if not schedule.uid:",
        "backups of the schedule of before are deleted",
    ),
    Mutant(
        _MADE,
        "    if moment is None:\n        return None\n",
        "    moment = moment or 0\n",
        "a backup made by hand is deleted",
    ),
    Mutant(
        _MADE,
        'policy == "Delete" and FINALIZER in finalizers',
        'policy == "Delete"',
        "the object goes, and what it stored stays",
    ),
    Mutant(
        _SHELL,
        "if schedules.decide(replace(fresh, read=read)) != step:",
        "if False:",
        "by an old view the last verified backup is deleted",
    ),
    Mutant(
        _SCHEDULES,
        "longest = BUSY_SECONDS if busy else ",
        "longest = ",
        "a schedule hears minutes late what became of its run",
    ),
    Mutant(
        _STORE,
        "if resource == ETCD_BACKUPS and schedule:",
        "if False:",
        "a schedule does not see its backups",
    ),
    # Where to.
    Mutant(
        _SCHEDULE,
        "_{self.uid.replace('-', '')[:_UID_DIGITS]}",
        "",
        "a copied schedule writes over the backups of the first",
    ),
    Mutant(
        _SCHEDULE,
        '{"verify": DEFAULT_VERIFY} |',
        "{} |",
        "nothing is verified unless it is asked for",
    ),
    # What else is in the store.
    Mutant(
        _OTHERS,
        "        and one.key not in own\n",
        "",
        "a schedule's own backups are told as somebody else's",
    ),
    Mutant(
        _OTHERS,
        "names.of_schedule(one) == mine and (one in complete or partial)",
        "names.of_schedule(one) == mine",
        "what a run left unfinished is seen by nobody",
    ),
    Mutant(
        _OUTCOME,
        "return len(text.encode()) <= MOST_BYTES",
        "return True",
        "a bucket with long names makes a backup without end: its Job's word is cut off",
    ),
    Mutant(
        _RETENTION,
        "return min(now - one.moment, last - one.began)",
        "return last - one.began",
        "an API server whose clock is ahead for a moment makes the whole history old",
    ),
    Mutant(
        _RETENTION,
        "if not one.deleting and one.moment <= until)",
        "if one.moment <= until)",
        "a backup that is on its way out is counted among those that stay",
    ),
    Mutant(
        _RETENTION,
        "if stays.isdisjoint((one.name, one.location, one.unproven))",
        "",
        "a backup is deleted that a restore is about to read",
    ),
    Mutant(
        _RETENTION,
        "if not one.deleting and one.moment <= until)",
        "if not one.deleting)",
        "after a clock was ahead, each new backup is deleted",
    ),
    Mutant(
        _MADE,
        "is False and not _runs_again(body, status)",
        "is False",
        "a backup that an edit has begun again is deleted while it runs",
    ),
    Mutant(
        _SHELL,
        "            if await self._has_changed(body):\n",
        "            if False:\n",
        "a backup is deleted although its schedule has just been suspended",
    ),
    Mutant(
        "operator/etcd_operator/backup/pruning.py",
        "                limit.reschedule(loop_time() + SECONDS)\n",
        "",
        "with thousands of backups to keep, the old ones are never deleted",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "        keys.append(path)\n",
        "        keys += [] if order.stamped else [path]\n",
        "what was stored before the spec had an interval outlives its object",
    ),
    Mutant(
        _SHELL,
        'f"{naming.SCHEDULE}={schedule.name},{naming.SCHEDULE_UID}={schedule.uid}"',
        'f"{naming.SCHEDULE_UID}={schedule.uid}"',
        "nothing is deleted any more once the schedule's label was taken off the oldest backup",
    ),
    Mutant(
        _RETENTION,
        "if not _waits_for_its_store(one)]",
        "if False]",
        "failed runs pile up behind backups that the store refuses to delete",
    ),
    Mutant(
        _SHELL,
        "self._note_refusal(key, refused_in_words(error))",
        "raise",
        "one backup that a policy protects keeps all others, and hides how runs end",
    ),
    Mutant(
        _RETENTION,
        "if len(asked) >= MOST_LEAVING:",
        "if False:",
        "an API server that refuses every deletion is asked for each of thousands",
    ),
    Mutant(
        _SHELL,
        "if error.not_found:",
        "if False:",
        "a backup that somebody has just deleted counts as one that cannot be",
    ),
    Mutant(
        _SCHEDULES,
        "return max([until, *(one for one in made if one <= present)])",
        "return until",
        "after a clock that was behind, a thousand runs are reported as missed",
    ),
    Mutant(
        _RETENTION,
        '(FAILED, "JobOfAnother", *PASS_FAILED)',
        "(FAILED,)",
        "a deletion that a quota keeps from beginning is reported as done",
    ),
    Mutant(
        _SCHEDULES,
        "return min(coming, (_turn(seen, seen.due.latest), seen.due.latest))",
        "return _turn(seen, seen.due.latest), seen.due.latest",
        "a run is too late because an overdue one waits for its turn",
    ),
    Mutant(
        _SCHEDULES,
        "return min(coming, (_turn(seen, seen.due.latest), seen.due.latest))",
        "return coming",
        "an overdue run that waits for its turn is not announced",
    ),
    Mutant(
        _STATUS,
        "elif _is_tried_again(body, seen):",
        "elif False:",
        "each further try of a deletion that fails looks like its end",
    ),
    Mutant(
        _OUTCOME,
        'asdict(outcome) | {"version": outcome.version[:LONGEST_VERSION]}',
        "asdict(outcome)",
        "a long version in a manifest has a trial restore repeated without end",
    ),
]
