"""Decides whether a backup may overwrite what is already stored at its path, and makes way for it.

Each run of a schedule has a path of its own. If another object's backup is stored there, that run
is over, and its EtcdBackup was recreated without its status, for example by a tool that restores a
namespace. What the cluster holds now must not overwrite what it held then. The same applies to a
single EtcdBackup that was recreated in this way (`naming.BEGUN_AS`).

Any other EtcdBackup may overwrite another object's backup, but not one of another etcd cluster, nor
one whose manifest cannot be read, which may be of any cluster.
Someone who applies all manifests again after a loss has an empty cluster of the same name. Its
backup would overwrite the very backup that the cluster should be restored from. Nor may it
overwrite one of the same cluster at a higher revision: a recovery has lost what was written last.

Nor may it overwrite what a restore is about to read: that is from before the damage.
"""

from __future__ import annotations

from contextlib import suppress

from etcd_operator.backup.clients import StoreFailed, unless_forbidden
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failed, Failure


class MadeBefore(Exception):
    """Another try of this run has stored the backup."""

    def __init__(self, made: Manifest) -> None:
        super().__init__()
        self.made = made


class OverwriteRefused(Failed):
    """The backup ends here, because what is stored at its path must not be overwritten."""


async def check_overwrite(
    order: Order, sink: Sink, cluster_id: str, revision: int | None = None
) -> Manifest | Undecided | None:
    """Returns what is known of the backup at the order's path; None if none has a manifest there.

    Raises OverwriteRefused if what is stored there must not be overwritten, MadeBefore if it is the
    backup of this run, and StoreFailed if the store does not answer.

    Write-only credentials cannot check this, so then nothing is known, and nothing is spared.

    Args:
        cluster_id: of the etcd cluster that is about to be backed up, in hexadecimal.
        revision: of the backup that is about to be stored; None as long as it is not known.
    """
    if order.stamped:
        return None
    found = await _found(order, sink, cluster_id)
    if _is_of_this_run(order, found):
        if isinstance(found, Manifest) and await _is_stored(order, sink, found):
            raise MadeBefore(found)
        return found
    if order.store.key in order.spare:
        await _spare_what_is_read(order, sink)
    if isinstance(found, Manifest) and revision is not None and found.cluster_id == cluster_id:
        _spare_what_is_lost(order, found, revision)
    return found


async def made_before(order: Order, sink: Sink) -> Manifest | None:
    """What an earlier try of this run has stored, if etcd does not answer any more: the node that
    took the report of that try along may have been one of the quorum."""
    with suppress(StoreFailed, BadManifest):
        await sink.check()
        found = await read_manifest(sink, order.store.key)
        if found and _is_of_this_run(order, found) and await _is_stored(order, sink, found):
            return found
    return None


async def withdraw(order: Order, sink: Sink, key: str, cluster_id: str, revision: int) -> None:
    """Marks an existing manifest as undecided, just before the file beside it is overwritten.

    The manifest is not deleted, as the credentials may permit neither deletes nor reads. Raises
    OverwriteRefused if something that must stay has been stored there during the upload, MadeBefore
    if that is the backup of this run, and StoreFailed if the store does not say.
    """
    if order.stamped:
        await _look_for_another(order, sink, key)
        return
    own = order.owner_uid
    old = await check_overwrite(order, sink, cluster_id, revision)
    if old is not None:
        uid = own if old.owner_uid == own else ""
        await mark(sink, key, uid, cluster_id if old.cluster_id == cluster_id else "")
    elif key in order.spare:  # Or the next attempt would spare this file.
        await mark(sink, key, own, cluster_id)


async def mark(sink: Sink, key: str, owner_uid: str = "", cluster_id: str = "") -> None:
    """Replaces the manifest by an undecided one; raises StoreFailed."""
    await sink.put(names.manifest_of(key), manifest.undecided(owner_uid, cluster_id))


async def _look_for_another(order: Order, sink: Sink, key: str) -> None:
    """Raises OverwriteRefused if the key exists already. It contains the time to the second, but a
    copy of this object may have begun in the same second. The next try gets another key."""
    if await _is_seen(sink, key):
        words = f"there is a backup {key} already, of the same second: another EtcdBackup has the "
        raise _stored_already(order, f"{words}same path. Give each a path of its own", final=False)


async def _is_stored(order: Order, sink: Sink, before: Manifest) -> bool:
    """Whether the file of an earlier try of this run is there. Its report was lost, for example
    along with its node. A new snapshot would be of a later moment."""
    return bool(order.run) and await sink.size(order.store.key) == before.size


