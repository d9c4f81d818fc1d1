"""What became of a step that was to be carried out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The write happened. `created` tells an object that was not there before."""

    words: str
    created: bool = False


@dataclass(frozen=True, slots=True)
class Outdated:
    """The world is not as the step assumed; the store knows better now. Look again at once."""

    why: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Whether it happened is unknown. Look again soon."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """etcd does not allow it for now, in its own words. Nothing has changed: a wait, no failure."""

    why: str


@dataclass(frozen=True, slots=True)
class TicketRefused:
    """`start` refused a genuine ticket, and would refuse it again."""

    why: str


StepResult = Done | Outdated | Uncertain | Declined | TicketRefused
