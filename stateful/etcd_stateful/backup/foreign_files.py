"""Files in the store below a schedule's path that are not the schedule's own backups.

They may come from an earlier schedule of the same name, from another cluster, from the coreos
operator or from a person; or a run of this schedule left one unfinished, without the manifest that
says who made it. They are reported in status and never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.backup import names
from etcd_stateful.backup.manifest import SHORTEST
from etcd_stateful.untrusted import whole

MOST_LISTED: Final = 20
MOST_LOOKED_AT: Final = 20_000
"""Keys that a Job lists at most, so that a large bucket costs it neither time nor memory."""


@dataclass(frozen=True, slots=True)
class File:
    key: str
    size: int
    modified: str
    """RFC 3339, in UTC and whole seconds."""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """One of these files."""

    rest: str
    """Its key, without the schedule's path."""
    size: int
    modified: str
    manifest: bool
    """Whether there is a manifest beside it, as this operator writes them."""


@dataclass(frozen=True, slots=True)
class ForeignFiles:
    """How many of these files there are, and the newest of them."""

    count: int
    newest: tuple[ForeignFile, ...] = ()
    partial: bool = False
    """Whether the store has more keys than were listed."""


def find_foreign_files(
    key: str, files: Iterable[File], *, partial: bool = False
) -> ForeignFiles | None:
    """Files that do not belong to the schedule of backup `key`; None if no schedule made it."""
    mine = names.of_schedule(key)
    if mine is None:
        return None
    path = mine[0]
    by_key = {one.key: one for one in files}
    complete = _complete(by_key)
    # In a partial list the manifest of a backup may be missing.
    own = {one for one in by_key if names.of_schedule(one) == mine and (one in complete or partial)}
    found = [
        ForeignFile(one.key[len(path) :], one.size, one.modified, one.key in complete)
        for one in by_key.values()
        if not one.key.endswith(names.MANIFEST)
        and names.is_below(path, one.key)
        and one.key not in own
    ]
    newest = sorted(found, key=lambda one: (one.modified, one.rest), reverse=True)
    return ForeignFiles(len(found), tuple(newest[:MOST_LISTED]), partial)


def newest_backup(path: str, files: Iterable[File]) -> File | None:
    """The newest complete backup in the folder of a path, or made to that path at some time; None
    if there is none."""
    by_key = {one.key: one for one in files}
    found = (by_key[one] for one in _complete(by_key) if names.is_below(path, one))
    return max(found, key=lambda one: (one.modified, one.key), default=None)


def _complete(by_key: Mapping[str, File]) -> set[str]:
    """The keys of files with a manifest beside them."""
    return {one for one in by_key if _is_whole(by_key.get(names.manifest_of(one)))}


def _is_whole(manifest: File | None) -> bool:
    return manifest is not None and manifest.size >= SHORTEST


def to_json(told: ForeignFiles) -> dict[str, Any]:
    """A short form: the whole termination message of a Job has to fit into 4 KiB."""
    files = [[one.rest, one.size, one.modified, int(one.manifest)] for one in told.newest]
    return {"count": told.count, "files": files, "partial": told.partial}


def from_json(given: Mapping[str, Any]) -> ForeignFiles:
    """Raises KeyError, TypeError and ValueError."""
    newest = tuple(
        ForeignFile(str(rest), whole(size), str(modified), bool(manifest))
        for rest, size, modified, manifest in given["files"]
    )
    return ForeignFiles(whole(given["count"]), newest, given["partial"] is True)
