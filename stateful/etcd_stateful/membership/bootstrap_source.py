"""Which backup a cluster is born from: looked up once, and written down before anything is made.

A store and a path are as the spec says them. Of an EtcdBackup by name, what it had stored goes into
the bootstrap record: from then on that object may change or be deleted. As long as nothing is
restored, it is looked up again for a spec that names another one, or where the record was lost.
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


def sought(seen: Observation) -> str:
    """Name of the EtcdBackup that is to be looked up; empty where none is."""
    asked = seen.cluster.restore
    if not isinstance(asked, BackupRef):
        return ""
    if seen.secret is None:
        return asked.name
    record = seen.secret.bootstrap
    if record is None or record.latched or _is_chosen(record.chosen, asked):
        return ""
    return asked.name


def begin(seen: Observation, source: Source, version: str) -> Step:
    """The first record of such a cluster, once it is known from what."""
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    record = _record(seen, seen.cluster, version, chosen)
    words = f"a cluster begins from {_in_words(store, chosen)}"
    return CreateSecret(naming.start_secret(seen.cluster.name), record, words)


def begin_after_all(seen: Observation, source: Source, cluster: EtcdCluster) -> Step:
    """The record of a cluster that had begun without a backup, of which nothing has come yet."""
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    attempt = recorded(seen).attempt + 1
    record = _record(seen, cluster, str(cluster.version), chosen, attempt)
    words = f"the cluster begins from {_in_words(store, chosen)}, as its spec says by now"
    return WriteBootstrap.of(seen, record, words, final=True)


def place(seen: Observation, source: Source) -> Store | Step:
    """Where the backup lies by the record; or the step that comes before that is known."""
    if isinstance(source, Store):
        return source
    record = recorded(seen)
    if record.chosen is not None and _is_chosen(record.chosen, source):
        return record.chosen.store
    found = _found(seen, source)
    if isinstance(found, Wait | Hold):
        return found
    store, chosen = found
    words = f"the cluster is born from {_in_words(store, chosen)}, as its spec says by now"
    return WriteBootstrap.of(seen, replace(record, chosen=chosen), words)


def whose(seen: Observation) -> str:
    """What a message about the store has to add: which object names it, if not the cluster."""
    asked = seen.cluster.restore
    if not isinstance(asked, BackupRef):
        return ""
    return f" (the store is that of EtcdBackup {asked.name})"


def _record(
    seen: Observation, cluster: EtcdCluster, version: str, chosen: Chosen | None, attempt: int = 1
) -> Bootstrap:
    first = {naming.pod(cluster.name, 0): cluster.peer_url(0)}
    begun = records.first_attempt(cluster.uid, first, version, attempt, cluster.links)
    return records.restoring(begun, size=cluster.size, bump=bump_at(seen.made), chosen=chosen)


def _is_chosen(chosen: Chosen | None, asked: BackupRef) -> bool:
    return chosen is not None and chosen.backup == asked.name


def _found(seen: Observation, source: Source) -> tuple[Store, Chosen | None] | Wait | Hold:
    found = resolved(source, seen.backup)
    if isinstance(found, Store):
        return found, Chosen(source.name, found) if isinstance(source, BackupRef) else None
    if not found.stuck:
        return Wait(f"{found.why} ({_FIELD}); nothing is made before")
    return Hold("BackupAwaited", f"{_FIELD}: {found.why}. Nothing is made until then")


def _in_words(store: Store, chosen: Chosen | None) -> str:
    of = f", which EtcdBackup {chosen.backup} has stored" if chosen else ""
    return f"{store.location(store.key)}{of}"
