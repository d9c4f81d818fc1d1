"""Faults in restores, and in clusters that begin from a backup."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BOOTSTRAP = "membership/beginning/bootstrap.py"
_FILLING = "membership/epochs/filling.py"
_ORDER_OF_RESTORE = "jobs/restore.py"
_RECORDS = "records/bootstrap.py"
_RESTORE = "membership/epochs/restore.py"
_RESTORES = "backup/restores.py"
_RESTORE_JOB = "manifests/restore_job.py"
_SURVIVOR = "membership/epochs/survivor.py"

MUTANTS: Final = [
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "            await _look_again(sink, order.store.key, manifest)\n",
        "",
        "a backup that runs just then ends the restore of the one before for good",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "bump_too_high(manifest, order.bump) or ",
        "",
        "a cluster that is restored every night is replaced by one that cannot run",
    ),
    Mutant(
        "records/successor.py",
        "0 < revision <= live",
        "revision",
        "clients of a cluster that was restored see revisions again that they had seen",
    ),
    Mutant(
        "backup/restore_requests.py",
        "if waited >= GIVE_UP_SECONDS and _is_told(body):",
        "if False:",
        "a forgotten restore is carried out by an operator that was away, before it is given up",
    ),
    Mutant(
        "backup/restores.py",
        'return _for_a_day(seen, said) if "generation" in told else said',
        "return said",
        "a restore that waited for a node replaces months later what was written since",
    ),
    Mutant(
        "api/restore.py",
        "pod=self.pod.or_else(pod),",
        "pod=self.pod,",
        "the manifest cannot be read where the backup could be made",
    ),
    Mutant(
        _RESTORES,
        '    if job.state == "complete":\n',
        "    if False:\n",
        "an EtcdRestore fails for good as a node is drained at the wrong moment",
    ),
    Mutant(
        _BOOTSTRAP,
        "if cluster.restore is not None:",
        "if cluster.restore is not None and False:",
        "an empty cluster where a backup was asked for",
    ),
    Mutant(
        _RECORDS,
        "chosen=None, latched=True, members=(), size=size)",
        "chosen=None, members=(), size=size)",
        "a first volume that is lost begins an empty cluster",
    ),
    Mutant(
        _ORDER_OF_RESTORE,
        "return BUMP + PACE * max(0, int(created) - _SINCE)",
        "return BUMP",
        "a backup restored twice gives revisions out again",
    ),
    Mutant(
        "records/bootstrap_json.py",
        'restoring=truth(raw.get("restoring", False)),',
        "restoring=False,",
        "an operator that restarts forgets that nothing may run yet",
    ),
    Mutant(
        _SURVIVOR,
        "begun = record is not None and (record.restoring or bool(record.survivor))",
        "begun = record is not None and bool(record.survivor)",
        "pods run on the volume that is being filled",
    ),
    Mutant(
        _RESTORE,
        "    if claim.record is not None:\n"
        '        return _failed(seen, f"claim {claim.name} holds another member\'s data")\n',
        "",
        "another member's data is overwritten",
    ),
    Mutant(
        _FILLING,
        'if job.state == "complete":',
        'if job.state != "failed":',
        "a volume that is half filled is called restored",
    ),
    Mutant(
        _RESTORE,
        "    if seen.pods:\n",
        "    if False:\n",
        "a Job fills a volume that a pod uses",
    ),
    Mutant(
        _FILLING,
        "if (job.epoch, job.spec_hash) != (filling.record.epoch, made):",
        "if False:",
        "a spec that was mended does not reach the Job",
    ),
    Mutant(
        _FILLING,
        "if job.claim_uid != claim.uid:",
        "if False:",
        "a finished Job vouches for a claim that was made again, and is empty",
    ),
    Mutant(
        _FILLING,
        "return leftovers.damaged_record(claim) if claim.damage else None",
        "return None",
        "a claim whose record cannot be read is filled",
    ),
    Mutant(
        "jobs/restore.py",
        "    if size <= quota:\n",
        "    if True:\n",
        "F17: the volumes of before go for a cluster that takes no write",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "over_quota(size, order.quota) or ",
        "",
        "F17: the volumes of before go for a cluster that takes no write",
    ),
    Mutant(
        "jobs/restore.py",
        '        "--mark-compacted",\n',
        "",
        "F15: watchers miss what was lost, and are not told",
    ),
    Mutant(
        "jobs/restore.py",
        '        f"--bump-revision={bump}",\n',
        "",
        "F15: revisions go back in time",
    ),
    Mutant(
        _RESTORE_JOB,
        '        "serviceAccountName": store.service_account,\n',
        "",
        "what a workload identity has stored cannot be restored by one",
    ),
    Mutant(
        _RESTORE_JOB,
        '_ours("finish", environment, operator_image, [])',
        '_ours("finish", environment, operator_image, mounts)',
        "a container that needs no credentials has them",
    ),
    Mutant(
        _RESTORES,
        "if cluster.of != seen.restore.uid or seen.restore.replaces is not None:",
        "if False:",
        "a cluster that is there is called restored",
    ),
    Mutant(
        _RESTORES,
        "    return said if words else None\n",
        "    return None\n",
        "a cluster that was made from another backup, before an edit, is called restored",
    ),
    Mutant(
        "backup/restore_requests.py",
        '    if said.get("succeeded") is True:\n        return True\n',
        "",
        "a cluster that was deleted comes back by itself, with old data",
    ),
    Mutant(
        _RESTORES,
        "    if cluster.not_from_backup:\n",
        "    if False:\n",
        "a cluster that began empty, or adopted old data, is called restored",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/restore.py",
        "if not record.latched or record.bump:",
        "if not record.latched:",
        "a cluster that was filled from the backup is called failed",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/restore.py",
        'return record.attempt > 0 or not _only_from_backup(cluster["spec"])',
        "return True",
        "a restored cluster whose Secret was lost is called failed, and to be restored once more",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "    if volume.has_run(str(root)):\n",
        "    if False:\n",
        "a Job that is made late puts the backup in the place of what was written since",
    ),
    Mutant(
        "operator/etcd_operator/restore/finish.py",
        "    if volume.has_run(str(root)):\n",
        "    if False:\n",
        "the data of a member that began meanwhile gives way to the backup",
    ),
    Mutant(
        "operator/etcd_operator/restore/finish.py",
        '    _sync_all(made / "data")\n',
        "",
        "after a loss of power a member runs the half of a backup that had come to the disk",
    ),
    Mutant(
        "operator/etcd_operator/restore/finish.py",
        "    fsync(root)\n",
        "",
        "after a loss of power the marker vouches for data that has not got its place",
    ),
    Mutant(
        "operator/etcd_operator/restore/finish.py",
        "if volume.read(str(made / POD), len(uid) + 1) != uid:",
        "if False:",
        "of a backup half is put in place, as a second pod of its Job has deleted the other",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "if not facts.marker and facts.heads and (why := why_not_restored(order, facts)):",
        "if False:",
        "data of etcd's that a volume held from elsewhere is deleted for a backup",
    ),
    Mutant(
        "operator/etcd_operator/restore/__main__.py",
        "    exit_at_once(main(sys.argv[1:]))",
        "    raise SystemExit(main(sys.argv[1:]))",
        "data that is fetched is aborted at the interpreter's end, and fetched again",
    ),
    Mutant(
        "backup/restores.py",
        "if not asked:",
        "if True:",
        "the right ID is called wrong until the cluster is looked at",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "        await sink.check()\n",
        "",
        "a store that is silent is named after twenty seconds, a wrong bucket as a missing file",
    ),
    Mutant(
        "backup/begun_otherwise.py",
        'if source in ("", named_in(restore.source)):',
        "if True:",
        "another backup than the one that is named is called restored in place",
    ),
    Mutant(
        "backup/begun_otherwise.py",
        "return source.place, source.endpoint",
        "return source.place",
        "the same path in another store is called restored",
    ),
    Mutant(
        "backup/begun_otherwise.py",
        "if begins is None or (isinstance(asked, BackupRef) and asked.name == named):",
        "if isinstance(asked, BackupRef) and asked.name == named:",
        "a restore fails inside while its cluster is to begin without a backup",
    ),
]
