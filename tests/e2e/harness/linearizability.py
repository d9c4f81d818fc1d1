"""Whether clients could tell the cluster from a single register per key that answers at once.

No well-kept checker is to be had as a Python package, and none is needed: no value is put twice, so
every get names the put that it saw, and then no search is needed either. Gibbons and Korach
("Testing Shared Memories", 1997): take each put with the gets that saw it. The value was certainly
there from the first of their answers to the last of their questions (its *zone*; turned round, if
they all overlap: then it was there at some moment in between). A history is linearizable exactly
if no get was answered before its put was asked, no two zones of the first sort overlap, and none of
the second sort lies within one of the first.

A put without an answer counts if somebody saw its value, and then it had happened when the first of
them was answered. If nobody did, leaving it out changes nothing for anyone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from harness.history import Operation

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Zone:
    value: str | None
    first_answer: float
    last_question: float

    @property
    def forward(self) -> bool:
        return self.first_answer < self.last_question

    def __str__(self) -> str:
        return f"{self.value!r} from {self.first_answer:.3f} to {self.last_question:.3f}"


def violations(history: Iterable[Operation]) -> list[str]:
    """Empty for a linearizable history; otherwise what contradicts what, key by key."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        by_key[operation.key].append(operation)
    return [
        f"{key}: {words}" for key, operations in by_key.items() for words in _of_key(operations)
    ]


def _of_key(operations: list[Operation]) -> list[str]:
    puts = {one.value: one for one in operations if one.kind == "put"}
    gets: dict[str | None, list[Operation]] = defaultdict(list)
    for one in operations:
        if one.kind == "get" and one.answered is not None:
            gets[one.value].append(one)
    wrong = [
        words for value, seen in gets.items() for words in _without_cause(puts.get(value), seen)
    ]
    zones = [_zone(value, puts.get(value), gets[value]) for value in {*puts, *gets, None}]
    return wrong or _overlaps([zone for zone in zones if zone is not None])


def _without_cause(put: Operation | None, seen: list[Operation]) -> list[str]:
    """Gets of a value that nobody put, or not yet. Every key begins as None."""
    value = seen[0].value
    if value is None:
        return []
    if put is None:
        return [f"{value!r} was read, which nobody has put"]
    early = [one for one in seen if one.answered is not None and one.answered < put.asked]
    return [f"{value!r} was read at {one.answered:.3f}, put at {put.asked:.3f}" for one in early]


def _zone(value: str | None, put: Operation | None, gets: list[Operation]) -> Zone | None:
    if put is not None and put.answered is None and not gets:
        return None
    answers = [one.answered for one in gets if one.answered is not None]
    questions = [one.asked for one in gets]
    if put is not None:
        questions.append(put.asked)
        answers += [] if put.answered is None else [put.answered]
    if value is None:
        questions, answers = [*questions, NEVER], [NEVER]
    return Zone(value, min(answers), max(questions))


def _overlaps(zones: list[Zone]) -> list[str]:
    forward = sorted((one for one in zones if one.forward), key=lambda one: one.first_answer)
    wrong = [
        f"{one} and {other} at the same time"
        for one, other in pairwise(forward)
        if other.first_answer < one.last_question
    ]
    if wrong:
        return wrong
    starts = [one.first_answer for one in forward]
    for other in (one for one in zones if not one.forward):
        before = bisect_left(starts, other.last_question)
        if before and other.first_answer < forward[before - 1].last_question:
            wrong.append(f"{other} in the midst of {forward[before - 1]}")
    return wrong
