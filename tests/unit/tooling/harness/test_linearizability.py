"""The checker of the end-to-end tests' histories: what it accepts and rejects, and that it agrees
with the definition on thousands of small histories.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from harness.history import (
    Gap,
    Operation,
    acknowledged,
    back_in_time,
    longest_gap,
    longest_wait,
)
from harness.linearizability import violations
from hypothesis import given, settings
from hypothesis import strategies as st


def put(value: str, asked: float, answered: float | None, key: str = "k") -> Operation:
    return Operation("put", key, value, asked, answered)


def get(value: str | None, asked: float, answered: float, key: str = "k") -> Operation:
    return Operation("get", key, value, asked, answered)


ACCEPTED = {
    "nothing": [],
    "one after the other": [put("a", 1, 2), get("a", 3, 4), put("b", 5, 6), get("b", 7, 8)],
    "the beginning": [get(None, 1, 2), put("a", 3, 4), get("a", 5, 6)],
    "either of two at once": [put("a", 1, 5), put("b", 2, 4), get("a", 6, 7)],
    "the other of two at once": [put("a", 1, 5), put("b", 2, 4), get("b", 6, 7)],
    "a get beside its put": [put("a", 1, 5), get("a", 2, 3), get(None, 1, 2)],
    "old beside a put": [put("a", 1, 2), put("b", 3, 9), get("a", 4, 5), get("b", 6, 7)],
    "an unknown put that happened": [put("a", 1, None), get("a", 9, 10), get("a", 11, 12)],
    "an unknown put that happened late": [
        put("a", 1, None),
        put("b", 2, 3),
        get("b", 4, 5),
        get("a", 6, 7),
    ],
    "an unknown put that never happened": [put("a", 1, None), get(None, 9, 10)],
    "keys apart": [put("a", 1, 2), put("b", 3, 4, "other"), get("a", 5, 6), get(None, 1, 2, "x")],
}

REJECTED = {
    "a stale read": ([put("a", 1, 2), put("b", 3, 4), get("a", 5, 6)], "'b'"),
    "a lost write": ([put("a", 1, 2), get(None, 3, 4)], "'a'"),
    "a lost write, seen before": ([put("a", 1, None), get("a", 2, 3), get(None, 4, 5)], "'a'"),
    "back to the old": (
        [put("a", 1, 2), put("b", 3, 9), get("b", 4, 5), get("a", 6, 7)],
        "in the midst of",
    ),
    "two readers disagree on the order": (
        [put("a", 1, 9), put("b", 1, 9), get("a", 2, 3), get("b", 4, 5), get("a", 6, 7)],
        "in the midst of",
    ),
    "read before it was put": ([get("a", 1, 2), put("a", 3, 4)], "read at 2.000, put at 3.000"),
    "never put": ([put("a", 1, 2), get("x", 3, 4)], "nobody has put"),
    "an unknown put that happened twice": (
        [put("a", 1, None), get("a", 2, 3), put("b", 4, 5), get("b", 6, 7), get("a", 8, 9)],
        "'a'",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_one_register_could_have_answered_is_accepted(name: str):
    assert violations(ACCEPTED[name]) == []


@pytest.mark.parametrize("name", REJECTED)
def test_what_no_register_could_have_answered_is_rejected(name: str):
    history, words = REJECTED[name]

    found = violations(history)

    assert found
    assert all(one.startswith("k: ") for one in found)
    assert words in found[0]


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Up to six operations on one key. All times and all written values are different."""
    count = draw(st.integers(2, 6))
    moments = draw(st.permutations(range(2 * count)))
    kinds = draw(
        st.lists(st.sampled_from(["put", "unknown", "get"]), min_size=count, max_size=count)
    )
    values = [f"v{index}" for index, kind in enumerate(kinds) if kind != "get"]
    found = []
    for index, kind in enumerate(kinds):
        asked, answered = sorted(moments[2 * index : 2 * index + 2])
        if kind == "get":
            found.append(get(draw(st.sampled_from([None, *values])), asked, answered))
        else:
            found.append(put(f"v{index}", asked, None if kind == "unknown" else answered))
    return found


