"""What a cluster is restored from: a path in a store, or an EtcdBackup by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from etcd_stateful.api.reading import Reader, is_object_name, spec_of
from etcd_stateful.api.stores import SECTIONS, Store, read_store


@dataclass(frozen=True, slots=True)
class BackupRef:
    """An EtcdBackup in the same namespace; `backup.reference` looks up where it has stored."""

    name: str


Source = Store | BackupRef


def named_in(source: Source) -> str:
    """The name of the EtcdBackup, or the location in a store."""
    return source.name if isinstance(source, BackupRef) else source.place


def backup_in(source: Source) -> str:
    """Name of the EtcdBackup; empty if the source is a store."""
    return source.name if isinstance(source, BackupRef) else ""


def read_source(spec: Reader, kind_field: str, pod: Reader) -> Source | None:
    """The store or the EtcdBackup that a spec names; None if problems were found.

    Args:
        kind_field: `storageType`, or `backupStorageType` in an EtcdRestore.
        pod: the spec's settings for the pods that talk to the store.
    """
    if spec.has("backupRef"):
        return _read_ref(spec, kind_field, pod)
    if not spec.has(kind_field):
        spec.problem(kind_field, "or backupRef.name must be set, but not both")
        return None
    return read_store(spec, kind_field, pod)


def source_of_cluster(body: Mapping[str, Any]) -> Source | None:
    """The `spec.bootstrap.restore` of an EtcdCluster, whatever else is wrong with its spec."""
    restore = spec_of(body).object("bootstrap").object("restore")
    return read_source(restore, "storageType", restore.object("pod"))


def _read_ref(spec: Reader, kind_field: str, pod: Reader) -> BackupRef | None:
    found = len(spec.problems)
    for key in (kind_field, *SECTIONS.values()):
        if spec.has(key):
            spec.problem(key, "cannot be combined with backupRef; remove one of the two")
    if pod.has("serviceAccountName"):
        words = "cannot be combined with backupRef, which uses the EtcdBackup's; remove it"
        pod.problem("serviceAccountName", words)
    ref = spec.object("backupRef")
    name = ref.text("name")
    if ref.has("namespace"):
        words = "cannot be set: the EtcdBackup must be in this namespace; remove it"
        ref.problem("namespace", words)
    if not is_object_name(name):
        ref.problem("name", f"must be the name of an EtcdBackup, found {name[:60]!r}")
    return BackupRef(name) if len(spec.problems) == found else None
