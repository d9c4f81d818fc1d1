"""What is measured of the cluster when it is backed up, and of what a trial restore brings back.

Both at the revision that the backup is of: writes that came while the snapshot streamed are beyond
it. etcd's hash of that revision depends on how far it was compacted, so it is taken before and
after the snapshot, and two are compared only where that is the same. The number of keys does not,
and is always compared: what nobody has counted is not verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.untrusted import whole

NEVER: Final = -1
"""What etcd says of a keyspace that was never compacted."""


@dataclass(frozen=True, slots=True)
class Hash:
    """etcd's hash of all keys at a revision (HashKV)."""

    compacted: int
    """The revision up to which it was compacted; NEVER before the first time."""
    value: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What could be measured of a member at one revision."""

    keys: int | None = None
    hashes: tuple[Hash, ...] = ()

    @property
    def whole(self) -> bool:
        return self.keys is not None and bool(self.hashes)


@dataclass(frozen=True, slots=True)
class Verdict:
    wrong: tuple[str, ...] = ()
    """What differs, or had to be compared and could not be, in words that go on after `it was
    restored, and`."""
    same: tuple[str, ...] = ()
    """What was compared."""
    unknown: tuple[str, ...] = ()
    """What could not be, and why."""


def compare(revision: int, cluster: Measured | None, now: int, restored: Measured) -> Verdict:
    """Whether what was restored is what the cluster held.

    Args:
        revision: of the backup.
        cluster: as the manifest has it; None where it was not measured.
        now: the revision that what was restored is at.
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
