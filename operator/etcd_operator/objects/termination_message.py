"""Reads termination messages of containers, and finds those in which etcd says that its data is
damaged.

It recognizes only messages in which etcd 3.5 to 3.7 report a problem *in* their files: a log with
wrong checksums, a file that is not a database, missing entries that the member has confirmed. A
full disk, a failing read or missing permissions lead to other messages, and have other remedies.
`tests/integration/etcd` damages real data in every way named here and reads etcd's messages.

If the beginning of the log is damaged, `start` reports it, as it reads the log before etcd does. If
a database was cut short, etcd may only be killed by SIGBUS, as it is when a disk fails. That proves
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful.untrusted import loads

TIMES: Final = 2
"""How often etcd must have been restarted. A single restart may be chance."""

_DAMAGE: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"wal(pb)?: crc mismatch", "wal: crc mismatch"),
        # In 3.7 a non-breaking space follows the colon.
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
"""Patterns of damage, and how each is reported: without numbers, so that the text stays the
same."""


def of_damage(container: Mapping[str, Any], *, tried_again: bool = False) -> str:
    """The damage that etcd has reported while it failed again and again; empty if there is none.

    It is also empty while etcd runs, because the problem may have been solved.

    Args:
        container: the status of the etcd container.
        tried_again: etcd runs, but so far only as it did each time before it failed.
    """
    state = container.get("state") or {}
    runs = "running" in state and not tried_again
    if runs or int(container.get("restartCount") or 0) < TIMES:
        return ""
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    return recognise(str(ended.get("message") or "")) if ended.get("exitCode") else ""


def recognise(message: str) -> str:
    """The damage that a termination message reports, in words; empty if it reports none."""
    return next((words for pattern, words in _DAMAGE if pattern.search(message)), "")


def cause(message: str) -> str:
    """Why a container ended: the most telling line of its termination message, without its time.

    In etcd's log this is the last entry of level fatal or panic; after a crash it is the panic, not
    the lines that follow it.
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
        entry = loads(line)
    except ValueError:  # a user's image may write anything
        return None
    return entry if isinstance(entry, dict) and "msg" in entry else None


def _of_entry(entry: Mapping[str, Any]) -> str:
    error = entry.get("error")
    return f"{entry['msg']}: {error}" if error else str(entry["msg"])
