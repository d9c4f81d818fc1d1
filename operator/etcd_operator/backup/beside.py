"""Reads the manifest that lies beside a backup: whose it is, and what it is of."""

from __future__ import annotations

from etcd_operator.backup.sink import Sink
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import Manifest


async def manifest_beside(sink: Sink, key: str) -> Manifest | None:
    """None where there is none. Raises StoreFailed, and BadManifest where it cannot be read."""
    data = await sink.get(names.manifest_of(key), manifest.MAX_BYTES)
    return manifest.parse(data) if data is not None else None
