"""Brings the snapshot onto the volume, and lets nothing through that is not a whole one."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.download import BrokenOff, download
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_operator.start import volume
from etcd_stateful.api.stores import not_meant
from etcd_stateful.backup import names
from etcd_stateful.backup.integrity import Damaged
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided
from etcd_stateful.jobs.restore import (
    FOLDER,
    SNAPSHOT,
    Order,
    over_quota,
    too_high,
    too_small,
    why_not,
    why_not_restored,
)
from etcd_stateful.start import marker

log = logging.getLogger(__name__)


class Refused(Exception):
    """Not this backup, whatever happens: another try would see the same."""


class Undone(Exception):
    """It did not come to its end; another try starts over."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    size: int
    sha256: str


async def fetch(order: Order, sink: Sink, root: Path) -> None:
    """Raises Refused, Undone and OSError."""
    _begin_anew(order, root)
    try:
        manifest = await _manifest(sink, order.store.key)
        if why := why_not(manifest, order.version) or too_high(manifest, order.bump):
            raise Refused(why)
        size = await sink.size(order.store.key)
        if size is None:
            where = f"{order.field}.{order.store.section}.path"
            raise Undone(f"{where}: there is no {order.store.key!r} in {order.store.bucket!r}")
        if why := over_quota(size, order.quota) or _no_room(order, root, size):
            raise Refused(why)
        checked = await _download(sink, order.store.key, root / SNAPSHOT, size)
        if why := _differs(checked, manifest):
            await _look_again(sink, order.store.key, manifest)
            raise Refused(why)
    except StoreFailed as error:
        raise Undone(order.by_its_field(error.failure.message)) from error
    if why := not_meant(order.store, checked.sha256):
        raise Refused(why)
    log.info("fetched %d bytes of %s", checked.size, order.store.location(order.store.key))


def _begin_anew(order: Order, root: Path) -> None:
    """What an earlier try has left goes; data that is not this restore's is never touched.

    Nor is what a member has written since: a request for a Job may be carried out long after it was
    made, when the cluster serves and the name is free again.
    """
    if volume.has_run(str(root)):
        raise Refused("a member has run on this volume: whatever was to be restored, it has data")
    facts = volume.look(str(root))
    if facts.problem:
        raise Undone(facts.problem)
    if facts.marker and (why := _not_by(order, facts.marker)):
        raise Refused(f"the volume holds data already: {why}")
    # Without a marker only what a try of this very restore has made and not yet marked may go.
    if not facts.marker and facts.heads and (why := why_not_restored(order, facts)):
        raise Refused(f"the volume holds data already, and it is not of this restore: {why}")
    shutil.rmtree(root / FOLDER, ignore_errors=True)
    (root / marker.FILE).unlink(missing_ok=True)
    (root / FOLDER).mkdir()


def _not_by(order: Order, text: bytes) -> str:
    """Why a marker is not this restore's; empty when it is. What the file holds is not said: a link
    may lead anywhere."""
    named = marker.parse(text)
    if isinstance(named, marker.Malformed):
        return named.why
    whose = f"{named.member} of cluster {named.cluster_uid}, epoch {named.epoch}"
    return "" if named == order.marker else f"the marker names {whose}, or other IDs"


def _no_room(order: Order, root: Path, size: int) -> str:
    """Why the volume cannot hold it. What an earlier try of this restore has put in place, without
    its marker by now, gives way only where its room is needed."""
    why = too_small(size, shutil.disk_usage(root).free)
    ran = volume.has_run(str(root))
    if not why or ran or why_not_restored(order, volume.look(str(root))):
        return why
    volume.sync(str(root))
    shutil.rmtree(root / "data")
    return too_small(size, shutil.disk_usage(root).free)


async def _manifest(sink: Sink, key: str) -> Manifest | None:
    """None for a backup without one, such as `etcdctl snapshot save` makes."""
    try:
        found = await read_manifest(sink, key)
    except Undecided:
        found = None
    except BadManifest as error:
        raise Refused(f"{names.manifest_of(key)}: {error}") from error
    if found is None:
        log.info("%s has no manifest: only the hash at its own end is checked", key)
    return found


async def _download(sink: Sink, key: str, path: Path, size: int) -> _Fetched:
    # It need not outlive this pod, which begins anew; `finish` syncs what is made of it.
    with path.open("wb") as file:
        try:
            checked = await download(sink, key, file, size)
        except BrokenOff as error:
            raise Undone(str(error)) from error
    try:
        return _Fetched(checked.size, checked.finish())
    except Damaged as error:
        raise Refused(f"{key}: {error}") from error


def _differs(found: _Fetched, manifest: Manifest | None) -> str:
    """How the file is not the one of its manifest; empty where it is."""
    if manifest is None or (found.size, found.sha256) == (manifest.size, manifest.sha256):
        return ""
    return (
        f"the file has {found.size} bytes with SHA-256 {found.sha256}, and the manifest beside it "
        f"is of {manifest.size} bytes with {manifest.sha256}"
    )


async def _look_again(sink: Sink, key: str, manifest: Manifest | None) -> None:
    """Raises Undone if the manifest is another by now: a backup that ran meanwhile has taken the
    place of the one that was fetched, or is about to."""
    if await _manifest(sink, key) != manifest:
        raise Undone(f"{key}: another backup took its place while it was fetched")
