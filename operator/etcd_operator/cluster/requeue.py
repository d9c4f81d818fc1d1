"""Decides when the next pass over a cluster follows, and remembers what that depends on.

This memory may be lost at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from etcd_operator.cluster.observe import ObservedCluster
from etcd_operator.credentials.provided import MENDED_SECONDS
from etcd_operator.kube.api import FIELD_MANAGER
from etcd_operator.rate_limit import RateLimit
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.rolling import rollback
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait, Write
from etcd_stateful.membership.tls import issued
from etcd_stateful.membership.tls.certificates import UNUSABLE
from etcd_stateful.membership.upkeep import authentication

FIRST_POLL: Final = 0.05
LAST_POLL: Final = 1.0
MANY_POLLS: Final = 60
"""After every so many polls the interval grows by LAST_POLL. Members that have not answered by then
may be away for days, and each call to them occupies a worker until its deadline."""

WAIT_SECONDS: Final = 5.0
"""The longest time between passes while a step waits. Most waits end with an event; this is for
those that end with time alone, such as a grace period."""

FOREIGN_SECONDS: Final = 5.0
"""How often to look whether another owner's object is gone. No watch covers those."""

DECLINED_SECONDS: Final = 0.25
"""Between retries of a change that etcd does not allow yet. The first retries come sooner, because
a learner catches up within milliseconds."""

DECLINED_TRIES: Final = 28
"""How many retries are at most DECLINED_SECONDS apart. Together they last longer than the five
seconds for which etcd requires its members to be connected."""


@dataclass(slots=True)
class Memory:
    """What is remembered of a cluster between passes. It affects the timing of passes and which
    messages are repeated, never which step is chosen."""

    uid: str
    step: Step | None = None
    shape: tuple[object, ...] = ()
    refusal: str = ""
    """Why the last step failed; empty if it did not."""

    polls: int = 0
    retries: int = 0
    """How many steps in a row were outdated, or had an unknown outcome."""

    declined: int = 0
    doubted: bool = False
    """The cluster was as declared, or held, but some answer was missing in the last pass, so the
    next pass repeats it before anything is reported."""

    still_until: float = float("-inf")
    """Passes do nothing until then, because the namespace is being deleted."""

    disputed_until: float = float("-inf")
    """Until then it is not reported that the cluster is as declared: others have undone the last
    write each time before."""

    rate_limit: RateLimit = field(default_factory=RateLimit)

    @property
    def quiet(self) -> bool:
        match self.step:
            case Settled():
                return not self.doubted
            case Hold(reason=reason, soon=soon):
                return not (self.doubted or soon or reason == rollback.FAILS)
            case _:
                return False

    def doubts(self, step: Wait | Hold | Settled) -> bool:
        """Whether to repeat the pass before the wait is reported. A busy operator misses an answer
        now and then, and the next pass finds that nothing has changed."""
        self.doubted = self.quiet and isinstance(step, Wait) and step.soon
        return self.doubted

    def next_poll(self) -> float:
        early = min(FIRST_POLL * 1.5 ** min(self.polls, 20), LAST_POLL)
        late = LAST_POLL * (self.polls // MANY_POLLS)
        self.polls += 1
        return min(max(early, late), WAIT_SECONDS)

    def next_retry(self) -> float:
        delay = min(FIRST_POLL * 1.5**self.retries, WAIT_SECONDS)
        self.retries = min(self.retries + 1, 20)
        return delay

    def next_try(self, step: Write) -> float:
        """Seconds until a change that etcd has declined is requested again. Each retry reads
        everything again, so retries become rarer."""
        self.declined = self.declined + 1 if self.step == step else 1
        early = min(FIRST_POLL * 2 ** min(self.declined - 1, 9), DECLINED_SECONDS)
        late = max(0, min(self.declined, 60) - DECLINED_TRIES)
        delay: float = min(early * 1.5**late, WAIT_SECONDS)
        return delay


def why_limited(memory: Memory, step: Write) -> str:
    """What the status says about a write that is delayed because it was repeated too often."""
    if memory.refusal and memory.step == step:
        return memory.refusal
    words = f"{step.reason}; this was done several times, but someone else undoes it each time: "
    who = "`kubectl get --show-managed-fields` shows who"
    return f"{words}{who}; if only {FIELD_MANAGER}, then a second operator serves this namespace"


def requeue_after(
    memory: Memory, seen: ObservedCluster, step: Wait | Hold | Settled
) -> float | None:
    """Seconds until the next pass, unless an event comes first. None: only an event starts it."""
    match step:
        case Hold(reason="Paused"):
            return None
        case Hold(reason=reason) if reason in (UNUSABLE, authentication.UNUSABLE):
            return MENDED_SECONDS
        case Hold(reason=issued.MISSING):
            return FOREIGN_SECONDS
        case Hold() if seen.observation.foreign:
            return FOREIGN_SECONDS
        case Wait() | Hold(reason=rollback.FAILS) | Hold(soon=True):
            late = memory.next_poll() if _is_soon(seen.observation, step) else WAIT_SECONDS
            # If the StatefulSet is due to be touched and another step came first, `next_touch` is 0
            # and does not shorten the delay.
            return min(late, max(seen.next_touch, FIRST_POLL)) if seen.next_touch else late
        case Settled() | Hold():
            return min(seen.next_sweep, _next_turn(seen.observation))


def _is_soon(seen: Observation, step: Wait | Hold) -> bool:
    without_quorum = isinstance(step, Hold) and seen.etcd is None
    return step.soon or without_quorum or _must_poll(seen)


def _next_turn(seen: Observation) -> float:
    """Seconds until the next certificate stops being good. No event announces that."""
    if seen.certificates is None:
        return inf
    found = (one for secret in seen.certificates.secrets.values() for one in secret.values())
    changes_at = min((one.changes_at for one in found), default=inf)
    return max(changes_at - seen.certificates.now, FIRST_POLL)


def _must_poll(seen: Observation) -> bool:
    """Whether the wait may end without an event: when `start` answers, or etcd for the first
    time."""
    forming = not is_latched(seen)
    return any(
        not pod.deleting and (pod.in_start or (forming and pod.etcd_started)) for pod in seen.pods
    )
