"""What is measured of the cluster when it is backed up, and of what a trial restore brings back.

Both at the revision that the backup is of: writes that came while the snapshot streamed are beyond
it. etcd's hash of that revision depends on how far it was compacted, so it is taken before and
after the snapshot, and two are compared only where that is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from etcd_stateful.untrusted import whole


@dataclass(frozen=True, slots=True)
class Hash:
    """etcd's hash of all keys at a revision (HashKV)."""

    compacted: int
    """The revision up to which it was compacted."""
    value: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What could be measured of a member at one revision."""

    keys: int | None = None
    hashes: tuple[Hash, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    wrong: tuple[str, ...] = ()
    """What differs, in words."""
    same: tuple[str, ...] = ()
    """What was compared."""
    unknown: tuple[str, ...] = ()
    """What could not be, and why."""


def compare(revision: int, cluster: Measured | None, now: int, restored: Measured) -> Verdict:
    """
    Args:
        revision: of the backup.
        cluster: as the manifest has it; None where it was not measured.
        now: the revision that what was restored is at.
    """
    wrong, same, unknown = [], [f"revision {now}"], []
    if now < revision:
        wrong.append(f"it is at revision {now}, and the backup is of {revision}")
    keys = cluster.keys if cluster else None
    if keys is None or restored.keys is None:
        unknown.append("keys could not be counted")
    elif keys != restored.keys:
        wrong.append(f"it has {restored.keys} keys at {revision}, and the cluster had {keys}")
    else:
        same.append(f"{keys} keys")
    had = {one.compacted: one.value for one in cluster.hashes} if cluster else {}
    found = {one.compacted: one.value for one in restored.hashes}
    if not (both := had.keys() & found.keys()):
        unknown.append("etcd's hash could not be compared")
    elif all(had[one] == found[one] for one in both):
        same.append("etcd's hash")
    else:
        wrong.append(f"etcd's hash at revision {revision} is not the cluster's")
    return Verdict(tuple(wrong), tuple(same), tuple(unknown))


def to_json(measured: Measured) -> dict[str, Any]:
    hashes = [{"compacted": one.compacted, "hash": one.value} for one in measured.hashes]
    return {"keys": measured.keys, "hashes": hashes}


def from_json(given: Mapping[str, Any]) -> Measured:
    """Raises KeyError, TypeError and ValueError."""
    keys = given["keys"]
    hashes = tuple(Hash(whole(one["compacted"]), whole(one["hash"])) for one in given["hashes"])
    return Measured(None if keys is None else whole(keys), hashes)