def _is_of_this_run(order: Order, found: Manifest | Undecided | None) -> bool:
    """Whether an earlier try of this very run has stored it; an undecided manifest tells only of
    which object it is."""
    if isinstance(found, Manifest) and found.run != order.run:
        return False
    return found is not None and found.owner_uid == order.owner_uid


async def _found(order: Order, sink: Sink, cluster_id: str) -> Manifest | Undecided | None:
    try:
        theirs = await read_manifest(sink, order.store.key)
    except StoreFailed as error:
        if error.forbidden:
            return Undecided("")
        raise
    except Undecided as error:
        _spare_undecided(order, error, cluster_id)
        return error
    except BadManifest as error:
        raise _unreadable(order, error) from error
    if theirs and theirs.owner_uid != order.owner_uid:
        _spare(order, theirs, cluster_id)
    return theirs


async def _is_seen(sink: Sink, key: str) -> bool:
    """Whether the store shows a file of this name; False if the credentials permit no look. Raises
    StoreFailed if the store does not say."""
    found = None
    with unless_forbidden():
        found = await sink.size(key)
    return found is not None


async def _spare_what_is_read(order: Order, sink: Sink) -> None:
    """Spares what is there, with a manifest or without, for the restore that is about to read
    it."""
    if await _is_seen(sink, order.store.key):
        raise _stored_already(
            order,
            f"{order.store.key} is what an EtcdRestore or an EtcdCluster of this namespace is to "
            "be restored from. It is left as it is until that is done: give this EtcdBackup "
            "another path",
        )


def _spare_what_is_lost(order: Order, before: Manifest, revision: int) -> None:
    """Not final: it may also be of another object that has just been backed up."""
    if before.revision > revision:
        raise _stored_already(
            order,
            f"{_whose(order, before)}, at revision {before.revision}, and this would be of "
            f"{revision}: the cluster may have lost what was written last, as by a recovery. It is "
            "left as it is: give this EtcdBackup another path",
            final=False,
        )


def _whose(order: Order, theirs: Manifest) -> str:
    made = f"{theirs.owner} (UID {theirs.owner_uid}) made at {theirs.made_at}"
    return f"{order.store.key} is the backup that {made}"


def _spare(order: Order, theirs: Manifest, cluster_id: str) -> None:
    whose = _whose(order, theirs)
    if order.scheduled:
        raise _stored_already(
            order,
            f"{whose}. It is left as it is; to restore it, name its store and path. This "
            "EtcdBackup can be deleted",
        )
    if order.brought_back:
        raise _stored_already(
            order,
            f"{whose}, and this EtcdBackup is a copy of one that had begun before. It is "
            "left as it is. This EtcdBackup can be deleted; for a new backup, give it another "
            "path",
        )
    if theirs.cluster_id != cluster_id:
        raise _stored_already(
            order,
            f"{whose}, of etcd cluster {theirs.cluster_id}, and this would be of {cluster_id}. "
            "It is left as it is: give this EtcdBackup another path",
        )


def _spare_undecided(order: Order, theirs: Undecided, cluster_id: str) -> None:
    """Spares a backup that was interrupted. The run that began it passed this check, and
    its file may be complete all the same."""
    own, known = order.owner_uid, theirs.cluster_id
    whole = f"{order.store.key} is a backup that was interrupted, and may be complete"
    if theirs.owner_uid != own and known not in ("", cluster_id):
        raise _stored_already(
            order,
            f"{whole}, of etcd cluster {known}, and this would be of {cluster_id}. It is left "
            "as it is: give this EtcdBackup another path",
        )
    copy = order.scheduled or order.brought_back
    if copy and theirs.owner_uid not in ("", own):
        raise _stored_already(
            order,
            f"{whole}, of another object (UID {theirs.owner_uid}). It is left as it is. "
            "This EtcdBackup can be deleted",
        )


def _unreadable(order: Order, error: BadManifest) -> OverwriteRefused:
    key, copy = order.store.key, order.scheduled or order.brought_back
    otherwise = f"delete {names.manifest_of(key)}, or give this EtcdBackup another path"
    return _stored_already(
        order,
        f"{key} has a manifest that cannot be read, so it is unknown whose backup it is, and it is "
        f"left as it is: {error}. {'This EtcdBackup can be deleted' if copy else otherwise}",
    )


def _stored_already(order: Order, words: str, *, final: bool = True) -> OverwriteRefused:
    """`final`: the next try would meet the same."""
    where = order.store.path_field
    return OverwriteRefused(Failure("AlreadyStored", f"{where}: {words}", final=final))
