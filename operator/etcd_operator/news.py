"""Which steps a user would want to read of in `kubectl describe`."""

from __future__ import annotations

from typing import Literal

from etcd_stateful.membership.bootstrap import is_latched
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import (
    ApplyChild,
    DeleteClaim,
    Hold,
    PushTicket,
    Settled,
    Step,
    WriteBootstrap,
)

News = tuple[Literal["Normal", "Warning"], str, str]
"""Kind, reason and message of an Event."""


def news_of(
    before: Step | None, step: Step, seen: Observation, *, created: bool = False
) -> News | None:
    """The event for a step.

    Args:
        before: the last pass's step. A pass that comes to the same as the last one is no news.
        created: the write made an object that was not there.
    """
    if before == step:
        return None
    match step:
        case Hold(reason="Paused"):
            return "Normal", "Paused", step.message
        case Hold():
            return "Warning", step.reason, step.message
        case Settled() if before is not None:
            return "Normal", "AsDeclared", f"{len(seen.pods)} members serve, as declared"
        case _:
            return _of_write(step, seen, created=created)


def _of_write(step: Step, seen: Observation, *, created: bool) -> News | None:
    match step:
        case ApplyChild():
            return _of_child(step, seen, created=created)
        case PushTicket():
            return "Normal", "TicketGiven", step.reason
        case WriteBootstrap() if step.record.latched and not is_latched(seen):
            return "Normal", "Formed", step.reason
        case DeleteClaim():
            return "Normal", "ClaimDeleted", step.reason
        case _:
            return None


def _of_child(step: ApplyChild, seen: Observation, *, created: bool) -> News:
    """A child that is made while the cluster forms is new; the client Service comes right after."""
    first = not is_latched(seen) or seen.client_service is None
    if created and first:
        return "Normal", "Created", f"created {step.kind} {step.name}"
    return "Normal", "PutBack", f"put back {step.kind} {step.name}: {step.reason}"
