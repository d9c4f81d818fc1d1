"""Which backup a cluster starts from: decided once, and recorded before anything is created.

If the spec gives a store and a path, those are used. If it names an EtcdBackup, the location of its
backup goes into the bootstrap record; after that the EtcdBackup may change or be deleted. Until the
restore is done, the EtcdBackup is looked up again if the spec names another one or the record was
lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.source import BackupRef, Source
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import Chosen, resolved
from etcd_stateful.jobs.restore import bump_at
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import CreateSecret, Hold, Step, Wait, WriteBootstrap
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap

_FIELD: Final = "spec.bootstrap.restore.backupRef.name"


def wanted_backup(seen: Observation) -> str:
    """Name of the EtcdBackup to look up; empty if none is needed."""
    asked = seen.cluster.restore
    if not isinstance(asked, BackupRef):
        return ""
    if seen.secret is None:
        return asked.name
    record = seen.secret.bootstrap
    if record is None or record.latched or _is_chosen(record.chosen, asked):
        return ""
    return asked.name


def awaited(seen: Observation) -> Wait | Hold | None:
    """What is missing of the backup, before there is a record; None if it is known, or none is
    asked for."""
    source = seen.cluster.restore
    found = _found(seen, source) if source is not None and seen.secret is None else None
    return found if isinstance(found, Wait | Hold) else None


def first_record(seen: Observation, source: Source, version: str) -> Step:
    """The first record of a cluster that starts from a backup, once the backup is known."""
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    record = _record(seen, seen.cluster, version, chosen)
    words = f"a new cluster starts from {_in_words(store, chosen)}"
    return CreateSecret(naming.start_secret(seen.cluster.name), record, words)


def switch_to_backup(seen: Observation, source: Source, cluster: EtcdCluster) -> Step:
    """The new record of a cluster that began without a backup, if nothing was created from it
    yet."""
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    attempt = recorded(seen).attempt + 1
    record = _record(seen, cluster, str(cluster.version), chosen, attempt)
    words = f"the cluster starts over from {_in_words(store, chosen)}, as its spec was edited"
    return WriteBootstrap.of(seen, record, words, final=True)


def location(seen: Observation, source: Source) -> Store | Step:
    """Where the backup is, from the record; or the step that has to come first to know it."""
    if isinstance(source, Store):
        return source
    record = recorded(seen)
    if record.chosen is not None and _is_chosen(record.chosen, source):
        return record.chosen.store
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    words = f"the cluster is restored from {_in_words(store, chosen)}, as its spec was edited"
    return WriteBootstrap.of(seen, replace(record, chosen=chosen), words)


def _record(
    seen: Observation, cluster: EtcdCluster, version: str, chosen: Chosen | None, attempt: int = 1
) -> Bootstrap:
    first = {naming.pod(cluster.name, 0): cluster.peer_url(0)}
    begun = records.first_attempt(cluster.uid, first, version, attempt, cluster.links)
    return records.restoring(begun, size=cluster.size, bump=bump_at(seen.created), chosen=chosen)


def _is_chosen(chosen: Chosen | None, asked: BackupRef) -> bool:
    return chosen is not None and chosen.backup == asked.name


def _found(seen: Observation, source: Source) -> tuple[Store, Chosen | None] | Wait | Hold:
    found = resolved(source, seen.backup)
    if isinstance(found, Store):
        return found, Chosen(source.name, found) if isinstance(source, BackupRef) else None
    if not found.stuck:
        return Wait(f"{found.why} ({_FIELD}); nothing is created before that")
    return Hold("BackupAwaited", f"{_FIELD}: {found.why}. Nothing is created until then")


def _in_words(store: Store, chosen: Chosen | None) -> str:
    of = f", which EtcdBackup {chosen.backup} has stored" if chosen else ""
    return f"{store.place}{of}"
