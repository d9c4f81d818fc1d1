"""Which stored backups restores read, so that no retention deletes them meanwhile.

Often the oldest backup is chosen, as it is from before the damage, and it is the next to go. A spec
that is refused for a mistake in another field counts too: it will be corrected, or its Job runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from etcd_stateful import stored_conditions
from etcd_stateful.api.reading import spec_of
from etcd_stateful.api.source import Source, named_in, read_source, source_of_cluster
from etcd_stateful.backup.restore_requests import is_over


def read_from(
    asking: Iterable[Mapping[str, Any]], clusters: Iterable[Mapping[str, Any]]
) -> frozenset[str]:
    """What restores read, or are about to: names of EtcdBackups, and locations in stores.

    Args:
        asking: EtcdRestores of one namespace.
        clusters: its EtcdClusters. One that serves has read its backup.
    """
    sources = [*map(_source_of_restore, asking), *map(_source_of_cluster, clusters)]
    return frozenset(named_in(one) for one in sources if one)


def _source_of_restore(body: Mapping[str, Any]) -> Source | None:
    if "deletionTimestamp" in body["metadata"] or is_over(body):
        return None
    spec = spec_of(body)
    return read_source(spec, "backupStorageType", spec.object("pod"))


def _source_of_cluster(body: Mapping[str, Any]) -> Source | None:
    serves = stored_conditions.is_true(body.get("status"), "Available")
    if serves or "deletionTimestamp" in body["metadata"]:
        return None
    return source_of_cluster(body)
