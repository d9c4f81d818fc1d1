"""The history of clients' requests to etcd and its answers, and what follows from it.

A put without an answer stays in the history as such: it may take effect at any time, or never. So
no value is ever put twice: a client that tries again puts another value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True, slots=True)
class Operation:
    kind: Literal["put", "get"]
    key: str
    value: str | None
    """The value that was put or found; None if there was no key."""

    asked: float
    answered: float | None
    """None without an answer. Such a put may have taken effect; such gets are not kept."""

    revision: int = 0
    """The revision of the store in the header of the answer."""

    client: int = 0
    """The client, which has one request at a time."""


@dataclass(frozen=True, slots=True)
class Gap:
    seconds: float
    began: float


def acknowledged(history: Iterable[Operation]) -> list[Operation]:
    return [one for one in history if one.kind == "put" and one.answered is not None]


def longest_gap(history: Iterable[Operation], began: float, ended: float) -> Gap:
    """The longest time in which no put was acknowledged, as in the published figures."""
    moments = sorted(one.answered for one in history if one.kind == "put" and one.answered)
    pairs = pairwise([began, *moments, ended])
    return max(
        (Gap(after - before, before) for before, after in pairs), key=lambda gap: gap.seconds
    )


def longest_wait(history: Iterable[Operation], began: float, ended: float) -> Gap:
    """The longest time that any one client waited, from its first try to its next acknowledged put.

    Each client counts separately: it does not help a client that hangs if others are served. Time
    in which a client sends no request, as a busy machine does not schedule it, does not count.
    """
    puts: defaultdict[int, list[Operation]] = defaultdict(list)
    for one in history:
        if one.kind == "put":
            puts[one.client].append(one)
    waits = (wait for mine in puts.values() for wait in _waits(mine, ended))
    return max(waits, key=lambda gap: gap.seconds, default=Gap(0, began))


def _waits(puts: Iterable[Operation], ended: float) -> Iterator[Gap]:
    """The waits of one client."""
    first: float | None = None
    for one in sorted(puts, key=lambda one: one.asked):
        first = one.asked if first is None else first
        if one.answered is not None:
            yield Gap(one.answered - first, first)
            first = None
    if first is not None:
        yield Gap(ended - first, first)


def back_in_time(history: Iterable[Operation]) -> list[str]:
    """Answers whose revision is lower than one that was received before the request was sent.

    etcd's revision counts the puts of all keys, so this compares all of them with each other: a
    cluster that has lost any write gives out the same revisions again.
    """
    answers = sorted((one for one in history if one.answered and one.revision), key=_answered)
    wrong, newest, position = [], None, 0
    for one in sorted(answers, key=lambda one: one.asked):
        while _answered(answers[position]) < one.asked:
            found = answers[position]
            newest = found if newest is None else max(newest, found, key=lambda it: it.revision)
            position += 1
        if newest and one.revision < newest.revision + (one.kind == "put"):
            wrong.append(
                f"{one.kind} of {one.key} at {one.asked:.3f} has revision {one.revision}; "
                f"{newest.key} had {newest.revision} at {newest.answered:.3f}"
            )
    return wrong


def _answered(one: Operation) -> float:
    return one.answered or 0.0
