"""Whether a backup may take the place of what lies at its path already.

A run of a schedule has a path of its own. If another object's backup lies there, that run is over,
and its object was made again without its status, as by tools that bring a namespace back. What the
cluster holds now must not take the place of what it held then. The same holds for a single
EtcdBackup that was brought back (`naming.BEGUN_AS`).

Any other may take the place of another object's backup, but not of one of another etcd cluster:
whoever applies all manifests again after a loss has an empty cluster of the same name, which would
overwrite the very backup that it is to be restored from.
"""

from __future__ import annotations

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failed, Failure


class Spared(Failed):
    """What lies at the backup's path stays as it is, and the backup ends."""


async def spare_history(order: Order, sink: Sink, cluster_id: str) -> Manifest | None:
    """The manifest of what this object itself has stored there, if it is known and whole.

    Raises Spared where what lies at the backup's path must stay, and StoreFailed where that is
    not known because the store does not answer.

    Credentials that may only write cannot look, and nothing is spared then.

    Args:
        cluster_id: of the etcd cluster that is about to be backed up, in hexadecimal.
    """
    if order.stamped:
        return None
    key = order.store.key
    try:
        theirs = await read_manifest(sink, key)
    except StoreFailed as error:
        if error.forbidden:
            return None
        raise
    except Undecided as error:
        _spare_undecided(order, error, cluster_id)
        return None
    except BadManifest as error:
        if order.scheduled or order.brought_back:
            raise _stored_already(
                order,
                f"{key} has a manifest that cannot be read, so whose backup it is cannot be "
                f"told, and it stays as it is: {error}. This EtcdBackup can be deleted",
            ) from error
        return None
    if theirs and theirs.owner_uid != order.owner_uid:
        _spare(order, theirs, cluster_id)
        return None
    return theirs


def _spare(order: Order, theirs: Manifest, cluster_id: str) -> None:
    whose = f"{order.store.key} is the backup that {theirs.owner} (UID {theirs.owner_uid}) made at "
    whose += theirs.made_at
    if order.scheduled:
        raise _stored_already(
            order,
            f"{whose}. It stays as it is; to restore it, name it by its place. This EtcdBackup "
            "can be deleted",
        )
    if order.brought_back:
        raise _stored_already(
            order,
            f"{whose}, and this EtcdBackup is a copy of one that had begun before. It stays "
            "as it is. This EtcdBackup can be deleted; for a backup of now, give it another "
            "path",
        )
    if theirs.cluster_id != cluster_id:
        raise _stored_already(
            order,
            f"{whose}, of etcd cluster {theirs.cluster_id}, and this would be of {cluster_id}. "
            "It stays as it is: give this EtcdBackup another path",
        )


def _spare_undecided(order: Order, theirs: Undecided, cluster_id: str) -> None:
    """Whoever began it was not stopped here. Its file may be whole all the same."""
    own, known = order.owner_uid, theirs.cluster_id
    whole = f"{order.store.key} is a backup that did not come to its end, and may be whole"
    if theirs.owner_uid != own and known not in ("", cluster_id):
        raise _stored_already(
            order,
            f"{whole}, of etcd cluster {known}, and this would be of {cluster_id}. It stays as "
            "it is: give this EtcdBackup another path",
        )
    copy = order.scheduled or order.brought_back
    if copy and theirs.owner_uid not in ("", own):
        raise _stored_already(
            order,
            f"{whole}, of another object (UID {theirs.owner_uid}). It stays as it is. This "
            "EtcdBackup can be deleted",
        )


def _stored_already(order: Order, words: str) -> Spared:
    where = order.store.path_field
    return Spared(Failure("AlreadyStored", f"{where}: {words}", final=True))
