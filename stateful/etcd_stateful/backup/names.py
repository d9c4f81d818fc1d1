"""Keys of stored backups, and which of them are old.

The names are those of the coreos operator, `<path>_v<revision>_<YYYY-MM-DD-HH:MM:SS>`. They are
ordered by their parsed time and revision: as text, revision 100 comes before 99, and the newest
backup would be deleted. Keys that only share a prefix with the path are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from etcd_stateful.api import stores

MANIFEST: Final = stores.MANIFEST
UNFINISHED: Final = ".unfinished"
MOMENT: Final = "%Y-%m-%d-%H:%M:%S"

_UID_DIGITS: Final = 8
_LEFT: Final = re.compile(rf"[0-9a-f]{{4}}{re.escape(UNFINISHED)}(#\d+)?")
"""The store's client appends a number to files while it writes them, to avoid existing names."""

_STAMP: Final = re.compile(r"_v(\d{1,19})_(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)")
_OF_INTERVAL: Final = re.compile(rf"(.*){_STAMP.pattern}", re.DOTALL)

_OF_SCHEDULE: Final = re.compile(rf"(.*?)_?{stores.RUN}", re.DOTALL)


def stamped(path: str, revision: int, moment: str) -> str:
    """Key of a backup made at an interval; `moment` as `2026-01-31-23:59:59`, UTC."""
    return f"{path}_v{revision}_{moment}"


def manifest_of(key: str) -> str:
    return key + MANIFEST


def unfinished(path: str, owner_uid: str, token: str) -> str:
    """Key of an unfinished file in a volume. Each process has its own, or one process could rename
    the half-written file of another to its final name."""
    return f"{_unfinished(path, owner_uid)}{token}{UNFINISHED}"


def is_left(path: str, owner_uid: str, name: str) -> bool:
    """Whether it is an unfinished file of this EtcdBackup, or of this schedule. Neither has two
    runs at once, so the file is left from a run that was killed, and the next may delete it."""
    start = _unfinished(path, owner_uid)
    return name.startswith(start) and bool(_LEFT.fullmatch(name.removeprefix(start)))


def _unfinished(path: str, owner_uid: str) -> str:
    base, by = of_schedule(path) or (path, owner_uid[:_UID_DIGITS])
    return f"{base}_{by}_"


def newest_first(path: str, keys: Iterable[str]) -> list[str]:
    """The backups made at an interval to this path, by any owner. The order is by time before
    revision, because a recreated cluster begins at revision 1 again."""
    found = ((of, key) for key in set(keys) if (of := _parse(path, key)))
    return [key for _, key in sorted(found, reverse=True)]


def moment_of(path: str, key: str) -> str:
    """The time in the key of a backup made at an interval to this path; empty for other keys."""
    found = _parse(path, key)
    return found[0] if found else ""


def path_of(key: str) -> str:
    """The key without revision and time, if it has them."""
    found = _OF_INTERVAL.fullmatch(key)
    return found[1] if found else key


def of_schedule(key: str) -> tuple[str, str] | None:
    """Path and digits of the UID of the schedule that made it; None if no schedule did."""
    found = _OF_SCHEDULE.fullmatch(key)
    return (found[1], found[2]) if found else None


def is_below(path: str, key: str) -> bool:
    """Whether a key is in the folder of a path, or has the form of a backup to that path."""
    if not key.startswith(path):
        return False
    rest = key.removeprefix(path)
    below = path.endswith("/") or rest.startswith("/") or not rest
    made = of_schedule(key)
    return below or bool(_STAMP.fullmatch(rest)) or (made is not None and made[0] == path)


def _parse(path: str, key: str) -> tuple[str, int] | None:
    stamp = _STAMP.fullmatch(key.removeprefix(path)) if key.startswith(path) else None
    return (stamp[2], int(stamp[1])) if stamp else None
