"""What clients asked of etcd and were told, and what follows from it.

A put whose answer never came is kept as what it is: it may have happened, now, later or never. So
no value is ever put twice, and a client that tries again puts another one.
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
    """What was put, or found: None where there was nothing."""

    asked: float
    answered: float | None
    """None: no answer. Such a put may have happened; such a get tells nothing and is not kept."""

    revision: int = 0
    """Of the whole store, in the answer's header."""

    client: int = 0
    """Who asked. Each asks one thing at a time."""


@dataclass(frozen=True, slots=True)
class Gap:
    seconds: float
    began: float


def acknowledged(history: Iterable[Operation]) -> list[Operation]:
    return [one for one in history if one.kind == "put" and one.answered is not None]


def longest_gap(history: Iterable[Operation], began: float, ended: float) -> Gap:
    """The longest time in which no put was acknowledged, as the published figures have it."""
    moments = sorted(one.answered for one in history if one.kind == "put" and one.answered)
    pairs = pairwise([began, *moments, ended])
    return max(
        (Gap(after - before, before) for before, after in pairs), key=lambda gap: gap.seconds
    )


def longest_wait(history: Iterable[Operation], began: float, ended: float) -> Gap:
    """The longest that any one client waited: from its first try to its next acknowledged put.

    Of each by itself: that others are served is no help to one that hangs. While it does not ask,
    as when a busy machine does not run it, it does not miss the cluster.
    """
    puts: defaultdict[int, list[Operation]] = defaultdict(list)
    for one in history:
        if one.kind == "put":
            puts[one.client].append(one)
    waits = (wait for mine in puts.values() for wait in _waits(mine, ended))
    return max(waits, key=lambda gap: gap.seconds, default=Gap(0, began))


def _waits(puts: Iterable[Operation], ended: float) -> Iterator[Gap]:
    """Of one client."""
    first: float | None = None
    for one in sorted(puts, key=lambda one: one.asked):
        first = one.asked if first is None else first
        if one.answered is not None:
            yield Gap(one.answered - first, first)
            first = None
    if first is not None:
        yield Gap(ended - first, first)


def back_in_time(history: Iterable[Operation]) -> list[str]:
    """Answers whose revision contradicts one that came before they were asked for.

    etcd counts every put of the whole store, so this compares all keys with each other: a cluster
    that has forgotten anything at all counts the same numbers once more.
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
