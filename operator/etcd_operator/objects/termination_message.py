"""What a container said before it ended, and whether etcd says there that its data is damaged.

It goes by words alone with which etcd 3.5 to 3.7 speak of what is *in* their files: a log whose
checksums do not fit, a database that is none, entries that the member has confirmed and no longer
has. What a full disk, a failing read or missing rights lead to is said in other words, and heals
otherwise. `tests/integration/etcd` damages real data in every way named here and reads what etcd
says of it.

A log whose beginning is damaged is told by `start`, which reads it before etcd does. Of a database
that was cut short etcd may only say that it was killed (SIGBUS), as it does over a failing disk:
that is nothing to go by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

TIMES: Final = 2
"""How often etcd must have been started again: once is chance."""

_DAMAGE: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"wal(pb)?: crc mismatch", "wal: crc mismatch"),
        # In 3.7 a space that cannot be broken follows the colon.
        (r"discovery failed.{,40}proto:\s", "its log holds records that are none"),
        (
            r"failed to read WAL, cannot be repaired.{,40}unexpected EOF",
            "failed to read WAL, cannot be repaired",
        ),
        (
            r"failed to open database.{,300}invalid database",
            "failed to open database: invalid database",
        ),
        (r"failed to find database snapshot file", "failed to find database snapshot file"),
        (
            r"Page expected to be: \d+, but self identifies as \d+",
            "a page of its database identifies as another one",
        ),
        (
            r"tocommit\(\d+\) is out of range \[lastIndex\(\d+\)\]",
            "its log lacks entries that it has confirmed (tocommit is out of range)",
        ),
    )
)
"""What to look for, and how it is told: without numbers, so that the words stay the same."""


def of_damage(container: Mapping[str, Any], *, tried_again: bool = False) -> str:
    """What etcd said of its data, failing again and again; empty where it said nothing of it.

    Nor does it say anything while it runs: it may have been helped, and then serves.

    Args:
        container: the status of the etcd container.
        tried_again: it runs, and so far as it did each time before it failed.
    """
    state = container.get("state") or {}
    runs = "running" in state and not tried_again
    if runs or int(container.get("restartCount") or 0) < TIMES:
        return ""
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    return recognise(str(ended.get("message") or "")) if ended.get("exitCode") else ""


def recognise(message: str) -> str:
    """What a container's last message says of damage, in words."""
    return next((words for pattern, words in _DAMAGE if pattern.search(message)), "")


def cause(message: str) -> str:
    """Why a container ended, in the words of its last message and without their time.

    Of etcd's log, what it gave up with; of a crash, the panic rather than what follows it.
    """
    lines = [line for line in message.strip().splitlines() if line.strip()]
    entries = [entry for line in lines if (entry := _log_entry(line))]
    if given_up := [entry for entry in entries if entry.get("level") in ("fatal", "panic")]:
        return _of_entry(given_up[-1])
    if panics := [line for line in lines if line.startswith("panic: ")]:
        return panics[-1]
    if not lines:
        return ""
    last = _log_entry(lines[-1])
    return _of_entry(last) if last else lines[-1]


def _log_entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # anybody's image may write anything
        return None
    return entry if isinstance(entry, dict) and "msg" in entry else None


def _of_entry(entry: Mapping[str, Any]) -> str:
    error = entry.get("error")
    return f"{entry['msg']}: {error}" if error else str(entry["msg"])
