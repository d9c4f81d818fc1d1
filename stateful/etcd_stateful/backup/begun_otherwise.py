"""Whether the EtcdCluster that an EtcdRestore has made starts from another backup than that names,
or from none.

Either may have been edited since.
"""

from __future__ import annotations

from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef, Source, named_in
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import NotRestorable, resolved


def from_none(restore: EtcdRestore, cluster_id: str) -> str:
    """What to say of a cluster that has formed without a backup."""
    return (
        f"EtcdCluster {restore.name} ({cluster_id}) does not have the data of the backup: it was "
        "not bootstrapped from it, because spec.bootstrap.restore was removed, or because "
        "spec.retainedClaims.adopt names the claims of an earlier cluster. To replace its data "
        "with the backup, create this EtcdRestore again with its ID in spec.replace.clusterID"
    )


def from_another(
    restore: EtcdRestore, begins: Source | None, named: str, found: Store | NotRestorable | None
) -> str:
    """What to say if the cluster starts from another backup; empty if it does not.

    Args:
        begins: the `spec.bootstrap.restore` of the cluster; None if it has none.
        named: the EtcdBackup that the EtcdRestore named when it made the cluster, if it named one.
        found: what the EtcdBackup that it names now has stored; None if it names none.
    """
    asked = restore.source
    if begins is None or (isinstance(asked, BackupRef) and asked.name == named):
        return ""
    if _place(resolved(asked, found)) == _place(begins):
        return ""
    return (
        f"EtcdCluster {restore.name} starts from {_in_words(begins)}, and not from "
        f"{_in_words(asked)}: one of the two objects was edited after it was created. As long as "
        "it has not formed, edit its spec.bootstrap.restore; after that, name its ID in "
        "spec.replace.clusterID here to replace its data"
    )


def in_place(restore: EtcdRestore, cluster_id: str, source: str) -> str:
    """What to say of a cluster that has been replaced with another backup; empty if with the one
    that the EtcdRestore names.

    Args:
        source: what it named at the takeover, as `named_in`; empty if that is not known.
    """
    if source in ("", named_in(restore.source)):
        return ""
    return (
        f"EtcdCluster {restore.name} ({cluster_id}) has the data of {source}, and not of "
        f"{_in_words(restore.source)}: the spec was edited after the restored cluster had taken "
        "over. To replace its data once more, create this EtcdRestore again with that ID in "
        "spec.replace.clusterID"
    )


def _place(source: Source | NotRestorable) -> object:
    if isinstance(source, Store):
        return source.place, source.endpoint
    return source


def _in_words(source: Source) -> str:
    if isinstance(source, Store):
        return f"{source.place} at {source.endpoint}" if source.endpoint else source.place
    return f"what EtcdBackup {source.name} has stored"
