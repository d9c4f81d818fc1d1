"""The result of carrying out a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The write succeeded. `created` is true if it created an object."""

    words: str
    created: bool = False


@dataclass(frozen=True, slots=True)
class Outdated:
    """Something has changed since the step was chosen, and the store is up to date now. The next
    pass should follow at once."""

    why: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It is unknown whether the write succeeded. The next pass should follow soon."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """etcd refuses the change for now; `why` is etcd's message. Nothing has changed, so this is a
    wait and not a failure."""

    why: str


@dataclass(frozen=True, slots=True)
class TicketRefused:
    """`start` refused a genuine ticket, and would refuse the same one again."""

    why: str


StepResult = Done | Outdated | Uncertain | Declined | TicketRefused
