"""Checks whether a history of reads and writes is linearizable, key by key.

There is no maintained checker as a Python package, and none is needed: no value is put twice, so
every get names the put that it saw, and no search is necessary. Gibbons and Korach ("Testing Shared
Memories", 1997): take each put with the gets that saw its value. Its *zone* goes from the first of
their answers to the last of their requests. If the answer comes first, the value was certainly
there during the whole (forward) zone; else they all overlap, and it was there at some moment in the
(backward) zone. A history is linearizable exactly if no get was answered before its put was sent,
no two forward zones overlap, and no backward zone lies within a forward one.

A put without an answer counts if a get saw its value: it took effect before the first of those gets
was answered. If no get did, it can be left out.
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
    """The contradictions in a history, by key; empty if it is linearizable."""
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
    """Gets of a value that was never put, or only later. Every key begins as None."""
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
