"""When to look at a cluster again, and what one pass leaves to the next to decide that.

Any of it may be lost at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from etcd_operator.cluster.observe import Seen
from etcd_operator.cluster.rate_limit import RateLimit
from etcd_operator.credentials.provided import MENDED_SECONDS
from etcd_stateful.membership import authentication, going_back, issued
from etcd_stateful.membership.certificates import UNUSABLE
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait, Write

FIRST_POLL: Final = 0.05
LAST_POLL: Final = 1.0
MANY_POLLS: Final = 60
"""At that pace: members that have been silent for so long may be silent for days, and each question
to them keeps a worker from other clusters until its deadline."""

WAIT_SECONDS: Final = 5.0
"""Waits end with an event. This is for what only time changes: a grace that is over."""

FOREIGN_SECONDS: Final = 5.0
"""No watch tells when an object that is not ours goes away."""

DECLINED_SECONDS: Final = 0.25
"""Between two tries of what etcd does not allow yet; the first come sooner, as a learner is in sync
within milliseconds."""

DECLINED_TRIES: Final = 28
"""At that pace: longer than the five seconds for which etcd wants its members connected."""

LAST_FAILURE: Final = 60.0


@dataclass(slots=True)
class Memory:
    """What a cluster's passes remember from one to the next, for pacing alone."""

    uid: str
    step: Step | None = None
    shape: tuple[object, ...] = ()
    refusal: str = ""
    """Why the last step could not be done; empty if it could."""

    polls: int = 0
    retries: int = 0
    """How often in a row a step came too late, or its outcome stayed unknown."""

    declined: int = 0
    failures: int = 0
    unanswered: int = 0
    """How many passes in a row ended as a call to the API server came to nothing."""

    traceback: str = ""
    doubted: bool = False
    """The last look at a cluster that was as declared missed an answer, and is made again."""

    still_until: float = float("-inf")
    """Until then nothing is looked at: its namespace ends."""

    rate_limit: RateLimit = field(default_factory=RateLimit)

    @property
    def quiet(self) -> bool:
        waits = isinstance(self.step, Hold) and self.step.reason == going_back.FAILS
        return isinstance(self.step, Settled | Hold) and not (waits or self.doubted)

    def doubts(self, step: Wait | Hold | Settled) -> bool:
        """Whether to look once more before anybody is told: a busy operator misses an answer now
        and then, and the next look finds all as it was."""
        self.doubted = (
            isinstance(self.step, Settled)
            and isinstance(step, Wait)
            and step.soon
            and not self.doubted
        )
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
        """Until a change that etcd has declined is asked for again; each time costs fresh reads."""
        self.declined = self.declined + 1 if self.step == step else 1
        early = min(FIRST_POLL * 2 ** min(self.declined - 1, 9), DECLINED_SECONDS)
        late = max(0, min(self.declined, 60) - DECLINED_TRIES)
        delay: float = min(early * 1.5**late, WAIT_SECONDS)
        return delay

    def next_failure(self) -> float:
        delay: float = min(0.5 * 2**self.failures, LAST_FAILURE)
        self.failures = min(self.failures + 1, 20)
        return delay


def why_limited(memory: Memory, step: Write) -> str:
    """Why a write has to wait that was repeated too often, for the status."""
    if memory.refusal and memory.step == step:
        return memory.refusal
    words = f"{step.reason}; done several times, and each time someone else undoes it: "
    return f"{words}`kubectl get --show-managed-fields` tells who"


def requeue_after(memory: Memory, seen: Seen, step: Wait | Hold | Settled) -> float | None:
    """Seconds until the next pass if nothing happens before; None: only an event brings it."""
    match step:
        case Hold(reason="Paused"):
            return None
        case Hold(reason=reason) if reason in (UNUSABLE, authentication.UNUSABLE):
            return MENDED_SECONDS
        case Hold(reason=issued.MISSING):
            return FOREIGN_SECONDS
        case Hold() if seen.observation.foreign:
            return FOREIGN_SECONDS
        case Wait() | Hold(reason=going_back.FAILS):
            late = memory.next_poll() if _is_soon(seen.observation, step) else WAIT_SECONDS
            # A touch that is due was not the next step: what is comes first, however long it takes.
            return min(late, max(seen.next_touch, FIRST_POLL)) if seen.next_touch else late
        case Settled() | Hold():
            return min(seen.next_sweep, _next_turn(seen.observation))


def _is_soon(seen: Observation, step: Wait | Hold) -> bool:
    expected = step.soon if isinstance(step, Wait) else seen.etcd is None
    return expected or _must_poll(seen)


def _next_turn(seen: Observation) -> float:
    """Seconds until a certificate expires that is good now: nothing happens then to tell of it."""
    if seen.certificates is None:
        return inf
    found = (one for secret in seen.certificates.secrets.values() for one in secret.values())
    turns = min((one.turns for one in found), default=inf)
    return max(turns - seen.certificates.now, FIRST_POLL)


def _must_poll(seen: Observation) -> bool:
    """Whether the wait may end without an event: an answer of `start`, or etcd's first one."""
    forming = not is_latched(seen)
    return any(
        not pod.deleting and (pod.in_start or (forming and pod.etcd_started)) for pod in seen.pods
    )
