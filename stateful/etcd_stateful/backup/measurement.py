"""Compares what a trial restore brings back with the cluster at the time of the backup.

Both are measured at the revision of the backup, so that writes that came while the snapshot
streamed do not matter. etcd's hash of a revision depends on how far the keyspace was compacted. So
it is taken before and after the snapshot, and two hashes are compared only if the compaction is the
same. The number of keys does not depend on it and is always compared: a backup whose keys nobody
has counted is not verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.untrusted import whole

NEVER: Final = -1
"""etcd's compact revision of a keyspace that was never compacted."""


@dataclass(frozen=True, slots=True)
class Hash:
    """etcd's hash of all keys at a revision (HashKV)."""

    compacted: int
    """The compact revision; NEVER before the first compaction."""
    value: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of a member at one revision."""

    keys: int | None = None
    hashes: tuple[Hash, ...] = ()

    @property
    def whole(self) -> bool:
        return self.keys is not None and bool(self.hashes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison."""

    wrong: tuple[str, ...] = ()
    """What differs, or must be compared and could not be; each continues the sentence `it was
    restored, and`."""
    same: tuple[str, ...] = ()
    """What was compared and is the same."""
    unknown: tuple[str, ...] = ()
    """What could not be compared, and why."""


def compare(revision: int, cluster: Measured | None, now: int, restored: Measured) -> Verdict:
    """Whether the restored data is the data of the cluster.

    Args:
        revision: of the backup.
        cluster: from the manifest; None if it was not measured.
        now: the revision of the restored etcd.
    """
    if now < revision:
        return Verdict(wrong=(f"it is at revision {now}, and the backup is of {revision}",))
    found = [Verdict(same=(f"revision {now}",))]
    if cluster is None or not cluster.whole:
        found.append(Verdict(wrong=("its manifest does not say what the cluster held",)))
    else:
        found += [_keys(revision, cluster, restored), _hashes(revision, cluster, restored)]
    return Verdict(
        wrong=tuple(words for one in found for words in one.wrong),
        same=tuple(words for one in found for words in one.same),
        unknown=tuple(words for one in found for words in one.unknown),
    )


def _keys(revision: int, cluster: Measured, restored: Measured) -> Verdict:
    if restored.keys is None:
        words = f"its keys cannot be counted: it is compacted beyond revision {revision}"
        return Verdict(wrong=(words,))
    if cluster.keys != restored.keys:
        words = f"it has {restored.keys} keys at {revision}, and the cluster had {cluster.keys}"
        return Verdict(wrong=(words,))
    return Verdict(same=(f"{restored.keys} keys",))


def _hashes(revision: int, cluster: Measured, restored: Measured) -> Verdict:
    had = {one.compacted: one.value for one in cluster.hashes}
    found = {one.compacted: one.value for one in restored.hashes}
    if not (both := had.keys() & found.keys()):
        why = "the cluster was compacted while it was backed up"
        return Verdict(unknown=(f"etcd's hash could not be compared: {why}",))
    if any(had[one] != found[one] for one in both):
        return Verdict(wrong=(f"etcd's hash at revision {revision} is not the cluster's",))
    return Verdict(same=("etcd's hash",))


def to_json(measured: Measured) -> dict[str, Any]:
    hashes = [{"compacted": one.compacted, "hash": one.value} for one in measured.hashes]
    return {"keys": measured.keys, "hashes": hashes}


def from_json(given: Mapping[str, Any]) -> Measured:
    """Raises KeyError, TypeError and ValueError."""
    keys = given["keys"]
    return Measured(None if keys is None else whole(keys), tuple(map(_hash, given["hashes"])))


def _hash(given: Mapping[str, Any]) -> Hash:
    return Hash(whole(given["compacted"], least=NEVER), whole(given["hash"]))
