"""One trace on two sides: the model's world and the real thing, compared call by call.

The model's side of it is told first. Then the real one is made to live through the same, and after
each line has to answer alike and to come to look alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol

Line = tuple[str, str]
"""What is done, and what is said to it: empty for done, else why it was refused."""

NO_ANSWER = "no answer"
UNSURE = "done, and whether that is said is chance"
"""As with a leader that removes itself."""

Looks = dict[str, Any]

PATIENCE = 180.0
"""Seconds for the real side to come to look like the model's; beside all other tests a trace as a
whole took 63."""

STAYS = 0.6
"""And then it stays so."""

BETWEEN = 0.2
"""Looks, each of which asks every member, or the API server for all that there is."""

AT_ONCE = 4
"""Most of a trace is waiting, but for the starts of its pods."""


class Side(Protocol):
    """A world that can be acted on and looked at."""

    def do(self, action: str) -> str:
        """Why it was refused, in the words of who refused; empty when it was done."""

    def look(self) -> Looks:
        """What anyone could see of it, once nothing moves."""


class Real(Side, Protocol):
    def follow(self, modelled: Looks) -> None:
        """Makes what is left to chance come out as in the model: who leads. Comes before each
        look."""

    def is_late(self) -> bool:
        """Whether what is refused for a few seconds alone was asked for after them."""


class TooLate(Exception):
    """The machine was too slow to ask while the answer was still the one to be shown."""


@dataclass(frozen=True)
class Moment:
    where: str
    action: str
    said: str
    expected: str
    looks: Looks

    @property
    def is_refused(self) -> bool:
        return self.expected not in ("", UNSURE)


def told(modelled: Side, trace: Sequence[Line]) -> list[Moment]:
    """What the model says of each line; the first is the beginning."""
    moments = [Moment("the beginning", "", "", "", modelled.look())]
    for number, (action, expected) in enumerate(trace, 1):
        said = modelled.do(action)
        where = f"line {number}, {action!r}"
        moments.append(Moment(where, action, said, expected, modelled.look()))
    return moments


def compare(moments: Sequence[Moment], real: Real) -> None:
    """Raises TooLate where it shows nothing, AssertionError where the two differ.

    What is refused changes nothing, so of refusals in a row the last is looked at: the next may
    be true for a few seconds only.
    """
    for moment, following in zip_longest(moments, moments[1:]):
        said = real.do(moment.action) if moment.action else ""
        words = f"{moment.where}: the model says {moment.said!r}, in reality it is {said!r}"
        if moment.expected == UNSURE:
            assert (moment.said, said) in {("", ""), ("", NO_ANSWER)}, words
        else:
            expected = f"{words}, expected was {moment.expected!r}"
            if moment.expected and not said and real.is_late():
                raise TooLate(expected)
            assert said == moment.said == moment.expected, expected
        if not (moment.is_refused and following is not None and following.is_refused):
            _comes_to_look_alike(moment, real)


def _comes_to_look_alike(moment: Moment, real: Real) -> None:
    """Controllers, kubelets and etcd take their time."""
    deadline, since = time.monotonic() + PATIENCE, 0.0
    while True:
        real.follow(moment.looks)
        found, now = real.look(), time.monotonic()
        if found != moment.looks:
            since = 0.0
            words = f"after {moment.where} the model says {moment.looks}, in reality it is {found}"
            assert now < deadline, words
        elif not since:
            since = now
        elif now - since >= STAYS:
            return
        time.sleep(BETWEEN)


class Together:
    """Several traces at once; each tells its own test how it ended."""

    def __init__(self, live: Callable[[str], None], names: Iterable[str]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._ends: dict[str, Future[None]] = {
            name: self._pool.submit(live, name) for name in names
        }

    def end_of(self, name: str) -> None:
        """Raises what it raised."""
        self._ends[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
