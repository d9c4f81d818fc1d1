"""Faults in decisions about backups, and in those of the Jobs of restores and recoveries."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_CREDENTIALS = "backup/credentials.py"
_DELETION = "backup/deletion.py"
_FOREIGN_FILES = "backup/foreign_files.py"
_IN_USE = "backup/in_use.py"
_JOBS_RECOVER = "jobs/recover.py"
_JOBS_RESTORE = "jobs/restore.py"
_MANIFEST = "backup/manifest.py"
_NAMES = "backup/names.py"
_PACKING = "backup/packing.py"
_PLAN = "backup/plan.py"
_RECORDED_CLUSTER = "backup/recorded_cluster.py"
_REFERENCE = "backup/reference.py"
_RESTORES = "backup/restores.py"
_RETENTION = "backup/retention.py"
_SCHEDULES = "backup/schedules.py"
_SCHEDULE_STATUS = "backup/schedule_status.py"
_STATUS = "backup/status.py"
_TRIAL = "backup/trial.py"
_TROUBLE = "backup/trouble.py"

MUTANTS: Final = [
    Mutant(
        _PLAN,
        "        ahead = due - now > backup.policy.interval + CLOCKS_DIFFER\n",
        "        ahead = False\n",
        "after a clock was ahead, no backup is made until that time",
    ),
    Mutant(
        _PLAN,
        "is_likely = due - CLOCKS_DIFFER <= job.created <= seen.now",
        "is_likely = True",
        "by an API server whose clock is behind, an interval is due again at once",
    ),
    Mutant(
        _PLAN,
        "    if tried.order and tried.order.expected != stored.sha256:\n",
        "    if False:\n",
        "the trial of an earlier file proves the one that has replaced it",
    ),
    Mutant(
        _PLAN,
        "    if job.order and not job.order.measure:\n",
        "    if False:\n",
        "an edit of how to verify fails a backup that is whole",
    ),
    Mutant(
        _PLAN,
        "    if seen.members:\n",
        "    if False:\n",
        "a backup is written among a member's data, as its claim is not looked at",
    ),
    Mutant(
        _PLAN,
        'if left and seen.stored.get("unproven") != left:',
        "if False:",
        "what an edit has cut short stays in the store, and no status names it",
    ),
    Mutant(
        _PLAN,
        "CreateTrialJob(run, stored, job.store or seen.backup.store)",
        "CreateTrialJob(run, stored, seen.backup.store)",
        "a trial looks for a backup where the edited spec leads",
    ),
    Mutant(
        _IN_USE,
        'if "deletionTimestamp" in body["metadata"] or is_over(body):\n       '
        " return None\n    spec",
        'if "deletionTimestamp" in body["metadata"]:\n        return None\n    spec',
        "a restore that is over keeps its backup for ever",
    ),
    Mutant(
        _IN_USE,
        'if "deletionTimestamp" in body["metadata"] or is_over(body):',
        "if is_over(body):",
        "a restore that is being deleted keeps its backup",
    ),
    Mutant(
        _IN_USE,
        'if serves or "deletionTimestamp" in body["metadata"]:',
        'if "deletionTimestamp" in body["metadata"]:',
        "a cluster keeps the backup that it began with for as long as it lives",
    ),
    Mutant(
        _IN_USE,
        "*map(_source_of_cluster, clusters)]",
        "]",
        "what a cluster is about to begin with is deleted",
    ),
    Mutant(
        _MANIFEST,
        'if given["format"] != FORMAT or given["compression"] != "none":',
        'if given["format"] != FORMAT:',
        "a compressed backup is restored as if it were none",
    ),
    Mutant(
        _MANIFEST,
        "text = readable if len(readable) < MAX_BYTES else json.dumps(content, sort_keys=True)",
        "text = readable",
        "the manifest of a cluster with a large spec is too long to be read",
    ),
    Mutant(
        _MANIFEST,
        'if given["format"] == FORMAT and given.get("undecided") is True:',
        'if given.get("undecided") is True:',
        "a manifest of a later format is read by the rules of this one",
    ),
    Mutant(
        _MANIFEST,
        'known = {"ownerUID": owner_uid, "clusterID": cluster_id}',
        'known = {"ownerUID": owner_uid}',
        "the last backup of a cluster gives way after an interruption",
    ),
    Mutant(
        _DELETION,
        "return SetFinalizers(tuple(one for one in finalizers if one != FINALIZER))",
        "return SetFinalizers(())",
        "the finalizers of others go with ours",
    ),
    Mutant(
        _DELETION,
        "return SetFinalizers((*finalizers, FINALIZER))",
        "return SetFinalizers((FINALIZER,))",
        "the finalizers of others give way to ours",
    ),
    Mutant(
        _DELETION,
        '    if job.state == "complete":\n        return off\n',
        '    if job.state != "running":\n        return off\n',
        "a deletion that has failed lets its object go",
    ),
    Mutant(
        _FOREIGN_FILES,
        "return manifest is not None and manifest.size >= SHORTEST",
        "return manifest is not None",
        "a file that an interrupted run left counts as a whole backup",
    ),
    Mutant(
        _NAMES,
        "return name.startswith(start) and bool(_LEFT.fullmatch(name.removeprefix(start)))",
        "return name.startswith(start)",
        "what another object is about to finish is deleted, as its path begins alike",
    ),
    Mutant(
        _NAMES,
        "_unfinished(path, owner_uid)}{token}{UNFINISHED}",
        "_unfinished(path, owner_uid)}{UNFINISHED}",
        "a second process writes into the unfinished file of the first",
    ),
    Mutant(
        _RETENTION,
        "few = stored[:count] if count else stored",
        "few = stored[:count]",
        "a retention by age alone keeps one backup",
    ),
    Mutant(
        _RETENTION,
        "few = stored[:count] if count else stored",
        "few = stored[: count - 1] if count else stored",
        "one backup fewer is kept than the spec asks for",
    ),
    Mutant(
        _RETENTION,
        "for one in reversed(stored)}",
        "for one in stored}",
        "of a lost cluster the oldest backup is kept, and the last deleted",
    ),
    Mutant(
        _RETENTION,
        "one = min(going, key=lambda each: each.moment)",
        "one = max(going, key=lambda each: each.moment)",
        "the newest of the old backups are deleted first",
    ),
    Mutant(
        _RETENTION,
        "return [*some[:1], max(some, key=lambda one: one.began)] if some else []",
        "return some[:1]",
        "with a clock that was ahead, the last backup is deleted",
    ),
    Mutant(
        _PACKING,
        "unpacking.decompress(packed, most + 1)",
        "unpacking.decompress(packed)",
        "a text of a few KiB takes all memory when it is unpacked",
    ),
    Mutant(
        _RECORDED_CLUSTER,
        '("bootstrap", "paused", "recovery", "retainedClaims")',
        '("bootstrap", "paused", "recovery")',
        "who may write to a store decides which volumes are discarded",
    ),
    Mutant(
        _RECORDED_CLUSTER,
        'kept["TLS"] = {**(kept.get("TLS") or {}), **bare}',
        "pass",
        "a restored cluster has TLS that the clients of the lost one do not",
    ),
    Mutant(
        _REFERENCE,
        "return replace(found, sha256=sha256, revision=revision)",
        "return replace(found, revision=revision)",
        "a restore by name takes what has replaced the backup",
    ),
    Mutant(
        _REFERENCE,
        "    if not key:\n        return NotRestorable(\n           "
        ' f"EtcdBackup {name} has stored',
        '    if False:\n        return NotRestorable(\n            f"EtcdBackup {name} has stored',
        "a location outside of the store leads to its root",
    ),
    Mutant(
        _RESTORES,
        'told.get("uid") == restore.uid and (',
        "(",
        "the report of another restore is taken for this one's",
    ),
    Mutant(
        _RESTORES,
        "    if now != before or seen.waited < GIVE_UP_SECONDS:",
        "    if seen.waited < GIVE_UP_SECONDS:",
        "a restore that was edited is given up for what it had waited before",
    ),
    Mutant(
        _RESTORES,
        'edited = told.get("generation", restore.generation) != restore.generation',
        "edited = False",
        "the failure before an edit ends the restore after it",
    ),
    Mutant(
        _RESTORES,
        "        | recorded_cluster.reusable(described.spec)\n",
        "        | described.spec\n",
        "who may write to a store decides whether a restored cluster runs",
    ),
    Mutant(
        _RESTORES,
        '    version = {"version": ran} if ran else {}\n',
        "    version = {}\n",
        "a restored cluster runs a newer etcd than its backup allows",
    ),
    Mutant(
        _SCHEDULE_STATUS,
        'return max((one for one in times if one <= now), default="")',
        'return max(times, default="")',
        "a time that a clock ahead has written hides that runs fail",
    ),
    Mutant(
        _SCHEDULE_STATUS,
        "return (record.last_missed or 0) > (record.last_made or 0)",
        "return False",
        "a run that was missed looks like one that went well",
    ),
    Mutant(
        _SCHEDULE_STATUS,
        '    if not seen.schedule.suspend:\n        told["next',
        '    if True:\n        told["next',
        "a suspended schedule announces its next run",
    ),
    Mutant(
        _STATUS,
        '        for key in ("verified", "verifiedDate", "otherBackups"):\n    '
        "        status.pop(key, None)\n",
        "",
        "a backup that nobody has verified keeps the proof of the one before",
    ),
    Mutant(
        _STATUS,
        "return names.path_of(unproven) == names.path_of(stored.location)",
        "return True",
        "a file at another path is forgotten once a later run succeeds",
    ),
    Mutant(
        _TRIAL,
        '        "--client-cert-auth",\n',
        "",
        "any process of the node may read what is restored on trial",
    ),
    Mutant(
        _TRIAL,
        'LOOPBACK: Final = "127.0.0.1"',
        'LOOPBACK: Final = "0.0.0.0"',
        "what is restored on trial is open to the network",
    ),
    Mutant(
        _TROUBLE,
        'line = told + status + "".join(f": {one}" for one in said if one)',
        "line = told + status + reply",
        "what a store repeats of a request, a signed key, comes into the status",
    ),
    Mutant(
        _TROUBLE,
        '"".join(one if one.isprintable() else " " for one in " ".join(line.split()))[:400]',
        '" ".join(line.split())[:400]',
        "whatever answers at an endpoint writes escape sequences into terminals",
    ),
    Mutant(
        _CREDENTIALS,
        "    if not _REGION.fullmatch(name):\n",
        "    if False:\n",
        "a region in a Secret leads its credentials to another host",
    ),
    Mutant(
        _CREDENTIALS,
        "or _at_address(host):",
        "or False:",
        "the store's client ends with a stack trace at an address",
    ),
    Mutant(
        _SCHEDULES,
        "    if until - now > CLOCKS_DIFFER:\n        return present\n",
        "",
        "after a clock was ahead, all runs until then are skipped in silence",
    ),
    Mutant(
        _JOBS_RESTORE,
        "needed = 2 * size + LOG_BYTES",
        "needed = size + LOG_BYTES",
        "a restore fills its volume, and fails after the data of before is gone",
    ),
    Mutant(
        _JOBS_RESTORE,
        "    if minor_of(to) in (own, following):\n",
        "    if True:\n",
        "a cluster is restored with an etcd that cannot run its data",
    ),
    Mutant(
        _JOBS_RESTORE,
        "    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):\n",
        "    if False:\n",
        "data with other IDs is put in place, and start refuses it for ever",
    ),
    Mutant(
        _JOBS_RESTORE,
        "    if manifest is None or manifest.revision >= revision:\n       "
        ' return ""\n    return (\n        f"spec.backupRef',
        '    if True:\n        return ""\n    return (\n        f"spec.backupRef',
        "by a status that somebody has changed, revisions are given out again",
    ),
    Mutant(
        _JOBS_RESTORE,
        "    if revision + bump <= HIGHEST:\n",
        "    if True:\n",
        "revisions wrap around, and etcd does not run on them",
    ),
    Mutant(
        _JOBS_RESTORE,
        '        f"--initial-cluster-token={token}",\n',
        "",
        "a restored cluster has the ID of the one that it replaces",
    ),
    Mutant(
        _JOBS_RECOVER,
        "    if named.epoch >= order.settings.epoch:\n",
        "    if False:\n",
        "a late Job of an earlier recovery forces the cluster once more, and drops members",
    ),
    Mutant(
        _JOBS_RECOVER,
        "    if replace(named, epoch=order.settings.epoch) != order.marker:\n",
        "    if False:\n",
        "the volume of another member becomes the cluster",
    ),
    Mutant(
        _JOBS_RECOVER,
        "    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):\n",
        "    if False:\n",
        "a clone of another member's volume becomes the cluster",
    ),
    Mutant(
        _JOBS_RECOVER,
        "    if listed.get(order.member_id) is not False:\n",
        "    if order.member_id not in listed:\n",
        "a learner is left as the only member",
    ),
    Mutant(
        _JOBS_RECOVER,
        "if key == QUOTA}",
        "if False}",
        "a survivor above its quota has an alarm that outlasts its recovery",
    ),
    Mutant(
        _JOBS_RECOVER,
        "listen_host=LOOPBACK, plaintext",
        "plaintext",
        "the old members reach the survivor while its cluster is made",
    ),
    Mutant(
        _JOBS_RECOVER,
        '{"force-new-cluster": force,',
        '{"force-new-cluster": True,',
        "a volume that is finished is forced again, and loses its new members",
    ),
    Mutant(
        _JOBS_RECOVER,
        "return sorted(listed.keys() - {order.member_id})",
        "return []",
        "members that died stay on the list, and no quorum is possible",
    ),
    Mutant(
        _JOBS_RECOVER,
        "    if marker.parse(text) == order.marker:\n        return Finished()\n",
        "",
        "a recovery that is over is called one of another volume",
    ),
    Mutant(
        _DELETION,
        'left = "" if job.other_owner else job.said.left',
        "left = job.said.left",
        "what another object has stored is deleted with this one",
    ),
]
