"""Downloads the snapshot onto the member's volume, and accepts only a whole one."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.download import BrokenOff, download
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_operator.backup.surveying import nothing_at
from etcd_operator.fsync import fsync
from etcd_operator.start import volume
from etcd_stateful import naming
from etcd_stateful.api.stores import not_meant
from etcd_stateful.backup import names
from etcd_stateful.backup.integrity import Damaged
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided
from etcd_stateful.jobs.restore import (
    FOLDER,
    POD,
    REPLACED,
    SNAPSHOT,
    Order,
    bump_too_high,
    bump_too_low,
    over_quota,
    volume_too_small,
    why_not,
    why_not_restored,
)
from etcd_stateful.start import marker

log = logging.getLogger(__name__)


class Refused(Exception):
    """The restore is impossible: another try would fail the same way."""


class Unfinished(Exception):
    """The download did not finish; another try starts over."""


async def fetch(order: Order, sink: Sink, root: Path) -> None:
    """Raises Refused, Unfinished and OSError."""
    _begin_anew(order, root)
    try:
        await sink.check()
        manifest = await _manifest(sink, order.store.key)
        too_far = bump_too_high(manifest, order.bump) or bump_too_low(manifest, order.revision)
        if why := why_not(manifest, order.version) or too_far:
            raise Refused(why)
        size = await sink.size(order.store.key)
        if size is None:
            words = await nothing_at(sink, order.store, order.store.key)
            raise Unfinished(order.by_its_field(words))
        if why := over_quota(size, order.quota) or _no_room(order, root, size):
            raise Refused(why)
        sha256 = await _download(sink, order.store.key, root / SNAPSHOT, size)
        if why := _differs(size, sha256, manifest):
            await _look_again(sink, order.store.key, manifest)
            raise Refused(why)
    except StoreFailed as error:
        raise Unfinished(order.by_its_field(error.failure.message)) from error
    if why := not_meant(order.store, sha256):
        its = f"if an EtcdRestore has made this EtcdCluster, remove its {naming.RESTORED_SHA256}"
        raise Refused(f"{why}, or {its} annotation")
    log.info("fetched %d bytes of %s", size, order.store.place)


def _begin_anew(order: Order, root: Path) -> None:
    """Deletes what an earlier try has left. Data that is not from this restore is never touched.

    Nor is data that a member has written since: the API server may carry out a request for this Job
    long after it was sent, when the cluster serves and the Job's name is free again.

    What an earlier try has put in place stays as well, with its marker: it may be all that was to
    be done. Then this is a second pod of the Job, which Kubernetes sometimes starts and then stops.
    """
    if volume.has_run(str(root)):
        raise Refused("a member has run on this volume: whatever was to be restored, it has data")
    facts = volume.look(str(root))
    if facts.problem:
        raise Unfinished(facts.problem)
    if facts.marker and (why := _why_foreign(order, facts.marker)):
        raise Refused(f"the volume holds data already: {why}")
    # Data without a marker may be deleted only if a try of this very restore has made it.
    if not facts.marker and facts.heads and (why := why_not_restored(order, facts)):
        raise Refused(f"the volume holds data already, and it is not of this restore: {why}")
    with suppress(FileNotFoundError):
        shutil.rmtree(root / FOLDER)
    (root / FOLDER).mkdir()
    volume.write(str(root / FOLDER), POD, order.settings.pod_uid.encode())


def _why_foreign(order: Order, text: bytes) -> str:
    """Why a marker is not from this restore; empty if it is. Malformed content is never quoted: the
    file may be a link to anything."""
    named = marker.parse(text)
    if isinstance(named, marker.Malformed):
        return named.why
    whose = f"{named.member} of cluster {named.cluster_uid}, epoch {named.epoch}"
    return "" if named == order.marker else f"the marker names {whose}, or other IDs"


def _no_room(order: Order, root: Path, size: int) -> str:
    """Why the volume has no room for the backup. Data that an earlier try of this restore has put
    in place, and that has lost its marker by now, is deleted only if its space is needed."""
    why = volume_too_small(size, shutil.disk_usage(root).free)
    ran = volume.has_run(str(root))
    if not why or ran or why_not_restored(order, volume.look(str(root))):
        return why
    # Renamed first: a try that dies while it deletes leaves nothing in `data`.
    os.rename(root / "data", root / REPLACED)
    fsync(root)
    shutil.rmtree(root / REPLACED)
    return volume_too_small(size, shutil.disk_usage(root).free)


async def _manifest(sink: Sink, key: str) -> Manifest | None:
    """The backup's manifest; None if it has none, such as one that `etcdctl snapshot save` made."""
    try:
        found = await read_manifest(sink, key)
    except Undecided:
        found = None
    except BadManifest as error:
        raise Refused(f"{names.manifest_of(key)}: {error}") from error
    if found is None:
        log.info("%s has no manifest: only the hash at its own end is checked", key)
    return found


async def _download(sink: Sink, key: str, path: Path, size: int) -> str:
    """Returns the file's SHA-256."""
    # Not synced: another pod downloads it again, and `finish` syncs the data made from it.
    with path.open("wb") as file:
        try:
            checked = await download(sink, key, file, size)
        except BrokenOff as error:
            raise Unfinished(str(error)) from error
    try:
        return checked.finish()
    except Damaged as error:
        raise Refused(f"{key}: {error}") from error


def _differs(size: int, sha256: str, manifest: Manifest | None) -> str:
    """How the file differs from its manifest; empty if it does not."""
    if manifest is None or (size, sha256) == (manifest.size, manifest.sha256):
        return ""
    return (
        f"the file has {size} bytes with SHA-256 {sha256}, and the manifest beside it "
        f"is of {manifest.size} bytes with {manifest.sha256}"
    )


async def _look_again(sink: Sink, key: str, manifest: Manifest | None) -> None:
    """Raises Unfinished if the manifest has changed: another backup has overwritten the one that
    was fetched, or is about to."""
    if await _manifest(sink, key) != manifest:
        raise Unfinished(f"{key}: another backup took its place while it was fetched")