@given(histories())
@settings(max_examples=1500, deadline=None)
def test_it_agrees_with_the_definition(history: list[Operation]):
    assert (violations(history) == []) == by_definition(history)


def by_definition(history: list[Operation]) -> bool:
    """Whether some order, consistent with the times, explains the answers of a register."""
    unknown = [one for one in history if one.answered is None]
    certain = [one for one in history if one.answered is not None]
    chosen = [
        [one for index, one in enumerate(unknown) if picked >> index & 1]
        for picked in range(1 << len(unknown))
    ]
    return any(
        is_true_to_time(order) and is_a_registers(order)
        for some in chosen
        for order in permutations([*certain, *some])
    )


def is_true_to_time(order: tuple[Operation, ...]) -> bool:
    return not any(
        later.answered is not None and later.answered < one.asked
        for index, one in enumerate(order)
        for later in order[index + 1 :]
    )


def is_a_registers(order: tuple[Operation, ...]) -> bool:
    value = None
    for one in order:
        if one.kind == "put":
            value = one.value
        elif one.value != value:
            return False
    return True


def test_the_longest_gap_counts_the_ends_and_answers_alone():
    history = [put("a", 1, 2), put("b", 2.5, 3), put("c", 3, None), get("b", 4, 5), put("d", 4, 8)]

    assert longest_gap(history, began=1, ended=9) == Gap(5, 3)
    assert longest_gap(history, began=1, ended=20) == Gap(12, 8)
    assert longest_gap([], began=1, ended=4) == Gap(3, 1)


def test_the_longest_wait_counts_from_the_first_try_that_was_in_vain():
    history = [put("a", 1, 2), put("b", 4, None), put("c", 5, None), put("d", 6, 7)]

    assert longest_wait(history, began=1, ended=7) == Gap(3, 4)
    assert longest_wait([*history, put("e", 8, None)], began=1, ended=20) == Gap(12, 8)
    assert longest_wait([put("a", 3, None)], began=1, ended=9) == Gap(6, 3)


def test_one_client_that_hangs_is_noticed_while_the_others_are_served():
    """It was not noticed: an acknowledged put of any client ended the wait of all."""
    served = [replace(put(f"{at}", at, at + 0.1), client=1) for at in range(1, 60)]
    hangs = [replace(put(f"h{at}", at, None), client=2) for at in range(5, 40)]
    back = replace(put("back", 40, 41), client=2)

    assert longest_wait([*served, *hangs, back], began=1, ended=60) == Gap(36, 5)
    assert longest_wait([*served, *hangs], began=1, ended=60) == Gap(55, 5)


def test_nobody_waits_while_nobody_asks():
    stalled = [put("a", 1, 2), get("a", 3, 4), put("b", 50, 51), get("b", 60, 61)]

    assert longest_gap(stalled, began=1, ended=99) == Gap(49, 2)
    assert longest_wait(stalled, began=1, ended=99) == Gap(1, 1)
    assert longest_wait([], began=1, ended=99) == Gap(0, 1)


def test_what_had_no_answer_is_not_acknowledged():
    assert [one.value for one in acknowledged([put("a", 1, 2), put("b", 3, None)])] == ["a"]


def test_a_store_whose_revisions_start_over_is_noticed_across_keys():
    def counted(kind: str, key: str, asked: float, revision: int) -> Operation:
        return Operation(kind, key, key, asked, asked + 0.5, revision)

    before = [counted("put", "a", 1, 2), counted("put", "b", 2, 3), counted("get", "b", 3, 3)]

    assert back_in_time([*before, counted("put", "c", 4, 4), counted("get", "c", 5, 4)]) == []
    assert len(back_in_time([*before, counted("put", "c", 4, 3)])) == 1
    assert len(back_in_time([*before, counted("get", "a", 4, 2)])) == 1
    together = [replace(one, asked=1.0, answered=9.0) for one in reversed(before)]
    assert back_in_time(together) == []
