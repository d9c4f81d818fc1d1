"""What lies in the store below a schedule's path and is no backup of its own.

It may be of a schedule of that name that was deleted and made anew, of another cluster's, of the
coreos operator, or made by hand; or a run of its own has left it unfinished, without a manifest
that says who made it. It is told and never touched.
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
"""Names in the store, so that a bucket of any size costs a Job neither its time nor its memory."""


@dataclass(frozen=True, slots=True)
class File:
    key: str
    size: int
    modified: str
    """RFC 3339, in UTC and whole seconds."""


@dataclass(frozen=True, slots=True)
class Found:
    rest: str
    """Its key, without the schedule's path."""
    size: int
    modified: str
    manifest: bool
    """Whether a manifest lies beside it, as this operator writes them."""


@dataclass(frozen=True, slots=True)
class Others:
    count: int
    newest: tuple[Found, ...] = ()
    partial: bool = False
    """The looking came to its end before the store's list did."""


def others(key: str, files: Iterable[File], *, partial: bool = False) -> Others | None:
    """Seen from the backup `key`; None where no schedule has made that."""
    mine = names.of_schedule(key)
    if mine is None:
        return None
    path = mine[0]
    by_key = {one.key: one for one in files}
    complete = {one for one in by_key if _is_whole(by_key.get(names.manifest_of(one)))}
    # Of a list that was cut off, a manifest may be what is missing.
    own = {one for one in by_key if names.of_schedule(one) == mine and (one in complete or partial)}
    found = [
        Found(one.key[len(path) :], one.size, one.modified, one.key in complete)
        for one in by_key.values()
        if not one.key.endswith(names.MANIFEST)
        and names.is_below(path, one.key)
        and one.key not in own
    ]
    newest = sorted(found, key=lambda one: (one.modified, one.rest), reverse=True)
    return Others(len(found), tuple(newest[:MOST_LISTED]), partial)


def _is_whole(manifest: File | None) -> bool:
    return manifest is not None and manifest.size >= SHORTEST


def to_json(told: Others) -> dict[str, Any]:
    """As short as it can be: all that a Job says has to fit into 4 KiB."""
    files = [[one.rest, one.size, one.modified, int(one.manifest)] for one in told.newest]
    return {"count": told.count, "files": files, "partial": told.partial}


def from_json(given: Mapping[str, Any]) -> Others:
    """Raises KeyError, TypeError and ValueError."""
    newest = tuple(
        Found(str(rest), whole(size), str(modified), bool(manifest))
        for rest, size, modified, manifest in given["files"]
    )
    return Others(whole(given["count"]), newest, given["partial"] is True)
