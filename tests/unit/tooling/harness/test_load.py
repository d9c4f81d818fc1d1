"""The end-to-end tests' load: what fails a test, and what a busy machine may cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from harness.history import Operation
from harness.load import ELECTS_SECONDS, Load

if TYPE_CHECKING:
    from harness.clusters import Cluster

NOBODY = cast("Cluster", None)


def asked(at: float, *, answered: float | None) -> Operation:
    return Operation("put", "key", f"{at}", at, answered)


def load_of(*puts: Operation) -> Load:
    return Load(NOBODY, history=list(puts), began=0.5, ended=100.0)


def test_clients_that_got_no_answer_for_long_fail_the_test():
    late = 1 + ELECTS_SECONDS + 1
    load = load_of(asked(1, answered=1), asked(1.5, answered=None), asked(2.5, answered=late + 2))
    with pytest.raises(AssertionError, match="of one client was acknowledged for"):
        load.was_served()


def test_an_election_on_a_busy_machine_does_not():
    load_of(asked(1, answered=1), asked(2, answered=None), asked(3, answered=9.2)).was_served()


def test_operations_before_the_given_time_do_not_count():
    load = load_of(asked(1, answered=1), asked(2, answered=40), asked(50, answered=50.1))
    load.was_served(since=45)
    with pytest.raises(AssertionError):
        load.was_served()


def test_a_writer_that_still_waits_fails_the_test_though_others_are_served():
    """Its request is in the history only once it has ended, which may never happen."""
    load = load_of(*(asked(at, answered=at + 0.1) for at in range(1, 100)))
    load.was_served()
    load._asking[2] = 60.0
    with pytest.raises(AssertionError, match=r"for 40.0 s while it asked, 59.5 s after"):
        load.was_served()
