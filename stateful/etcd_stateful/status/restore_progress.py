"""`status.restore`: the progress of a restore in place.

The status of the EtcdRestore is made from it; the planner does not read it. Once the restore is
done, it stays.
"""

from __future__ import annotations

from typing import Any

from etcd_stateful.backup.restores import DONE, FAILED, HELD, WORKING
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import put_off
from etcd_stateful.membership.epochs import in_place, in_place_request
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait
from etcd_stateful.status.outcome import LONGEST_MESSAGE


def restoring(seen: Observation) -> dict[str, Any] | None:
    """The value of the field; None if there is no restore in place, and never was one."""
    if not is_latched(seen):
        return None
    record, restore = recorded(seen), in_place_request.requested(seen)
    if restore is not None:
        state, words = _in_words(seen, in_place.next_step(seen))
        return _told(restore.uid, state, words) | {"generation": restore.generation}
    source = {"source": record.restored_from} if record.restored_from else {}
    if record.retired:
        return _told(record.restored_by, *_in_words(seen, in_place.clean_up(seen))) | source
    if not record.restored_by:
        return None
    words = f"cluster {to_hex(record.cluster_id)} has the data of the backup"
    return _told(record.restored_by, DONE, words) | source


def _in_words(seen: Observation, step: Step | None) -> tuple[str, str]:
    if seen.cluster.paused:
        return HELD, "spec.paused of the EtcdCluster is true: nothing is done until it is false"
    match step:
        case Hold(reason=reason, message=message):
            return FAILED if reason == in_place.FAILED else HELD, message
        case Wait(reason=words):
            return WORKING, f"waiting for {words}"
        case None | Settled():
            return WORKING, "the claims of the replaced cluster are being deleted"
        case write:
            failed = put_off.last_failure(seen, write)
            return WORKING, f"to be retried: {failed.why}" if failed else write.reason


def _told(uid: str, state: str, words: str) -> dict[str, Any]:
    return {"uid": uid, "state": state, "message": words[:LONGEST_MESSAGE]}
