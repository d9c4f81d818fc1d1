"""What clients asked of etcd and were told, and what follows from it.

A put whose answer never came is kept as what it is: it may have happened, now, later or never. So
no value is ever put twice, and a client that tries again puts another one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
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
    """The same, but from the first put that was asked for after the last acknowledged one.

    While nobody asks, as when a busy machine does not run the clients, nobody misses the cluster.
    """
    puts = [one for one in history if one.kind == "put"]
    asked = [*sorted(one.asked for one in puts), inf]
    moments = sorted(one.answered for one in puts if one.answered)
    pairs = pairwise([began, *moments, ended])
    since = ((asked[bisect_left(asked, before)], after) for before, after in pairs)
    waits = (Gap(after - first, first) for first, after in since if first < after)
    return max(waits, key=lambda gap: gap.seconds, default=Gap(0, began))


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
