"""The outcome of a Job's pod, in its termination message, which the kubelet keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from etcd_stateful.backup import foreign_files, packing
from etcd_stateful.backup.foreign_files import ForeignFiles
from etcd_stateful.untrusted import loads, whole
from etcd_stateful.versions import LONGEST_VERSION

FINAL_EXIT: Final = 3
"""Exit code of a failure that would repeat at every further try."""

_LONGEST: Final = 900
"""Characters. The kubelet keeps 4 KiB of a message, and a character may take four bytes."""

MOST_BYTES: Final = 4000

_MOST_UNPACKED: Final = 256 * 1024
"""Bytes of a spec, which others may have written: the operator does nothing else while it reads."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A backup is in the store under its final name."""

    location: str
    cluster_id: str
    revision: int
    version: str
    size: int
    sha256: str
    key: str
    """Its final key in the store."""
    verified: bool = False
    """It was read back from the store, and is what was sent."""
    notes: tuple[str, ...] = ()
    """Problems that did not prevent this backup."""
    others: ForeignFiles | None = None
    """Foreign files below the path of the schedule; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A backup was downloaded for its trial restore."""

    size: int


@dataclass(frozen=True, slots=True)
class Verified:
    """A trial restore of a backup has the data of the cluster."""

    version: str
    same: tuple[str, ...]
    """What was compared."""
    unknown: tuple[str, ...] = ()
    """What could not be compared, and why."""

    @property
    def words(self) -> str:
        said = f"restored with etcd {self.version} and compared: {', '.join(self.same)}"
        return "; ".join((said, *self.unknown))


@dataclass(frozen=True, slots=True)
class Removed:
    """The stored backups were deleted."""

    count: int


@dataclass(frozen=True, slots=True)
class Described:
    """The EtcdCluster that a backup was made of."""

    spec: Mapping[str, Any]
    version: str
    revision: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the Job failed."""

    reason: str
    message: str
    """Which field, what was found, what to do."""
    final: bool = False
    """Whether it would repeat at every further try."""
    left: str = ""
    """Location of a file that is in the store all the same, and was not proven."""


class Failed(Exception):
    """Ends a try, or a part of one; `failure` describes it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Progress:
    """How many bytes are stored. `size` is what etcd announced."""

    stored: int = 0
    size: int = 0
    bytes_per_second: int = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.size or self.stored)


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a pod reported: at most one of these; none if it ended without a message."""

    stored: Stored | None = None
    failure: Failure | None = None
    described: Described | None = None
    proven: Verified | None = None

    @property
    def left(self) -> str:
        """Location of what the pod has stored, whether or not that counts; empty if nothing."""
        if self.stored:
            return self.stored.location
        return self.failure.left if self.failure else ""


def serialise(outcome: Stored | Downloaded | Verified | Removed | Described | Failure) -> str:
    if isinstance(outcome, Described):
        return _serialise_described(outcome)
    if isinstance(outcome, Verified):
        content = asdict(outcome) | {"version": outcome.version[:LONGEST_VERSION]}
        return json.dumps({"proven": content}, ensure_ascii=False)
    if isinstance(outcome, Downloaded):
        return json.dumps({"brought": outcome.size})
    if isinstance(outcome, Removed):
        return json.dumps({"removed": outcome.count})
    if isinstance(outcome, Failure):
        return _serialise_failure(outcome, outcome.message[:_LONGEST])
    return _serialise_stored(outcome)


def _serialise_described(described: Described) -> str:
    """The spec is compressed if the message is too long. It may be too long even then, which the
    caller has to handle."""
    spec = dict(described.spec)
    told = {"version": described.version, "revision": described.revision}
    text = json.dumps({"described": told | {"spec": spec}}, ensure_ascii=False)
    if _fits(text):
        return text
    packed = packing.pack(json.dumps(spec, ensure_ascii=False))
    return json.dumps({"described": told | {"packed": packed}})


def _serialise_failure(failure: Failure, words: str) -> str:
    """Shortens the message until it fits: in JSON a character may take six bytes."""
    content = asdict(failure) | {"message": words}
    text = json.dumps({"failure": content}, ensure_ascii=False)
    if _fits(text):
        return text
    return _serialise_failure(failure, words[: len(words) * 3 // 4])


def _serialise_stored(stored: Stored) -> str:
    """Drops foreign files, and then notes, until the message fits."""
    content = asdict(replace(stored, others=None))
    content["location"] = stored.location.removesuffix(stored.key)
    content["version"] = stored.version[:LONGEST_VERSION]
    content["notes"] = [one[:200] for one in stored.notes[:2]]
    if stored.others is not None:
        content["others"] = foreign_files.to_json(stored.others)
    text = json.dumps({"stored": content}, ensure_ascii=False)
    if _fits(text):
        return text
    if stored.others and stored.others.newest:
        fewer = replace(stored.others, newest=stored.others.newest[:-1])
        return _serialise_stored(replace(stored, others=fewer))
    if stored.notes:
        return _serialise_stored(replace(stored, notes=tuple(content["notes"][:-1])))
    return text


def _fits(text: str) -> bool:
    return len(text.encode()) <= MOST_BYTES


def parse(text: str) -> JobReport:
    """What `serialise` wrote; an empty report for any other text."""
    try:
        content = loads(text)
        if "stored" in content:
            return JobReport(stored=_stored(content["stored"]))
        if "described" in content:
            return JobReport(described=_described(content["described"]))
        if "proven" in content:
            return JobReport(proven=_proven(content["proven"]))
        given = content["failure"]
        reason, words = str(given["reason"]), str(given["message"])
        left = str(given.get("left", ""))
        return JobReport(failure=Failure(reason, words, given["final"] is True, left))
    except (ValueError, KeyError, TypeError):
        return JobReport()


def _stored(given: Mapping[str, Any]) -> Stored:
    key, place = str(given["key"]), str(given["location"])
    return Stored(
        # Jobs of the previous version of the operator report the whole location.
        location=place + key if place.endswith("/") else place,
        cluster_id=str(given["cluster_id"]),
        revision=whole(given["revision"]),
        version=str(given["version"]),
        size=whole(given["size"]),
        sha256=str(given["sha256"]),
        key=key,
        verified=given["verified"] is True,
        notes=tuple(str(one) for one in given["notes"]),
        others=foreign_files.from_json(given["others"]) if given.get("others") else None,
    )


def _proven(given: Mapping[str, Any]) -> Verified:
    same, unknown = (tuple(str(one) for one in given[key]) for key in ("same", "unknown"))
    return Verified(str(given["version"]), same, unknown)


def _described(given: Mapping[str, Any]) -> Described:
    packed = "packed" in given
    spec = loads(packing.unpack(given["packed"], _MOST_UNPACKED)) if packed else given["spec"]
    if not isinstance(spec, Mapping):
        raise TypeError("the spec is not an object")
    return Described(dict(spec), str(given["version"]), whole(given["revision"]))


def serialise_progress(progress: Progress) -> str:
    return json.dumps(asdict(progress))


def parse_progress(text: str) -> Progress | None:
    try:
        given = loads(text)
        numbers = [whole(given[key]) for key in ("stored", "size", "bytes_per_second")]
    except (ValueError, KeyError, TypeError):
        return None
    return Progress(*numbers)
