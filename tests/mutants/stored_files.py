"""Faults in what is stored, replaced and deleted."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_DELETION = "backup/deletion.py"
_INTEGRITY = "backup/integrity.py"
_NAMES = "backup/names.py"
_PRUNING = "operator/etcd_operator/backup/pruning.py"

MUTANTS: Final = [
    Mutant(
        _INTEGRITY,
        "if self._hash.digest() != self._tail:",
        "if False:",
        "damaged bytes are called a backup",
    ),
    Mutant(
        _INTEGRITY,
        "if self.size % SECTOR != TAIL or self.size <= TAIL:",
        "if self.size <= TAIL:",
        "the size is no matter: etcdutl would take the file for one without a hash",
    ),
    Mutant(
        "operator/etcd_operator/backup/source.py",
        "        if left:\n",
        "        if False:\n",
        "a snapshot that ended early is handed on as a whole one",
    ),
    Mutant(
        "operator/etcd_operator/backup/read_ahead.py",
        "            stop()\n",
        "",
        "a member that stalls holds a Job that was told to end",
    ),
    Mutant(
        "operator/etcd_operator/backup/idle_timeout.py",
        "        finally:\n            self._since = None\n",
        "        finally:\n            pass\n",
        "F31: the time that a slow store takes counts as silence of the member",
    ),
    Mutant(
        _NAMES,
        "return (stamp[2], int(stamp[1])) if stamp else None",
        "return (stamp[1], int(stamp[1])) if stamp else None",
        "the newest backup goes, as its revision has a digit more",
    ),
    Mutant(
        _NAMES,
        "sorted(found, reverse=True)",
        "sorted(found)",
        "the newest go and the oldest stay",
    ),
    Mutant(
        _PRUNING,
        "names.moment_of(path, key) < day_before",
        "True",
        "what somebody is about to finish is deleted",
    ),
    Mutant(
        _NAMES,
        "_STAMP.fullmatch(key.removeprefix(path))",
        "_STAMP.match(key.removeprefix(path))",
        "neighbours whose names begin alike are deleted",
    ),
    Mutant(
        _PRUNING,
        "(*order.spare, made)",
        "order.spare",
        "the backup just made goes, as the clock runs behind",
    ),
    Mutant(
        _PRUNING,
        "(*order.spare, made)",
        "(made,)",
        "the last backup that was proven goes",
    ),
    Mutant(
        _PRUNING,
        "is_own = told.owner_uid == order.owner_uid",
        "is_own = True",
        "two objects with one path delete each other's backups",
    ),
    Mutant(
        _PRUNING,
        "(told.owner_uid == order.owner_uid and not told.finished)",
        "not told.finished",
        "what another object has not finished is deleted, although it may be whole",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "old = await check_overwrite(order, sink, cluster_id, revision)",
        'old = manifest.Undecided("")',
        "the last backup of another cluster, stored during the upload, is replaced",
    ),
    Mutant(
        _PRUNING,
        "return told.owner_uid is None or",
        "return told.owner_uid == '-' or",
        "backups of the coreos operator are never deleted",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "            await self._mark_as_own(taken)\n",
        "",
        "what is stopped while it is read back stays in the store when its object is deleted",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "            self._left = whole\n",
        "",
        "what is stored when the time is over stays in the store, and no status names it",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        'own if old.owner_uid == own else ""',
        "own",
        "what another object has stored is deleted by who was about to take its place",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        'cluster_id if old.cluster_id == cluster_id else ""',
        '""',
        "the last backup of a cluster whose Job died with it gives way to that of an empty one",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "        await self._compare(taken)\n        return",
        "        return",
        "of two backups at one path, both succeed with a file that no restore takes",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "        if theirs not in (None, UNREADABLE, own):\n",
        "        if False:\n",
        "the manifest of another object's file gives way to the mark of one that it has replaced",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "            if found != taken.sha256:  # Whole",
        "            if False:  # Whole",
        "another object's file, not yet described, is deleted with one that it has replaced",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "if isinstance(found, Manifest) and await _is_stored(order, sink, found):",
        "if False:",
        "a backup of before an upgrade is made once more after it, as its pod went with its node",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "        await _look_for_another(order, sink, key)\n",
        "",
        "a copy of an EtcdBackup takes the place of what that one has stored in the same second",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "    if order.store.key in order.spare:\n",
        "    if False:\n",
        "what a restore is about to read is replaced by a backup from after the damage",
    ),
    Mutant(
        "operator/etcd_operator/backup/source.py",
        'rpc.RangeRequest(key=b"\\0", count_only=True)',
        'rpc.RangeRequest(key=b"\\0", count_only=True, serializable=True)',
        "a backup of a member that is cut off lacks what the quorum has",
    ),
    Mutant(
        _DELETION,
        "return _READ if read else",
        "return",
        "what a restore is about to read is deleted with its object",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "if before.revision > revision:",
        "if False:",
        "what a recovery has lost is lost in the last backup that has it, too",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "if order.brought_back:",
        "if False:",
        "an object that is brought back replaces what it was made to keep",
    ),
    Mutant(
        _PRUNING,
        "finished = is_own and told.finished",
        "finished = is_own",
        "tries that failed take the places of backups that were proven",
    ),
    Mutant(
        _DELETION,
        "if one and not plan.is_where_it_stores(backup, one)",
        "if False",
        "what was stored before the path was edited stays, and is said to be deleted",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "        if failure.reason != INTERRUPTED:",
        "        if True:",
        "a backup that is stopped for the sake of a restore deletes what that reads",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "        if is_own and not self._is_stored:\n",
        "        if is_own:\n",
        "the file of another that has replaced ours is deleted with our object",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "        return _not_here(order.store, out_of_reach[0])\n",
        "        pass\n",
        "what lies in the bucket of before is said to be deleted",
    ),
    Mutant(
        _DELETION,
        "failure and failure.reason == FAILED else",
        "failure else",
        "a file that its store did not delete is forgotten",
    ),
    Mutant(
        _DELETION,
        "    if off is None or not backup.delete_stored:\n",
        "    if off is None:\n",
        "Retain does not let go of an object that is being deleted",
    ),
    Mutant(
        _DELETION,
        "    if before and (left := left_elsewhere(backup, stored, before)):\n",
        "    if before and (left := ''):\n",
        "a file at the path of before an edit stays when its object is deleted",
    ),
    Mutant(
        _DELETION,
        "    if before and may_still_run(before):\n",
        "    if False:\n",
        "a backup is stored behind its own deletion",
    ),
    Mutant(
        _DELETION,
        '(job.state == "running" or job.deleting)',
        'job.state == "running" and not job.deleting',
        "a backup that was told to stop is stored behind its own deletion",
    ),
    Mutant(
        _DELETION,
        'if job.state == "failed" and told >= AGAIN_SECONDS:',
        "if False:",
        "a deletion that failed once holds its object for ever",
    ),
    Mutant(
        _DELETION,
        'if job.state == "failed" and told >= AGAIN_SECONDS:',
        'if job.state == "failed":',
        "a store that is down has one Job after the other",
    ),
    Mutant(
        _DELETION,
        'Run(f"delete-g{backup.generation}", 0.0)',
        'Run("delete", 0.0)',
        "an edit that mends a deletion is not heard",
    ),
    Mutant(
        _DELETION,
        "    if job.other_owner or job.deleting:",
        "    if job.deleting:",
        "by another's Job the object goes, and what it stored stays",
    ),
    Mutant(
        "operator/etcd_operator/backup/source.py",
        "            if found.whole:\n",
        "            if True:\n",
        "a compaction at the wrong moment leaves nothing to compare with",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "await sink.delete((key, names.manifest_of(key)))",
        "await sink.delete((names.manifest_of(key), key))",
        "what a removal that was cut short has left is nobody's, and stays for good",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "        if not order.scheduled:  #",
        "        if True:  #",
        "the removal of an old run deletes what the next one is about to store",
    ),
    Mutant(
        "operator/etcd_operator/backup/pruning.py",
        "await sink.delete((names.manifest_of(key), key))",
        "await sink.delete((key, names.manifest_of(key)))",
        "manifests of backups that were deleted by half stay for good",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        '        if error.forbidden:\n            return Undecided("")\n',
        "",
        "credentials that may only write are refused",
    ),
    Mutant(
        "operator/etcd_operator/backup/source.py",
        "                await self._check_sender(member)\n",
        "",
        "a member that is behind sends the snapshot that another was asked for",
    ),
    Mutant(
        "operator/etcd_operator/backup/__main__.py",
        "    return 0 if told or isinstance(outcome, Removed | Downloaded) else 1\n",
        "    return 0\n",
        "a backup whose word found no room is made again without end",
    ),
    Mutant(
        "operator/etcd_operator/backup/__main__.py",
        "    exit_at_once(main(os.environ))",
        "    raise SystemExit(main(os.environ))",
        "a backup that is stored is aborted at the interpreter's end, and taken again",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        'if error.failure.reason == "StoreUnreachable":',
        "if True:",
        "an object cannot be deleted any more once its bucket is gone",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "if made := await made_before(self._order, self._sink):",
        "if made := None:",
        "a backup that was stored is called failed once the quorum is lost with its node",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "        await self._prune(self._left.key)\n",
        "",
        "files that could not be read back fill the store",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "if _is_own(order, key, told) and _is_own(order, key, await whose(sink, key)):",
        "if _is_own(order, key, told):",
        "what another object has just replaced is deleted with this one",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "with contextlib.suppress(Failed, TimeoutError):",
        "with contextlib.suppress(()):",
        "a store that fails once more hides why the backup has failed",
    ),
]
