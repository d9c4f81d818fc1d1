"""Reads which EtcdCluster was backed up, from the manifest beside a stored backup."""

from __future__ import annotations

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_operator.backup.surveying import nothing_at
from etcd_stateful.api.stores import Store, not_meant
from etcd_stateful.backup import names
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import MOST_BYTES, Described, Failure, parse, serialise


async def describe(order: Order, sink: Sink) -> Described | Failure:
    """Returns the EtcdCluster that the backup's manifest records, or why there is none.

    Errors of the store are returned as a Failure, not raised.
    """
    store = order.store
    key = names.manifest_of(store.key)
    try:
        await sink.check()
        found = await read_manifest(sink, store.key)
    except StoreFailed as error:
        return error.failure
    except BadManifest as error:
        # Undecided is not final: a backup that still runs has yet to write its manifest.
        over = not isinstance(error, Undecided)
        return Failure("NoManifest", f"{store.path_field}: {key}: {error}", final=over)
    if found is None:
        return Failure(
            "NoManifest",
            f"{await nothing_at(sink, store, key)}. Without it the cluster's spec is unknown: "
            "create an EtcdCluster with spec.bootstrap.restore",
        )
    return _described(store, key, found)


def _described(store: Store, key: str, found: Manifest) -> Described | Failure:
    if why := not_meant(store, found.sha256):
        return Failure("BackupReplaced", f"spec.backupRef.name: {why}", final=True)
    if found.cluster is None:
        why = "its spec was too long to be stored" if found.left_out else "the backup is of none"
        words = f"{store.path_field}: {key} does not record the spec of an EtcdCluster, as {why}: "
        words += "create one with spec.bootstrap.restore"
        return Failure("NoClusterRecorded", words, final=True)
    described = Described(found.cluster["spec"], found.version, found.revision)
    if not _is_readable(described):
        words = f"{store.path_field}: the EtcdCluster recorded in {key} is too long to be handed "
        words += "over, even compressed: create it yourself, with spec.bootstrap.restore"
        return Failure("NoClusterRecorded", words, final=True)
    return described


def _is_readable(described: Described) -> bool:
    """Whether the operator can read this outcome. One that it cannot read would be asked for again
    and again."""
    text = serialise(described)
    return len(text.encode()) <= MOST_BYTES and parse(text).described is not None
