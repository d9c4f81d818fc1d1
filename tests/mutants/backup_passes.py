"""Faults in the passes over backups, schedules and restores."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BACKUP = "operator/etcd_operator/backup_controllers/backup.py"
_OBSERVE = "operator/etcd_operator/backup_controllers/observe.py"
_BEING_READ = "operator/etcd_operator/backup_controllers/being_read.py"
_BOUNDED = "operator/etcd_operator/backup_controllers/bounded.py"
_CRON = "operator/etcd_operator/backup_controllers/cron.py"
_JOBS = "operator/etcd_operator/backup_controllers/jobs.py"
_RESTORE = "operator/etcd_operator/backup_controllers/restore.py"
_SCHEDULE = "operator/etcd_operator/backup_controllers/schedule.py"
_TARGET = "operator/etcd_operator/backup_controllers/target.py"

MUTANTS: Final = [
    Mutant(
        _BACKUP,
        "        if not await self._is_noted(begun, run,"
        ' job["metadata"]["name"]):\n            return False\n',
        "",
        "a Job runs that no status names, and after an edit two write under one name",
    ),
    Mutant(
        _OBSERVE,
        "replace(backup, generation=backup.generation - 1), body",
        "backup, body",
        "the Job that runs while its object is deleted is looked for under another name",
    ),
    Mutant(
        _BACKUP,
        "begins and await is_being_read(self._kube, self._store, body, backup)",
        "False",
        "nobody asks whether a restore reads what is about to be deleted",
    ),
    Mutant(
        _BACKUP,
        "            self._measure(body)\n            await self._write(body, status.refused",
        "            await self._write(body, status.refused",
        "a backup at an interval whose spec is refused has no age, and no alert tells of it",
    ),
    Mutant(
        _BACKUP,
        "            if not error.not_found:\n                raise\n            return False",
        "            return False",
        "a finalizer that the API server refuses is tried again in silence",
    ),
    Mutant(
        _BACKUP,
        "if not (namespace_ends(error) and isinstance(step, CreateDeletionJob)):",
        "if True:",
        "a namespace that is being deleted is held for ever by its backups",
    ),
    Mutant(
        _BACKUP,
        "if not (namespace_ends(error) and isinstance(step, CreateDeletionJob)):",
        "if not isinstance(step, CreateDeletionJob):",
        "a quota that refuses one Job makes a backup outlive its object",
    ),
    Mutant(
        _BACKUP,
        'patch = {"metadata": precondition | change}',
        'patch = {"metadata": change}',
        "a finalizer that somebody has just set is overwritten",
    ),
    Mutant(
        _OBSERVE,
        '(run.due <= now or stored.get("job") == name)',
        "run.due <= now",
        "after a clock was ahead, the Job that runs is not looked at",
    ),
    Mutant(
        _BACKUP,
        "if backup.begun_as or backup.periodic or backup.scheduled:",
        "if backup.periodic or backup.scheduled:",
        "an object that is brought back forgets that its run had begun",
    ),
    Mutant(
        _OBSERVE,
        "members=claim is not None and naming.CLUSTER_UID in annotations_of(claim),",
        "members=False,",
        "backups are written among a member's data",
    ),
    Mutant(
        _BACKUP,
        'f"{repository}:v{number_of(stored.version)}"',
        'f"{repository}:v3.6.12"',
        "a backup is restored on trial with another etcd than it was taken from",
    ),
    Mutant(
        _BACKUP,
        "    if seen.before and not seen.before.other_owner and"
        ' seen.before.state == "running":\n        return ""\n',
        "",
        "the status forgets the Job that still writes to where an older spec leads",
    ),
    Mutant(
        _OBSERVE,
        "return known if known or told else await self._jobs.unnamed(backup)",
        "return known",
        "after its status was emptied, a backup is stored behind its own deletion",
    ),
    Mutant(
        _OBSERVE,
        "{last_location(body), *locations_read(self._store, namespace)}",
        "{*locations_read(self._store, namespace)}",
        "the last backup that was proven gives way to one that is not",
    ),
    Mutant(
        _OBSERVE,
        "{last_location(body), *locations_read(self._store, namespace)}",
        "{last_location(body)}",
        "a run deletes what a restore is about to read",
    ),
    Mutant(
        _OBSERVE,
        "            return await self._jobs.unnamed(backup, but=name)\n",
        "            return None\n",
        "after its status was emptied, two Jobs of a backup write at once",
    ),
    Mutant(
        _BACKUP,
        "            self._metrics.forget_interval(key)\n            self._failed",
        "            self._failed",
        "a backup that is gone is old for ever, and its alert never ends",
    ),
    Mutant(
        _BACKUP,
        "        if deleting:\n            self._metrics.forget_interval(key_of(body))\n",
        "",
        "a backup that waits for its deletion is told as too old",
    ),
    Mutant(
        _OBSERVE,
        "plan.job_name(backup, plan.trial_run(run)))",
        "plan.job_name(backup, run))",
        "the Job of a run is taken for its trial",
    ),
    Mutant(
        _BOUNDED,
        "            self._rate_limit.happened(same, self._clock())\n",
        "            pass\n",
        "two controllers overwrite a status as fast as they can",
    ),
    Mutant(
        _BOUNDED,
        "json.dumps(without_times(status), sort_keys=True)",
        "json.dumps(status, sort_keys=True)",
        "two controllers overwrite a status once each second",
    ),
    Mutant(
        _JOBS,
        "            uid=step.uid,\n",
        "",
        "a Job that was made again is deleted in the place of the one that was judged",
    ),
    Mutant(
        _JOBS,
        " or (predecessor and not ours),",
        ",",
        "the Job of an object of before is taken for its own",
    ),
    Mutant(
        _JOBS,
        '        if said == JobReport() and state == "running" and not why_not'
        " and not has_begun:\n            said = _said_before(pods)\n",
        "",
        "four tries that fail alike change the status eight times",
    ),
    Mutant(
        _JOBS,
        "if job and deletion.may_still_run(job) and _stores(job, backup):",
        "if job and deletion.may_still_run(job):",
        "a trial restore is stopped as a backup that nobody has asked for",
    ),
    Mutant(
        _JOBS,
        "    except (OSError, ValueError):\n        return None\n    return outcome",
        "    except OSError:\n        return None\n    return outcome",
        "a pod that sends an endless line stops the passes over its backup",
    ),
    Mutant(
        _JOBS,
        "unpullable=jobs.is_unpullable(raw, newest, self._operator_image),",
        "",
        "a Job whose image is gone from its registry is waited for until its deadline",
    ),
    Mutant(
        _JOBS,
        "    if words := jobs.out_of_memory(pod):\n",
        "    if words := '':\n",
        "a backup that needs more memory fails without a reason",
    ),
    Mutant(
        _JOBS,
        "    if text := jobs.message(pod, FETCH):\n",
        "    if text := '':\n",
        "why a trial could not fetch its backup is not told",
    ),
    Mutant(
        _JOBS,
        'if state == "failed" and jobs.is_stopping(pod):',
        "if False:",
        "a run counts as failed while its pod still stores",
    ),
    Mutant(
        _BEING_READ,
        "are_own(known) or are_own(await read_now(kube, namespace))",
        "are_own(known)",
        "what is stored is deleted for a watch that lags behind a restore",
    ),
    Mutant(
        _BEING_READ,
        "known = known_to_be_read(store, namespace) | _looked_up(store, namespace)",
        "known = known_to_be_read(store, namespace)",
        "what a restore has looked up is deleted with its object",
    ),
    Mutant(
        _BEING_READ,
        "return read | {last_location(one) for one in named if one} | _looked_up(store, namespace)",
        "return read | _looked_up(store, namespace)",
        "what a restore names by its EtcdBackup is overwritten by the next run",
    ),
    Mutant(
        _BEING_READ,
        "if key[0] == namespace)",
        ")",
        "a restore in another namespace keeps backups from being deleted",
    ),
    Mutant(
        _RESTORE,
        'if record is None or record.cluster_uid != cluster["metadata"]["uid"]:',
        "if record is None:",
        "a restore fails by the record of a cluster that was deleted",
    ),
    Mutant(
        _RESTORE,
        "            self._failed_passes.over(key)\n            await"
        " self._write(body, status.after_an_edit(body, self._now()))\n",
        "            self._failed_passes.over(key)\n",
        "an edit that has no effect is not told of",
    ),
    Mutant(
        _RESTORE,
        'said.failed or said.status == "True"',
        "said.failed",
        "a restore that is over is not announced",
    ),
    Mutant(
        _SCHEDULE,
        "read = await read_now(self._kube, schedule.namespace)",
        "read = known_to_be_read(self._store, schedule.namespace)",
        "a backup is deleted for a watch that lags behind a restore",
    ),
    Mutant(
        _SCHEDULE,
        'patch = {"metadata": precondition | change, "spec"',
        'patch = {"metadata": change, "spec"',
        "a backup that somebody has just edited is let go all the same",
    ),
    Mutant(
        _SCHEDULE,
        "uid=step.uid, resource_version=version)",
        "uid=step.uid)",
        "a backup that somebody has just edited is deleted all the same",
    ),
    Mutant(
        _SCHEDULE,
        "now if self._began is None else min(self._began, now)",
        "self._began or now",
        "after a clock was ahead, runs are held until that time",
    ),
    Mutant(
        _SCHEDULE,
        'return gone or "deletionTimestamp" in now["metadata"] or',
        "return gone or",
        "a schedule that is being deleted goes on to delete",
    ),
    Mutant(
        _SCHEDULE,
        'return gone or "deletionTimestamp"',
        'return "deletionTimestamp"',
        "the schedule of before deletes by what it said",
    ),
    Mutant(
        _SCHEDULE,
        "if not self._failed_passes.is_reported((schedule.namespace, schedule.name)):",
        "if False:",
        "a webhook that is down for a moment is told as a refusal",
    ),
    Mutant(
        _SCHEDULE,
        "            schedule, began if until is None else until, runs, now",
        "            schedule, now if until is None else until, runs, now",
        "runs are skipped after somebody has emptied the status",
    ),
    Mutant(
        _SCHEDULE,
        'change: Json = {"annotations": {naming.LET_GO: None}}',
        'change: Json = {"annotations": {}}',
        "what is kept after all is let go again and again",
    ),
    Mutant(
        _SCHEDULE,
        "            self._measure_stopped(body)\n            await"
        " self._write(body, told)\n            return None",
        "            await self._write(body, told)\n            return None",
        "a schedule whose spec is refused goes on to look well",
    ),
    Mutant(
        _SCHEDULE,
        "counted = calendar_before(record.times) if edited else calendar",
        "counted = calendar",
        "what was due by the times of before an edit is missed without a word",
    ),
    Mutant(
        _TARGET,
        "cluster_id = reading.last_cluster_id(body) or 0",
        "cluster_id = 0",
        "whatever etcd has the names of a cluster is backed up as that",
    ),
    Mutant(
        _TARGET,
        "{ordinal: one for ordinal, one in members.items() if ordinal in found.ordinals}",
        "members",
        "members are asked that the spec does not name",
    ),
    Mutant(
        _TARGET,
        "    if backup.client_tls_secret and not backup.cluster:\n        return None\n",
        "",
        "the certificate of a cluster takes the place of the one that the spec names",
    ),
    Mutant(
        _TARGET,
        "        cluster = _as_it_runs(store, cluster)\n",
        "",
        "a backup is asked for over links that a cluster does not have yet",
    ),
    Mutant(
        _TARGET,
        "running = _as_it_runs(store, cluster) if cluster else None",
        "running = cluster",
        "a restored cluster has TLS that its clients do not know",
    ),
    Mutant(
        _TARGET,
        'encrypted = cluster.links.client.is_encrypted and "https" in levels.client_schemes',
        "encrypted = cluster.links.client.is_encrypted",
        "while TLS is turned on, members without it are asked with it",
    ),
    Mutant(
        _CRON,
        "        if count == MOST_COUNTED:\n            found = self._newest(until)\n",
        "",
        "after a long outage the run of weeks ago is made up for",
    ),
    Mutant(
        _CRON,
        "            if moment > until:",
        "            if moment >= until:",
        "a run is made a minute late, whenever it is looked at in time",
    ),
    Mutant(
        _CRON,
        "    except RefusedSchedule:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
        "a schedule stops for good over times that somebody has written into its status",
    ),
    Mutant(
        _CRON,
        "while len(found := list(self._between(until - seconds, until))) < 2:",
        "while len(found := list(self._between(until - seconds, until))) < 1:",
        "after a long outage a schedule of one run in a day fails inside",
    ),
]
