"""The order of the restore Job, and its decisions (`manifests/restore_job.py`).

    fetch    downloads the snapshot into `restore/`, and checks it by etcd's own hash and by the
             manifest beside it
    etcdutl  from the cluster's etcd image: makes a data directory of the snapshot in `restore/`
    finish   syncs the data directory to disk, moves it to its place, and writes the marker last

`start` does not run the volume until the marker is there. So the Job's pod may die at any point,
and the next one starts over. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etcd_stateful import identity, naming
from etcd_stateful.api import stores
from etcd_stateful.api.options import DEFAULT_QUOTA
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.start import marker, wal
from etcd_stateful.start.configuration import BadSettings, Settings, parse_settings
from etcd_stateful.start.rules import VolumeFacts
from etcd_stateful.untrusted import loads, whole
from etcd_stateful.versions import Minor, minor_of, parse_version, reported_version

FOLDER: Final = "restore"
SNAPSHOT: Final = f"{FOLDER}/snapshot.db"
POD: Final = "pod"
"""A file in that folder: the UID of the pod that has begun there last, and deleted what was there.
Kubernetes sometimes starts two pods of one Job."""
REPLACED: Final = f"{FOLDER}/before"
"""Data that an earlier try has put in place, until it is deleted."""
BUMP: Final = 1_000_000_000
"""Revisions of a restored cluster begin this much higher, as etcd advises: a client that has seen
later revisions than the snapshot has must never see one of them again for another write."""

PACE: Final = 100_000
"""They begin this much higher again for each second since 2026. A backup may be restored more than
once, and no etcd writes fast enough to use up these revisions in between."""
_SINCE: Final = 1_767_225_600

HIGHEST: Final = 2**62
"""Beyond 2**63 etcdutl silently wraps to negative revisions, on which etcd does not run. Half of
the range is left for later writes, and for a backup without a manifest, whose revision is not
known."""

LOG_BYTES: Final = 2 * 64 * 1024 * 1024
"""Bytes that a new WAL takes: etcd preallocates segments of 64 MiB."""

REFUSED_EXIT: Final = 3

FIELD: Final = "spec.bootstrap.restore"
"""The field in which an EtcdCluster names the store."""


@dataclass(frozen=True, slots=True)
class Order:
    """The backup to restore, and the member whose data it becomes, as a cluster of one."""

    settings: Settings
    member_id: int
    cluster_id: int
    store: Store
    version: str
    """The version of etcd that will run the data."""
    field: str = FIELD
    """The field that names the store, for messages."""
    bump: int = 0
    """By how much etcdutl raises the revisions."""
    revision: int = 0
    """The backup's own revision, by the status of its EtcdBackup, if `bump` counts on it."""

    @property
    def marker(self) -> marker.Marker:
        return self.settings.marker(self.member_id, self.cluster_id)

    @property
    def quota(self) -> int:
        """`quota-backend-bytes` of the etcd that will run the data."""
        found = self.settings.options.get("quota-backend-bytes")
        return found if isinstance(found, int) else DEFAULT_QUOTA

    def by_its_field(self, words: str) -> str:
        """A message about the store, with the field of this order in place of `spec`."""
        return words.replace("spec.", f"{self.field}.", 1)


def serialise(
    member_id: int, cluster_id: int, store: Store, version: str, field: str = FIELD, bump: int = 0
) -> str:
    content = {
        "memberID": identity.to_hex(member_id),
        "clusterID": identity.to_hex(cluster_id),
        "store": stores.to_json(store),
        "version": version,
        "field": field,
        "bump": bump,
    }
    counted = {"revision": store.revision} if store.revision else {}
    return json.dumps(content | counted, sort_keys=True)


