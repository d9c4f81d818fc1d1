"""The status of an EtcdBackup: the coreos operator's fields, and conditions. Those of EtcdRestores
and EtcdBackupSchedules get their conditions here, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.backup import without_effect
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import deletion, names
from etcd_stateful.backup.foreign_files import ForeignFile, ForeignFiles
from etcd_stateful.backup.observed import Run
from etcd_stateful.backup.outcome import Progress, Stored, Verified
from etcd_stateful.backup.restores import PASS_FAILED, WriteRestoreStatus
from etcd_stateful.backup.steps import WriteStatus
from etcd_stateful.metadata import labels_of
from etcd_stateful.stored_conditions import with_times
from etcd_stateful.versions import LONGEST_VERSION

LONGEST: Final = 2048

_KEPT: Final = (
    "succeeded",
    "reason",
    "Reason",
    "etcdVersion",
    "etcdRevision",
    "lastSuccessDate",
    "otherBackups",
    "clusterID",
    "location",
    "size",
    "sha256",
    "verified",
    "verifiedDate",
    "unproven",
    "run",
    "lastRunDate",
    "job",
)


def refused(body: Mapping[str, Any], problem: str, now: str) -> dict[str, Any]:
    """The status for a spec that is not accepted."""
    conditions = [
        _condition("Accepted", "False", "InvalidSpec", problem),
        _condition("Complete", "False", "InvalidSpec", problem),
    ]
    return _with_conditions(body, kept(body, _KEPT), conditions, now)


def failing(body: Mapping[str, Any], reason: str, words: str, now: str) -> dict[str, Any]:
    """The status after a step that the API server refused, or that failed."""
    conditions = [_accepted(body), _condition("Complete", "False", reason, words)]
    return _with_conditions(body, kept(body, _KEPT), conditions, now)


def render(
    body: Mapping[str, Any], run: Run | None, said: WriteStatus, *, job: str, began: str, now: str
) -> dict[str, Any]:
    """The whole status. Fields that this pass has no news of stay as they are.

    Args:
        job: name of the Job of this run; empty if there is none.
        began: when the run began, RFC 3339; empty unless it is over.
        now: RFC 3339.
    """
    status = kept(body, _KEPT)
    if run and run.of_a_generation:
        # Of the run before an edit: who waits for `succeeded` would take it for that of this one.
        for key in ("succeeded", "reason", "Reason"):
            status.pop(key, None)
    if job:
        status["job"] = job
    if run and said.over:
        status |= {"run": run.id, "lastRunDate": began}
        for key in ("verified", "verifiedDate", "otherBackups"):
            status.pop(key, None)
        status |= _stored(said.stored, said.proven, now) if said.stored else _failed(said)
    if said.unproven:
        status["unproven"] = said.unproven
    elif said.stored and _is_replaced(str(status.get("unproven") or ""), said.stored):
        status.pop("unproven", None)
    status = _without(said.emptied, status)
    if said.progress:
        status["progress"] = _progress(said.progress)
    conditions = [_accepted(body)]
    if said.reason:
        conditions.append(_condition("Complete", said.status, said.reason, said.message))
    else:
        conditions += _complete_still(body, is_single=run is None)
    return _with_conditions(body, status, conditions, now)


def after_an_edit(body: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The status of an EtcdRestore that has succeeded. An edit changes nothing any more, and
    `Complete` says so: what the spec names now was not restored."""
    stored: Mapping[str, Any] = body.get("status") or {}
    told = stored_conditions.find(stored, "Complete")
    if not told and stored.get("succeeded") is True:
        told = _OF_COREOS
    words = _with_edit(body, told, _EDITED)
    again = [_condition("Complete", told["status"], told.get("reason", ""), words)] if told else []
    return _with_conditions(body, dict(stored), again, now)


_OF_COREOS: Final = {
    "status": "True",
    "reason": "Restored",
    "message": "it had succeeded under the coreos operator",
}
"""For a status without conditions."""

_EDITED: Final = (
    ". The spec was edited after that, which has no effect: to restore again, delete this "
    "EtcdRestore, and create it again"
)


_EDITED_BACKUP: Final = (
    ". The spec was edited after that, which makes no other backup: for that, create another "
    "EtcdBackup"
)


def _with_edit(body: Mapping[str, Any], told: Mapping[str, Any], note: str) -> str:
    """The message of `Complete`, with the note if the spec was edited since."""
    words, generation = str(told.get("message", "")), body["metadata"].get("generation")
    if told.get("observedGeneration", generation) == generation:
        return words
    return words.removesuffix(note) + note


def _complete_still(body: Mapping[str, Any], *, is_single: bool) -> list[dict[str, str]]:
    """`Complete` as it is, for the present generation: `kubectl wait` compares generations, and
    would wait for ever after an edit that begins no other run. The edits of a schedule's backup are
    its schedule's."""
    told = stored_conditions.find(body.get("status"), "Complete")
    if not told:
        return []
    scheduled = naming.SCHEDULE in labels_of(body)
    is_over = is_single and told["status"] == "True" and not scheduled
    words = _with_edit(body, told, _EDITED_BACKUP) if is_over else str(told.get("message", ""))
    return [_condition("Complete", told["status"], str(told.get("reason", "")), words)]


