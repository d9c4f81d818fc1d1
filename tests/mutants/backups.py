"""Faults in backups and restores."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BOOTSTRAP = "membership/beginning/bootstrap.py"
_CHOICE = "backup/choice.py"
_CREDENTIALS = "backup/credentials.py"
_DELETION = "backup/deletion.py"
_FILLING = "membership/epochs/filling.py"
_INTEGRITY = "backup/integrity.py"
_JOB = "manifests/backup_job.py"
_JOBS = "manifests/jobs.py"
_NAMES = "backup/names.py"
_ORDER_OF_RESTORE = "jobs/restore.py"
_PLAN = "backup/plan.py"
_PRUNING = "operator/etcd_operator/backup/pruning.py"
_RECORDS = "records/bootstrap.py"
_RESTORE = "membership/epochs/restore.py"
_RESTORES = "backup/restores.py"
_RESTORE_JOB = "manifests/restore_job.py"
_STATUS = "backup/status.py"
_STORES = "api/stores.py"
_SURVIVOR = "membership/epochs/survivor.py"
_UNTRUSTED = "untrusted.py"

MUTANTS: Final = [
    # What others say.
    Mutant(
        _UNTRUSTED,
        "if type(value) is not int or value < least:",
        "if value < least:",
        "half a key, or an infinite one, goes into a status that the API server refuses",
    ),
    Mutant(
        _UNTRUSTED,
        "not math.isfinite(value)",
        "value != value",
        "`1e999` in a manifest goes into the EtcdCluster that is made of it",
    ),
    Mutant(
        _JOBS,
        r'return text.replace("$", "\\u0024")',
        "return text",
        "a backup lies elsewhere than its path says: the kubelet expands variables in it",
    ),
    Mutant(
        _JOBS,
        ', {"action": "Ignore", "onPodConditions": evicted}]',
        "]",
        "a long restore fails because nodes are drained",
    ),
    Mutant(
        _JOBS,
        "orders.CA_FOLDER, orders.CA_FILE))",
        "orders.CA_FOLDER))",
        "the private key beside a store's authority is in the pod",
    ),
    # What is stored.
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
    Mutant(_CHOICE, "if not one.learner]", "]", "a learner that is behind is backed up"),
    Mutant(_CHOICE, '"CORRUPT" in words', '"CORRUPTED" in words', "a corrupt member is backed up"),
    Mutant(
        _CHOICE,
        "key=lambda one: (one.member_id == one.leader_id, -one.revision)",
        "key=lambda one: -one.revision",
        "the leader carries the load of the backup",
    ),
    Mutant(
        _CHOICE,
        "if not cluster_id or one.cluster_id == cluster_id]",
        "]",
        "whoever has a member's address is backed up in its place",
    ),
    Mutant(_CHOICE, "if one.leader_id]", "]", "a member without a quorum is backed up"),
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
        "operator/etcd_operator/backup/process.py",
        "old = await self._found(cluster_id)",
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
        "operator/etcd_operator/backup/sink.py",
        '                raise TooLarge(f"it has {size} bytes, which is more than {most} bytes")\n',
        "                return None\n",
        "a backup whose manifest is too large to be read counts as nobody's, and is deleted",
    ),
    Mutant(
        "backup/order.py",
        "    if len(text) <= _MOST_PLAIN:\n",
        "    if True:\n",
        "no backup of a cluster with many roles is ever begun",
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
        "operator/etcd_operator/backup/process.py",
        'own if old.owner_uid == own else ""',
        "own",
        "what another object has stored is deleted by who was about to take its place",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
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
        "operator/etcd_operator/backup/process.py",
        "if isinstance(before, Manifest) and await self._is_of_this_run(before):",
        "if False:",
        "a backup of before an upgrade is made once more after it, as its pod went with its node",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "            await self._look_for_another(key)\n",
        "",
        "a copy of an EtcdBackup takes the place of what that one has stored in the same second",
    ),
    Mutant(
        "operator/etcd_operator/restore/fetch.py",
        "            await _look_again(sink, order.store.key, manifest)\n",
        "",
        "a backup that runs just then ends the restore of the one before for good",
    ),
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "if order.size and size not in (None, order.size):",
        "if False:",
        "a trial fills the node's disk with what has taken the place of the backup",
    ),
    Mutant(
        "operator/etcd_operator/backup/download.py",
        "checked.size + len(piece) > size",
        "False",
        "a store that sends more than it has said fills the volume",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "if order.store.key in order.spare and not _is_of_this_run(order, found):",
        "if False:",
        "what a restore is about to read is replaced by a backup from after the damage",
    ),
    Mutant(
        "operator/etcd_operator/backup/overwriting.py",
        "if order.brought_back:",
        "if False:",
        "an object that is brought back replaces what it was made to keep",
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
        "backup/status.py",
        'one.get("observedGeneration") == generation and ',
        "",
        "a restore that was edited, to be tried again, is given up at once",
    ),
    Mutant(
        "backup/restores.py",
        "if waited >= GIVE_UP_SECONDS and _is_told(body):",
        "if False:",
        "a forgotten restore is carried out by an operator that was away, before it is given up",
    ),
    Mutant(
        "backup/status.py",
        'if as_declared else one["status"]',
        "",
        "a backup counts as ready whatever became of it",
    ),
    Mutant(
        "backup/status.py",
        'if one["type"] != "Complete" or not interrupted or said.status == "True":',
        "if True:",
        "a restore is never given up, as the API server fails now and then",
    ),
    Mutant(
        "backup/restores.py",
        'return _for_a_day(seen, said) if "generation" in told else said',
        "return said",
        "a restore that waited for a node replaces months later what was written since",
    ),
    Mutant(
        _PRUNING,
        "finished = is_own and told.finished",
        "finished = is_own",
        "tries that failed take the places of backups that were proven",
    ),
    # When, and how often.
    Mutant(
        _PLAN,
        'stored.get("succeeded") is True or stored.get("run") == run.id',
        'stored.get("run") == run.id',
        "a backup that was made is made again, and overwritten, after an edit",
    ),
    Mutant(
        _PLAN,
        'stored.get("succeeded") is True or stored.get("run") == run.id',
        'stored.get("succeeded") is True',
        "a backup that has failed begins again for ever",
    ),
    Mutant(
        _PLAN,
        'return None if backup.let_go and stored.get("run") else run',
        "return run",
        "one that failed is begun again while its schedule deletes it",
    ),
    Mutant(
        _PLAN,
        "return _wait(seen, run) if run.due > seen.now else _begin(seen, run)",
        "return _begin(seen, run)",
        "the interval is no matter",
    ),
    Mutant(
        _PLAN,
        'return _stop_earlier(job) if job.state == "running" else None',
        "return None",
        "two Jobs write under one name at once",
    ),
    Mutant(
        _PLAN,
        "-> WriteStatus:\n    if job.other_owner:\n",
        "-> WriteStatus:\n    if False:\n",
        "another's Job is taken for ours",
    ),
    Mutant(
        _PLAN,
        "    if job.other_owner or job.deleting:",
        "    if job.other_owner:",
        "the result of an object of before is this one's",
    ),
    Mutant(
        _STATUS,
        'status |= {"run": run.id, "lastRunDate": began}',
        'status |= {"lastRunDate": began}',
        "a run that is over is done again",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/jobs.py",
        'if state == "failed" or newest is None or not jobs.message(newest, CONTAINER):',
        "if False:",
        "a watch that lags makes a backup that was made be made again",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/jobs.py",
        'failure.reason != "TimedOut" or not why:',
        "not why or why:",
        "an etcd that fails over a backup is told as too little time",
    ),
    Mutant(
        "operator/etcd_operator/objects/trouble.py",
        'ended = (container.get("lastState") or {}).get("terminated") or {}\n'
        '        if container["name"] == name',
        'ended = (container.get("state") or {}).get("terminated") or {}\n'
        '        if container["name"] == name',
        "an etcd that was stopped with its pod is told as one that fails",
    ),
    Mutant(
        "operator/etcd_operator/kube/store.py",
        "    if name := notes.get(naming.RESTORE):\n",
        "    if (name := notes.get(naming.RESTORE)) and not labels_of(obj):\n",
        "a pod of a restore is counted as its cluster's",
    ),
    Mutant(
        _JOB,
        ' | {"activeDeadlineSeconds": deadline}',
        "",
        "one pod that cannot start is in the way of all later backups",
    ),
    Mutant(
        _PLAN,
        '(job.why or f"Job {job.name} has failed") + _waited(seen)',
        'job.why or f"Job {job.name} has failed"',
        "why a pod did not start is forgotten when its time is over",
    ),
    # Credentials and places.
    Mutant(
        _STORES,
        'part in ("", ".", "..") for part',
        'part in ("", ".") for part',
        "a key climbs out of its place",
    ),
    Mutant(
        _CREDENTIALS,
        "    except (configparser.Error, ValueError):",
        "    except ValueError:",
        "what is in the Secret is told to everybody",
    ),
    Mutant(
        _STORES,
        "elif found and not AZURE_ACCOUNT.fullmatch(found):",
        "elif False:",
        "the name of an account leads the pod's identity to another host",
    ),
    Mutant(
        _CREDENTIALS,
        "    if store.checksum:\n",
        "    if False:\n",
        "a store that asks for checksums refuses each backup",
    ),
    Mutant(
        _CREDENTIALS,
        '    if store.checksum:\n        config["checksum_algorithm"] = store.checksum\n',
        '    config["checksum_algorithm"] = store.checksum or "CRC64NVME"\n',
        "F32: a store that knows no checksums is sent one, and refuses each backup",
    ),
    Mutant(
        _STORES,
        'if name and endpoint and not endpoint.startswith("https://"):',
        "if False:",
        "credentials go in plaintext to a store whose authority the spec names",
    ),
    Mutant(
        _STORES,
        'ca_secret=str(given.get(_CA, "")),',
        "",
        "a store's authority is forgotten on the way to the Job",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        " | self._trust",
        "",
        "a store's authority is read and not used",
    ),
    Mutant(
        "backup/trouble.py",
        'if why != _UNKNOWN or store.kind != "S3":',
        "if True:",
        "who needs the field for a store's authority is not told of it",
    ),
    Mutant(
        _JOB,
        "_each_once(*pod.image_pull_secrets, *pull_secrets)",
        "_each_once(*pod.image_pull_secrets)",
        "no backup of a cluster from a private registry is ever begun",
    ),
    Mutant(
        "api/restore.py",
        "pod=self.pod.or_else(pod),",
        "pod=self.pod,",
        "the manifest cannot be read where the backup could be made",
    ),
    Mutant(
        _JOB,
        '"automountServiceAccountToken": False',
        '"automountServiceAccountToken": True',
        "the Job may do what its account may",
    ),
    Mutant(
        _JOBS,
        '"optional": True, ',
        "",
        "a Secret that is missing is waited for in silence",
    ),
    Mutant(
        _RESTORES,
        '    if job.state == "complete":\n',
        "    if False:\n",
        "an EtcdRestore fails for good as a node is drained at the wrong moment",
    ),
    # With the object.
    Mutant(
        _DELETION,
        "if one and not _is_where_it_stores(backup, one)",
        "if False",
        "what was stored before the path was edited stays, and is said to be deleted",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "        return _not_here(order.store, out_of_reach[0])\n",
        "        pass\n",
        "what lies in the bucket of before is said to be deleted",
    ),
    Mutant(
        _DELETION,
        "    if off is None or not wanted:\n",
        "    if off is None:\n",
        "Retain does not let go of an object that is being deleted",
    ),
    Mutant(
        _DELETION,
        "    if running and may_still_run(running):\n",
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
        "operator/etcd_operator/backup_controllers/jobs.py",
        '            propagation="Foreground",\n',
        "",
        "a Job is gone while its pod still writes, and the next writes under the same name",
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
    # Bootstrapped from a backup.
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
        _STORES,
        'if store.sha256 in ("", sha256):',
        "if True:",
        "a restore by name takes whatever lies there by now",
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
        _PLAN,
        '    if seen.backup.verify != "Restore":\n',
        "    if True:\n",
        "a backup counts that nobody has restored",
    ),
    Mutant(
        _PLAN,
        'case "complete" if tried.said.proven:',
        'case "complete":',
        "a trial that nobody heard of counts as one that went well",
    ),
    Mutant(
        _PLAN,
        "return replace(_failed(seen, tried), began=_began(seen, job), unproven=stored.location)",
        "return replace(_failed(seen, tried), began=_began(seen, job))",
        "what a trial has refused is known to nobody",
    ),
    Mutant(
        _STATUS,
        'how = "Restore" if proven else',
        'how = "Restore" if stored.verified else',
        "a file that was read back is called restored",
    ),
    Mutant(
        "backup/measurement.py",
        "    if now < revision:\n",
        "    if False:\n",
        "an older snapshot is called the backup",
    ),
    Mutant(
        "backup/measurement.py",
        "    if cluster.keys != restored.keys:\n",
        "    if False:\n",
        "keys are missing and nobody says so",
    ),
    Mutant(
        "backup/measurement.py",
        "    if any(had[one] != found[one] for one in both):\n",
        "    if False:\n",
        "other values are called the same",
    ),
    Mutant(
        "backup/measurement.py",
        "if cluster is None or not cluster.whole:",
        "if cluster is None:",
        "a backup of which nobody has counted the keys is called proven",
    ),
    Mutant(
        "operator/etcd_operator/backup/source.py",
        "            if found.whole:\n",
        "            if True:\n",
        "a compaction at the wrong moment leaves nothing to compare with",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        " + SECONDS_PER_GIB * size / 2**30",
        "",
        "a member that hashes a large database is taken for one that hangs",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        "min(by_size, timeout / 3)",
        "by_size",
        "a large member that hangs over its keys leaves no time for another",
    ),
    Mutant(
        "operator/etcd_operator/backup/channel.py",
        "method.future(request, timeout=seconds)",
        "method.future(request)",
        "a member that hangs over its keys has all the time that there is",
    ),
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "            except NoReply:\n                raise\n            except rpc",
        "            except rpc",
        "an etcd that hangs over its keys is asked again until the time of its trial is over",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        '{"read_timeout": silent} | ',
        "",
        "a store that hangs while a backup is read back takes all of its time",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        '"retry_config": {"retry_timeout": silent} | retry',
        '"retry_config": retry',
        "a store that hangs is asked the same again until the time is over",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        'error.code() == StatusCode.OUT_OF_RANGE and "compacted" in str(error.details())',
        "True",
        "an etcd that fails over its keys is taken for one that has none to count",
    ),
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "        self.has_served = True\n",
        "",
        "an etcd that cannot hash its keys is told as one that does not come up",
    ),
    Mutant(
        "manifests/trial_job.py",
        'ours | {"volumeMounts": [_mount()]}',
        'ours | {"volumeMounts": [*ours["volumeMounts"], _mount()]}',
        "a container that needs no credentials has them",
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
        _STORES,
        'service_account=str(given.get("serviceAccountName", "")),',
        "",
        "who has stored a backup is forgotten on the way to its restore",
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
        "backup/restores.py",
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
    # What comes late, or from elsewhere.
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
        "operator/etcd_operator/backup/sink.py",
        "            if folder == self._root:\n                return\n",
        "            return\n",
        "a folder that was made for a backup is gone after a loss of power, with the backup",
    ),
    # The end of a Job's program.
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
        "operator/etcd_operator/backup/removal.py",
        'if error.failure.reason == "StoreUnreachable":',
        "if True:",
        "an object cannot be deleted any more once its bucket is gone",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        "_AT_FIRST, seconds=FIRST_LOOK_SECONDS",
        "_AT_FIRST",
        "a store that accepts connections and is silent is not named in time",
    ),
    Mutant(
        _PLAN,
        "or before != (said.reason, backup.generation) or",
        "or",
        "a backup is given up at once for a failure of long ago",
    ),
    Mutant(
        _PLAN,
        "    if backup.periodic or before",
        "    if before",
        "a backup at an interval misses its time, as it gives up its cluster",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/target.py",
        "if any(_is_foreign(store, cluster, service) for service in found.services):",
        "if False:",
        "the etcd that has the names is not backed up, but a cluster that cannot begin beside it",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/target.py",
        "formed = bool(cluster_id) or service is not None",
        "formed = bool(cluster_id)",
        "a cluster whose status cannot be written is never backed up",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/target.py",
        "(cluster := _parsed(body) or stand_in(body)) is None",
        "(cluster := _parsed(body)) is None",
        "an edit that is refused stops the backups of a cluster that serves",
    ),
    Mutant(
        "backup/plan.py",
        "if seen.target and not seen.target.formed:",
        "if False:",
        "a backup that is applied with its cluster uses up its attempts before it has formed",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/target.py",
        "if found is None or found.schemes != {scheme}:",
        "if found is None:",
        "an endpoint with the wrong scheme is not reported",
    ),
    Mutant(
        "backup/own_endpoints.py",
        "if host not in known or port != str(naming.CLIENT_PORT):",
        "if host not in known:",
        "another port of a member is taken for that of its clients",
    ),
    Mutant(
        "operator/etcd_operator/backup/process.py",
        "if made := await self._made_before():",
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
        "operator/etcd_operator/backup/sink.py",
        "if (self._root / marker.FILE).exists():",
        "if False:",
        "a Job writes over the files of a member whose claim was recorded later",
    ),
    Mutant(
        _PLAN,
        ", unproven=failure.left, began=began)",
        ", began=began)",
        "a file that could not be read back stays when its schedule deletes its object",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/jobs.py",
        'return "failed" if code else "complete"',
        "return state",
        "a backup is reported as failed because a container of a service mesh goes on",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        ' if f"{one}/".startswith(start)]',
        "]",
        "a folder of root hides all other files of a volume",
    ),
    Mutant(
        "operator/etcd_operator/backup/removal.py",
        "if _is_own(order, key, told) and _is_own(order, key, await whose(sink, key)):",
        "if _is_own(order, key, told):",
        "what another object has just replaced is deleted with this one",
    ),
    Mutant(
        _PLAN,
        "min(created, now))",
        "created)",
        "a backup waits, and is ready, as long as the operator's clock is behind",
    ),
    Mutant(
        _PLAN,
        "            due += 1\n",
        "            pass\n",
        "after a clock was set back an interval waits for a run that is over",
    ),
    Mutant(
        _STATUS,
        "if run and run.of_a_generation:",
        "if False:",
        "the failure before an edit is taken for the end of the run after it",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/being_read.py",
        "record.chosen if record.restoring else None",
        "None",
        "what a restore has looked up is deleted once some more backups are stored",
    ),
    Mutant(
        "backup/begun_otherwise.py",
        'if source in ("", named_in(restore.source)):',
        "if True:",
        "another backup than the one that is named is called restored in place",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "if not trouble.is_unlisted(str(error.__cause__)):",
        "if True:",
        "a file of another tool in a folder that follows keeps all old backups",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "if not (failed.forbidden or trouble.is_unlisted(str(error))):",
        "if not failed.forbidden:",
        "a file of another tool keeps backups from being made",
    ),
]