def parse_order(environment: Mapping[str, str]) -> Order:
    """The order in RESTORE and in the settings of `start`; raises BadSettings."""
    settings = parse_settings(environment)
    try:
        given = loads(environment.get("RESTORE", ""))
        member_id, cluster_id = (identity.from_hex(given[key]) for key in ("memberID", "clusterID"))
        store, version = stores.from_json(given["store"]), str(given["version"])
        field = str(given.get("field", FIELD))
        bump, revision = (whole(given.get(key, 0)) for key in ("bump", "revision"))
    except (ValueError, KeyError, TypeError) as error:
        raise BadSettings(f"RESTORE does not name a member and a backup: {error}") from error
    return Order(settings, member_id, cluster_id, store, version, field, bump, revision)


def bump_at(created: float) -> int:
    """By how much the revisions of a cluster that is bootstrapped from a backup are raised.

    Args:
        created: creation timestamp of its EtcdCluster, in seconds since 1970.
    """
    return BUMP + PACE * max(0, int(created) - _SINCE)


def why_not(manifest: Manifest | None, version: str) -> str:
    """Why this version of etcd cannot run the backup; empty if it can, or if that is not known.

    etcd runs data of its own minor and of the previous one.
    """
    of = reported_version(manifest.version) if manifest else None
    to = parse_version(version)
    if of is None or to is None:
        return ""
    own, following = minor_of(of), Minor(of.major, of.minor + 1)
    if minor_of(to) in (own, following):
        return ""
    return (
        f"spec.version: the backup is of etcd {of}, which etcd {to} cannot run: restore it with "
        f"etcd {own} or {following}"
    )


def bump_too_high(manifest: Manifest | None, bump: int) -> str:
    """Why the revisions of a backup cannot be raised that far; empty if they can."""
    revision = manifest.revision if manifest else 0
    if revision + bump <= HIGHEST:
        return ""
    return (
        f"its revisions would begin at {revision + bump}, too close to etcd's limit: each restore "
        "in place of the cluster's own backup, by its path, doubles them. Name its EtcdBackup in "
        "spec.backupRef, restore a backup of a lower revision, or copy the keys into a new cluster "
        "(etcdctl make-mirror), which begins at 1"
    )


def bump_too_low(manifest: Manifest | None, revision: int) -> str:
    """Why revisions that clients have seen would be handed out again: the backup ends at a lower
    one than was counted on. Empty if it does not."""
    if manifest is None or manifest.revision >= revision:
        return ""
    return (
        f"spec.backupRef: the status of its EtcdBackup says that its revision is {revision}, and "
        f"the manifest beside it {manifest.revision}. So somebody has changed that status, and the "
        "revisions would begin too low: name the store and the path of the backup instead"
    )


def over_quota(size: int, quota: int) -> str:
    """Why etcd would accept no writes: its quota applies to the file, including free pages."""
    if size <= quota:
        return ""
    return (
        f"spec.etcd.quotaBackend: the backup has {size} bytes, but the cluster's quota is {quota}. "
        "The cluster would have the alarm NOSPACE and accept no writes: raise the quota above that "
        "size"
    )


def volume_too_small(size: int, free: int) -> str:
    """Why the volume is too small: it has to hold the snapshot and the restored data at once."""
    needed = 2 * size + LOG_BYTES
    if free >= needed:
        return ""
    return (
        f"spec.pod.persistentVolumeClaimSpec: the volume has {free} bytes left, but {needed} are "
        f"needed to restore a backup of {size}"
    )


def why_not_restored(order: Order, facts: VolumeFacts) -> str:
    """Why the data that etcdutl has made does not match the order; empty if it does."""
    if facts.problem:
        return facts.problem
    if not facts.heads:
        return "etcdutl has left no log"
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return f"the log cannot be parsed: {error}"
    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):
        return f"the log is of member {log.member_id:016x} of cluster {log.cluster_id:016x}"
    return ""


def etcdutl(member: str, peer_url: str, token: str, bump: int = BUMP) -> list[str]:
    """The command that restores the snapshot as a cluster of one, with known IDs and higher
    revisions."""
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
