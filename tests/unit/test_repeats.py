"""What was said a moment ago, by a clock."""

from __future__ import annotations

from etcd_operator.repeats import Repeats

SECONDS = 600.0


def test_what_was_said_is_new_again_after_a_while() -> None:
    now = [1000.0]
    repeats = Repeats(SECONDS, lambda: now[0])
    told = []
    for _ in range(4):
        told.append((repeats.is_new("a"), repeats.is_new(("b", 1))))
        now[0] += SECONDS / 2

    assert told == [(True, True), (False, False), (True, True), (False, False)]


def test_what_was_said_long_ago_is_forgotten() -> None:
    now = [1000.0]
    repeats = Repeats(SECONDS, lambda: now[0])
    for number in range(50):
        repeats.is_new(number)
        now[0] += 60

    assert len(repeats._said) <= SECONDS / 60 + 1
