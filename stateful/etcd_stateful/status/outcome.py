"""The outcome of one pass over a cluster, and the type of a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from etcd_stateful import stored_conditions
from etcd_stateful.api.cluster import RefusedCluster
from etcd_stateful.membership import put_off
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

LONGEST_MESSAGE: Final = 1024
"""Characters of a message in the status."""

Truth = Literal["True", "False", "Unknown"]

_TRUTHS: Final[Mapping[str, Truth]] = {truth: truth for truth in get_args(Truth)}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its timestamps, which `stored_conditions.with_times` adds."""

    type: str
    status: Truth
    reason: str
    message: str
    generation: int | None = None
    """The generation of the spec that it is about, if that is an earlier one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one pass: an observation and the chosen step, or a refused spec, with an
    observation if there is one.

    `failure` is the API server's message if it refused the last write. `stored` is the previous
    status: while etcd is silent, its values are kept.
    """

    observation: Observation | None = None
    step: Step | None = None
    refused: RefusedCluster | None = None
    failure: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_formed(self) -> bool:
        """Whether the cluster has formed: from the record, or without one from the last status,
        unless that is of the coreos operator, which ran other members and wrote no generation."""
        seen = self.observation
        if seen and seen.bootstrap:
            return seen.bootstrap.latched
        return self.stored.get("phase") == "Running" and "observedGeneration" in self.stored

    def was(self, kind: str) -> bool:
        """Whether this condition was true the last time, for the same spec.

        Pausing and resuming also edit the spec, but nothing happens in between, so a change that
        was halfway still is.
        """
        seen = self.observation
        if seen is None:
            return False
        paused = seen.cluster.paused or self.stored.get("controlPaused") is True
        same = self.stored.get("observedGeneration") == seen.cluster.generation
        return (same or paused) and stored_conditions.is_true(self.stored, kind)

    def kept(self, kind: str) -> Condition | None:
        """This condition as it was last reported, with the generation of that time."""
        before = stored_conditions.find(self.stored, kind)
        status: Truth | None = _TRUTHS.get(str(before.get("status")))
        if status is None:
            return None
        reason, message = str(before.get("reason", "")), str(before.get("message", ""))
        return Condition(kind, status, reason, message, before.get("observedGeneration"))

    @property
    def put_off(self) -> str:
        """The writes that are retried later while everything else goes on; empty if there are
        none."""
        seen = self.observation
        return put_off.in_words(seen) if seen and not self.refused else ""

    @property
    def words(self) -> str:
        """What the operator is doing, or why it does nothing."""
        if self.failure:
            return f"to be retried: {self.failure}"
        match self.step:
            case None | Settled():
                return f"to be retried: {self.put_off}" if self.put_off else ""
            case Wait(reason=words):
                return f"waiting for {words}"
            case Hold(message=words):
                return words
            case write:
                return write.reason