def of_restore(
    body: Mapping[str, Any], status: dict[str, Any], said: WriteRestoreStatus, now: str
) -> dict[str, Any]:
    """The whole status of an EtcdRestore. After an edit, or with another reason, the times of its
    conditions start over, because it fails a day after them (`GIVE_UP_SECONDS`)."""
    generation = body["metadata"].get("generation", 0)
    of_now = [
        kept
        for one in stored_conditions.ours(body.get("status"))
        if one.get("observedGeneration") == generation and (kept := _of_same_wait(one, said))
    ]
    conditions = [_accepted(body), _condition("Complete", said.status, said.reason, said.message)]
    return _with_conditions({**body, "status": {"conditions": of_now}}, status, conditions, now)


def _of_same_wait(one: Mapping[str, Any], said: WriteRestoreStatus) -> Mapping[str, Any] | None:
    """The condition, if its time goes on; None if it starts over. It goes on over a pass that has
    failed, whatever the restore waits for before and after that."""
    if one.get("reason") in ("SpecAccepted", said.reason):
        return one
    interrupted = not {one.get("reason"), said.reason}.isdisjoint(PASS_FAILED)
    if one["type"] != "Complete" or not interrupted or said.status == "True":
        return None
    return {**one, "status": said.status}


def of_schedule(
    body: Mapping[str, Any],
    status: dict[str, Any],
    said: Iterable[tuple[str, str, str, str]],
    now: str,
) -> dict[str, Any]:
    """The whole status of an EtcdBackupSchedule.

    Args:
        said: type, status, reason and message of each condition that this pass has news of.
    """
    return _with_conditions(body, status, [_condition(*one) for one in said], now)


def kept(body: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """These fields of the status, as far as they are set."""
    stored: Mapping[str, Any] = body.get("status") or {}
    return {key: stored[key] for key in fields if key in stored}


def _without(emptied: Store | None, status: dict[str, Any]) -> dict[str, Any]:
    """Without what leads into this store. The report of the Job may do so as well."""
    if emptied is None:
        return status
    led = {key for key in deletion.LOCATIONS if emptied.key_at(str(status.get(key) or ""))}
    return {key: value for key, value in status.items() if key not in {"job", *led}}


def _stored(stored: Stored, proven: Verified | None, now: str) -> dict[str, Any]:
    how = "Restore" if proven else "Hash" if stored.verified else ""
    proof = {"verified": how, "verifiedDate": now} if how else {}
    beside = {"otherBackups": _others(stored, stored.others, now)} if stored.others else {}
    return (
        beside
        | proof
        | {
            "succeeded": True,
            "reason": "",
            "Reason": "",
            "etcdVersion": stored.version[:LONGEST_VERSION],
            "etcdRevision": stored.revision,
            "lastSuccessDate": now,
            "clusterID": stored.cluster_id,
            "location": stored.location,
            "size": stored.size,
            "sha256": stored.sha256,
        }
    )


def _others(stored: Stored, others: ForeignFiles, now: str) -> dict[str, Any]:
    return {
        "seen": now,
        "count": others.count,
        "partial": others.partial,
        "newest": [_found(stored, one) for one in others.newest],
    }


def _found(stored: Stored, one: ForeignFile) -> dict[str, Any]:
    made = names.of_schedule(stored.key)
    return {
        "location": stored.location.removesuffix(stored.key) + (made[0] if made else "") + one.rest,
        "size": one.size,
        "modified": one.modified,
        "manifest": one.manifest,
    }


def _is_replaced(unproven: str, stored: Stored) -> bool:
    """Whether an unproven file lay at the same path. At an interval it counts as one of the backups
    there, and is deleted with those."""
    return names.path_of(unproven) == names.path_of(stored.location)


def _failed(said: WriteStatus) -> dict[str, Any]:
    words = said.message[:LONGEST]
    return {"succeeded": False, "reason": words, "Reason": words}


def _progress(progress: Progress) -> dict[str, int]:
    return {
        "bytes": progress.stored,
        "totalBytes": progress.size,
        "bytesPerSecond": progress.bytes_per_second,
    }


def _accepted(body: Mapping[str, Any]) -> dict[str, str]:
    words = without_effect(body) or "every field is understood"
    return _condition("Accepted", "True", "SpecAccepted", words)


def _condition(kind: str, truth: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": truth, "reason": reason, "message": message[:LONGEST]}


def _with_conditions(
    body: Mapping[str, Any], status: dict[str, Any], conditions: list[dict[str, str]], now: str
) -> dict[str, Any]:
    """The status with its conditions. Conditions that this pass has no news of stay."""
    generation = int(body["metadata"].get("generation", 0))
    before = {one["type"]: one for one in stored_conditions.ours(body.get("status"))}
    told = {
        one["type"]: with_times(
            one | {"observedGeneration": generation}, before.get(one["type"], {}), now
        )
        for one in [*conditions, *_ready(conditions)]
    }
    after = before | told
    ordered = [after[kind] for kind in sorted(after)]
    return status | {"observedGeneration": generation, "conditions": ordered}


def _ready(conditions: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """The condition Ready: `Complete` of a backup or a restore, `Scheduled` of a schedule, under
    the name that Helm's `--wait`, Flux and other users of kstatus wait for. A suspended schedule is
    as declared, and so is a backup at an interval before the first one is due."""
    for one in conditions:
        if one["type"] in ("Complete", "Scheduled"):
            as_declared = one["reason"] in ("Suspended", "Scheduled")
            status = "True" if as_declared else one["status"]
            yield {**one, "type": "Ready", "status": status}
