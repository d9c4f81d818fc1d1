"""What the Job of a restore is told, and what it decides (`manifests/restore_job.py`).

    fetch    the snapshot comes from the store into `restore/`, checked against etcd's own hash and
             the manifest beside it
    etcdutl  the cluster's own image makes a data directory of it, in `restore/` too
    finish   that is made durable, gets its place, and the marker is written last

Until the marker is there `start` lets nobody run the volume, so the Job's pod may die at any point:
the next one begins anew. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.options import DEFAULT_QUOTA
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.start import marker, wal
from etcd_stateful.start.configuration import BadSettings, Settings, parse_settings
from etcd_stateful.start.rules import VolumeFacts
from etcd_stateful.untrusted import loads, whole
from etcd_stateful.versions import parse_version

FOLDER: Final = "restore"
SNAPSHOT: Final = f"{FOLDER}/snapshot.db"
BUMP: Final = 1_000_000_000
"""Revisions begin so much higher, as etcd advises: no client that has seen more than the snapshot
holds may ever see a revision again."""

PACE: Final = 100_000
"""And by so many more for each second since 2026. A backup may be restored more than once, and the
cluster before has given out fewer since it began: no etcd writes as fast."""
_SINCE: Final = 1_767_225_600

HIGHEST: Final = 2**62
"""Beyond 2**63 etcdutl goes on below zero and says nothing, and no etcd runs on that. Half of it is
left to the writes that are to come, and to what a file without a manifest does not say."""

LOG_BYTES: Final = 2 * 64 * 1024 * 1024
"""etcd makes its log in files of this size."""

REFUSED_EXIT: Final = 3

FIELD: Final = "spec.bootstrap.restore"
"""Where an EtcdCluster names the store."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which backup becomes which member's data. The member is alone in a cluster of its own."""

    settings: Settings
    member_id: int
    cluster_id: int
    store: Store
    version: str
    """The etcd that is to run it."""
    field: str = FIELD
    """Where the store is named."""
    bump: int = 0
    """By how much etcdutl is to raise the revisions."""

    @property
    def marker(self) -> marker.Marker:
        return self.settings.marker(self.member_id, self.cluster_id)

    @property
    def quota(self) -> int:
        """Bytes that the etcd which is to run it may have in its database."""
        found = self.settings.options.get("quota-backend-bytes")
        return found if isinstance(found, int) else DEFAULT_QUOTA

    def by_its_field(self, words: str) -> str:
        """What is said of a store, with the field that names it here in place of `spec`."""
        return words.replace("spec.", f"{self.field}.", 1)


def serialise(
    member_id: int, cluster_id: int, store: Store, version: str, field: str = FIELD, bump: int = 0
) -> str:
    content: dict[str, object] = {
        "memberID": f"{member_id:016x}",
        "clusterID": f"{cluster_id:016x}",
        "store": stores.to_json(store),
        "version": version,
    }
    if field != FIELD:
        content["field"] = field
    if bump:
        content["bump"] = bump
    return json.dumps(content, sort_keys=True)


def parse_order(environment: Mapping[str, str]) -> Order:
    """The order in RESTORE and what `start` also reads; raises BadSettings."""
    settings = parse_settings(environment)
    try:
        given = loads(environment.get("RESTORE", ""))
        member_id, cluster_id = (int(given[key], 16) for key in ("memberID", "clusterID"))
        store, version = stores.from_json(given["store"]), str(given["version"])
        field, bump = str(given.get("field", FIELD)), whole(given.get("bump", 0))
    except (ValueError, KeyError, TypeError) as error:
        raise BadSettings(f"RESTORE does not name a member and a backup: {error}") from error
    if not all(0 < one <= marker.MAX_ID for one in (member_id, cluster_id)):
        raise BadSettings("RESTORE names IDs that none has")
    return Order(settings, member_id, cluster_id, store, version, field, bump)


def bump_at(made: float) -> int:
    """By how much the revisions of a cluster that is born from a backup are raised.

    Args:
        made: when its resource was created, seconds since 1970.
    """
    return BUMP + PACE * max(0, int(made) - _SINCE)


def why_not(manifest: Manifest | None, version: str) -> str:
    """Why this etcd must not be given that backup; empty where nothing is known against it.

    etcd takes data of its own minor and of the one before it.
    """
    of = parse_version(manifest.version) if manifest else None
    to = parse_version(version)
    if of is None or to is None:
        return ""
    if (to.major, to.minor) in ((of.major, of.minor), (of.major, of.minor + 1)):
        return ""
    return (
        f"spec.version: the backup is of etcd {of}, and etcd {to} cannot take it: restore it with "
        f"etcd {of.major}.{of.minor} or {of.major}.{of.minor + 1}"
    )


def too_high(manifest: Manifest | None, bump: int) -> str:
    """Why its revisions cannot be raised so far; empty where they can."""
    revision = manifest.revision if manifest else 0
    if revision + bump <= HIGHEST:
        return ""
    return (
        f"its revisions would begin at {revision + bump}, and what etcd can count to is near: each "
        "restore in place of a backup of the cluster itself by its path doubles them. Name its "
        "EtcdBackup in spec.backupRef, restore one of a lower revision, or copy the keys into a "
        "new cluster (etcdctl make-mirror), which begins at 1"
    )


def over_quota(size: int, quota: int) -> str:
    """Why etcd would take no write after it: it compares the file, free pages in it included."""
    if size <= quota:
        return ""
    return (
        f"spec.etcd.quotaBackend: the backup has {size} bytes, and the cluster's quota is {quota}. "
        "It would begin with the alarm NOSPACE and take no write: raise the quota above that size"
    )


def too_small(size: int, free: int) -> str:
    """Why the volume cannot hold it: the snapshot and what is made of it are there at once."""
    needed = 2 * size + LOG_BYTES
    if free >= needed:
        return ""
    return (
        f"spec.pod.persistentVolumeClaimSpec: the volume has {free} bytes left, and {needed} are "
        f"needed to restore a backup of {size}"
    )


def why_not_restored(order: Order, facts: VolumeFacts) -> str:
    """Why what etcdutl has made is not what was ordered; empty when it is."""
    if facts.problem:
        return facts.problem
    if not facts.heads:
        return "etcdutl has left no log"
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return f"the log cannot be understood: {error}"
    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):
        return f"the log is of member {log.member_id:016x} of cluster {log.cluster_id:016x}"
    return ""


def etcdutl(member: str, peer_url: str, token: str, bump: int = BUMP) -> list[str]:
    """The command: a cluster of one with IDs that are known before, revisions that only grow."""
    return [
        "/usr/local/bin/etcdutl",
        "snapshot",
        "restore",
        f"{naming.VOLUME_PATH}/{SNAPSHOT}",
        f"--name={member}",
        f"--initial-cluster={member}={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster-token={token}",
        f"--data-dir={naming.VOLUME_PATH}/{FOLDER}/data",
        f"--bump-revision={bump}",
        "--mark-compacted",
    ]
