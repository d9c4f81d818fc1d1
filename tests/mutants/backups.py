"""Faults in when backups are made, of what, and in what is told of them."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_CHOICE = "backup/choice.py"
_JOB = "manifests/backup_job.py"
_JOBS = "manifests/jobs.py"
_PLAN = "backup/plan.py"
_STATUS = "backup/status.py"

MUTANTS: Final = [
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
        "operator/etcd_operator/backup_controllers/being_read.py",
        "one in own or plan.is_where_it_stores(backup, one)",
        "one in own",
        "an earlier backup at an interval is deleted with its object while a restore reads it",
    ),
    Mutant(
        _PLAN,
        "unproven=left, progress=job.progress",
        "progress=job.progress",
        "a file that could not be read back is forgotten once a later attempt stores nothing",
    ),
    Mutant(
        "backup/status.py",
        'one.get("observedGeneration") == generation and ',
        "",
        "a restore that was edited, to be tried again, is given up at once",
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
        '        if container["name"] == naming.ETCD_CONTAINER',
        'ended = (container.get("state") or {}).get("terminated") or {}\n'
        '        if container["name"] == naming.ETCD_CONTAINER',
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
    Mutant(
        _JOB,
        "_each_once(*pod.image_pull_secrets, *pull_secrets)",
        "_each_once(*pod.image_pull_secrets)",
        "no backup of a cluster from a private registry is ever begun",
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
        _PLAN,
        "or {*seen.spare} <= {*job.order.spare}:",
        "or True:",
        "a backup that runs deletes what a restore reads that was declared since",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/jobs.py",
        '            propagation="Foreground",\n',
        "",
        "a Job is gone while its pod still writes, and the next writes under the same name",
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
]
