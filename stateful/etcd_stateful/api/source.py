"""What a cluster is restored from: a place in a store, or an EtcdBackup by its name."""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful.api.reading import Reader, is_object_name
from etcd_stateful.api.stores import SECTIONS, Store, read_store


@dataclass(frozen=True, slots=True)
class BackupRef:
    """An EtcdBackup of the same namespace; where it has stored has yet to be looked up."""

    name: str


Source = Store | BackupRef


def read_source(spec: Reader, kind_field: str, pod: Reader) -> Source | None:
    """What a spec names, by exactly one of both; None where problems were found.

    Args:
        kind_field: `storageType`, or `backupStorageType` in an EtcdRestore.
        pod: what the spec says of the pods that talk to the store.
    """
    if spec.has("backupRef"):
        return _read_ref(spec, kind_field, pod)
    if not spec.has(kind_field):
        spec.problem(kind_field, "or backupRef.name must say what to restore, one of them")
        return None
    return read_store(spec, kind_field, pod)


def _read_ref(spec: Reader, kind_field: str, pod: Reader) -> BackupRef | None:
    found = len(spec.problems)
    for key in (kind_field, *SECTIONS.values()):
        if spec.has(key):
            spec.problem(key, "is set beside backupRef; say by one of them what to restore")
    if pod.has("serviceAccountName"):
        words = "is set beside backupRef; leave it out, the EtcdBackup's own is used"
        pod.problem("serviceAccountName", words)
    ref = spec.object("backupRef")
    name = ref.text("name")
    if ref.has("namespace"):
        ref.problem("namespace", "leave it out: an EtcdBackup of another namespace is never used")
    if not is_object_name(name):
        ref.problem("name", f"must be the name of an EtcdBackup, found {name[:60]!r}")
    return BackupRef(name) if len(spec.problems) == found else None
