"""What one pass over a cluster came to, and one thing that can be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from etcd_stateful.api.cluster import RefusedCluster
from etcd_stateful.membership import children
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

Truth = Literal["True", "False", "Unknown"]

_TRUTHS: Final[Mapping[str, Truth]] = {"True": "True", "False": "False", "Unknown": "Unknown"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its times, which `condition_times.dated` adds."""

    type: str
    status: Truth
    reason: str
    message: str
    generation: int | None = None
    """Of the spec that it speaks of, where that is an earlier one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one pass came to: an observation with the step chosen from it, or a refusal of the spec
    with what is seen of the cluster all the same.

    `failure` is what the API server said to the last write, if it refused it. `stored` is the
    status as it was: where etcd is silent, what it said before is not forgotten.
    """

    observation: Observation | None = None
    step: Step | None = None
    refused: RefusedCluster | None = None
    failure: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_formed(self) -> bool:
        """By the record; where there is none, by what was said before: nothing says otherwise."""
        seen = self.observation
        if seen and seen.bootstrap:
            return seen.bootstrap.latched
        return self.stored.get("phase") == "Running"

    def was(self, kind: str) -> bool:
        """Whether this condition was true the last time, of the same spec.

        To pause is an edit too, and so is to go on; but nothing is done in between, so what was
        half-way still is.
        """
        seen = self.observation
        if seen is None:
            return False
        paused = seen.cluster.paused or self.stored.get("controlPaused") is True
        same = self.stored.get("observedGeneration") == seen.cluster.generation
        return (same or paused) and self._before(kind).get("status") == "True"

    def kept(self, kind: str) -> Condition | None:
        """This condition as it was said the last time, of the spec of then."""
        before = self._before(kind)
        status: Truth | None = _TRUTHS.get(str(before.get("status")))
        if status is None:
            return None
        reason, message = str(before.get("reason", "")), str(before.get("message", ""))
        return Condition(kind, status, reason, message, before.get("observedGeneration"))

    def _before(self, kind: str) -> Mapping[str, Any]:
        conditions = self.stored.get("conditions") or ()
        return next((one for one in conditions if one.get("type") == kind), {})

    @property
    def put_off(self) -> str:
        """What is tried again later while all else goes on; empty for nothing."""
        seen = self.observation
        return children.in_words(seen) if seen and not self.refused else ""

    @property
    def words(self) -> str:
        """What the operator is at, or why it is at nothing."""
        if self.failure:
            return f"to be tried again: {self.failure}"
        match self.step:
            case None | Settled():
                return f"to be tried again: {self.put_off}" if self.put_off else ""
            case Wait(reason=words):
                return f"waiting for {words}"
            case Hold(message=words):
                return words
            case write:
                return write.reason
