"""Names of what is stored, and which of it is old.

coreos's names, `<path>_v<revision>_<YYYY-MM-DD-HH:MM:SS>`, ordered by what they say: by their text
the revision 100 would come before 99, and the newest backup be deleted. Neighbours in the store
whose names only begin alike are nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from etcd_stateful.api.stores import RUN

MANIFEST: Final = ".manifest.json"
UNFINISHED: Final = ".unfinished"
MOMENT: Final = "%Y-%m-%d-%H:%M:%S"

_UID_DIGITS: Final = 8
_LEFT: Final = re.compile(rf"[0-9a-f]{{4}}{re.escape(UNFINISHED)}(#\d+)?")
"""The stores' client numbers what it writes, and never takes a name that is there."""

_STAMP: Final = re.compile(r"_v(\d{1,19})_(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)")
_OF_INTERVAL: Final = re.compile(rf"(.*){_STAMP.pattern}", re.DOTALL)

_OF_SCHEDULE: Final = re.compile(rf"(.*?)_?{RUN}", re.DOTALL)


def stamped(path: str, revision: int, moment: str) -> str:
    """Name of a backup of an interval; `moment` as `2026-01-31-23:59:59`, UTC."""
    return f"{path}_v{revision}_{moment}"


def manifest_of(key: str) -> str:
    return key + MANIFEST


def unfinished(path: str, owner_uid: str, token: str) -> str:
    """Name in a volume of what is not whole yet: another for each process, or one could give the
    other's half its final name."""
    return f"{_unfinished(path, owner_uid)}{token}{UNFINISHED}"


def is_left(path: str, owner_uid: str, name: str) -> bool:
    """Whether it is what a try of this object, or a run of this schedule, has not finished.
    Neither has two at once, so it is of one that was killed, and the next may delete it."""
    start = _unfinished(path, owner_uid)
    return name.startswith(start) and bool(_LEFT.fullmatch(name.removeprefix(start)))


def _unfinished(path: str, owner_uid: str) -> str:
    base, by = of_schedule(path) or (path, owner_uid[:_UID_DIGITS])
    return f"{base}_{by}_"


def newest_first(path: str, keys: Iterable[str]) -> list[str]:
    """Backups of an interval of this path, whoever made them; by their time, then their revision:
    a cluster that was made anew begins at revision 1 again."""
    found = ((of, key) for key in set(keys) if (of := _parse(path, key)))
    return [key for _, key in sorted(found, reverse=True)]


def moment_of(path: str, key: str) -> str:
    """When a backup of an interval of this path began, as its name has it; empty for others."""
    found = _parse(path, key)
    return found[0] if found else ""


def path_of(key: str) -> str:
    """The path of the interval that has made it; itself, where none has."""
    found = _OF_INTERVAL.fullmatch(key)
    return found[1] if found else key


def of_schedule(key: str) -> tuple[str, str] | None:
    """The path of the schedule that has made it, and the digits of that one's UID."""
    found = _OF_SCHEDULE.fullmatch(key)
    return (found[1], found[2]) if found else None


def is_below(path: str, key: str) -> bool:
    """Whether it is in the folder of a path, or has the form of a backup of it."""
    if not key.startswith(path):
        return False
    rest = key.removeprefix(path)
    below = path.endswith("/") or rest.startswith("/") or not rest
    made = of_schedule(key)
    return below or bool(_STAMP.fullmatch(rest)) or (made is not None and made[0] == path)


def _parse(path: str, key: str) -> tuple[str, int] | None:
    stamp = _STAMP.fullmatch(key.removeprefix(path)) if key.startswith(path) else None
    return (stamp[2], int(stamp[1])) if stamp else None
