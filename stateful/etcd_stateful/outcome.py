"""What one pass over a cluster came to, and one thing that can be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from etcd_stateful.api.cluster import Refused
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

Truth = Literal["True", "False"]


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: Truth
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one pass came to: a refusal, or an observation with the step chosen from it.

    `failure` is what the API server said to the last write, if it refused it. `stored` is the
    status as it was: where etcd is silent, what it said before is not forgotten.
    """

    observation: Observation | None = None
    step: Step | None = None
    refused: Refused | None = None
    failure: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict)

    def was(self, kind: str) -> bool:
        """Whether this condition was true the last time, of the same spec."""
        seen = self.observation
        if seen is None or self.stored.get("observedGeneration") != seen.cluster.generation:
            return False
        before = self.stored.get("conditions") or ()
        return any(one.get("type") == kind and one.get("status") == "True" for one in before)

    @property
    def words(self) -> str:
        """What the operator is at, or why it is at nothing."""
        if self.failure:
            return f"to be tried again: {self.failure}"
        match self.step:
            case None | Settled():
                return ""
            case Wait(reason=words):
                return f"waiting for {words}"
            case Hold(message=words):
                return words
            case write:
                return write.reason
