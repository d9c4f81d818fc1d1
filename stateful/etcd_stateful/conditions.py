"""The conditions of an EtcdCluster, each computed by one pure function.

True, False and why, in words. `Available` speaks of clients and is read off pods: a pod is Ready
only while its etcd answers a linearizable read, so one Ready pod proves a quorum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etcd_stateful.api.cluster import Refused
from etcd_stateful.membership.bootstrap import is_latched, replicas
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

    `failure` is what the API server said to the last write, if it refused it.
    """

    observation: Observation | None = None
    step: Step | None = None
    refused: Refused | None = None
    failure: str = ""


def accepted(outcome: Outcome) -> Condition:
    if outcome.refused:
        return Condition("Accepted", "False", outcome.refused.reason, str(outcome.refused))
    seen = outcome.observation
    notes = "; ".join(str(note) for note in seen.cluster.ignored) if seen else ""
    return Condition("Accepted", "True", "SpecAccepted", notes or "every field is understood")


def available(outcome: Outcome) -> Condition:
    """Whether a client that connects now is served."""
    seen = outcome.observation
    if seen is None:
        refused = outcome.refused is not None
        reason = "NotAccepted" if refused else "NotObserved"
        words = "the spec is not accepted" if refused else "it could not be looked at"
        return Condition("Available", "False", reason, words)
    ready = sum(pod.ready and not pod.deleting for pod in seen.pods)
    if not is_latched(seen):
        return Condition("Available", "False", "Forming", "the cluster has not formed yet")
    if ready:
        words = f"{ready} of {replicas(seen)} members serve"
        return Condition("Available", "True", "QuorumServes", words)
    return Condition("Available", "False", "NoQuorum", _missing(seen) or "no member is ready")


def progressing(outcome: Outcome) -> Condition:
    """Whether the operator is on its way to what the spec declares."""
    if outcome.refused:
        return Condition("Progressing", "False", outcome.refused.reason, "the spec is not accepted")
    if outcome.failure:
        return Condition("Progressing", "True", "StepFailed", outcome.failure)
    match outcome.step:
        case None | Settled():
            return Condition("Progressing", "False", "AsDeclared", at_rest(outcome.observation))
        case Hold(reason=reason, message=message):
            return Condition("Progressing", "False", reason, message)
        case Wait(reason=words):
            return Condition("Progressing", "True", "Waiting", f"waiting for {words}")
        case write:
            return Condition("Progressing", "True", "Working", write.reason)


def at_rest(seen: Observation | None) -> str:
    """What a cluster that is as declared says: also of an edit that only restarted pods took."""
    if seen is None or not seen.outdated:
        return "the cluster is as declared"
    return (
        f"the cluster is as declared but for pods {', '.join(seen.outdated)}, which were made "
        "before the last edit of their template; each takes it when it is next restarted"
    )


def degraded(outcome: Outcome) -> Condition:
    """Whether fewer members serve than the cluster has."""
    seen = outcome.observation
    if seen is None or not is_latched(seen):
        return Condition("Degraded", "False", "NotFormed", "the cluster has not formed")
    if missing := _missing(seen):
        return Condition("Degraded", "True", "MembersNotReady", missing)
    return Condition("Degraded", "False", "AllMembersServe", "all members serve")


def blocked(outcome: Outcome) -> Condition | None:
    """There only while a human has to act."""
    if isinstance(outcome.step, Hold) and outcome.step.reason != "Paused":
        return Condition("Blocked", "True", outcome.step.reason, outcome.step.message)
    return None


def paused(outcome: Outcome) -> Condition | None:
    """There only while `spec.paused` is true."""
    if isinstance(outcome.step, Hold) and outcome.step.reason == "Paused":
        return Condition("Paused", "True", "SpecPaused", outcome.step.message)
    return None


def all_conditions(outcome: Outcome) -> list[Condition]:
    computed = (accepted, available, progressing, degraded, blocked, paused)
    return [found for compute in computed if (found := compute(outcome)) is not None]


def dated(
    conditions: list[Condition], before: Mapping[str, Mapping[str, Any]], now: str, generation: int
) -> list[dict[str, Any]]:
    """Conditions in the API's form; a time changes only when what it dates has changed.

    Args:
        before: the conditions of the stored status, by type.
        now: RFC 3339.
    """
    return [_dated(one, before.get(one.type, {}), now, generation) for one in conditions]


def _dated(
    condition: Condition, before: Mapping[str, Any], now: str, generation: int
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:1024],
        "observedGeneration": generation,
    }
    same_status = before.get("status") == condition.status
    unchanged = all(before.get(key) == value for key, value in said.items())
    said["lastTransitionTime"] = before.get("lastTransitionTime", now) if same_status else now
    said["lastUpdateTime"] = before.get("lastUpdateTime", now) if unchanged else now
    return said


def _missing(seen: Observation) -> str:
    """Which members do not serve, and why as far as it is known."""
    said = []
    for ordinal in range(replicas(seen)):
        pod = seen.pod(ordinal)
        name = f"{seen.cluster.name}-{ordinal}"
        if pod is None:
            said.append(f"{name} (no pod)")
        elif not pod.ready or pod.deleting:
            said.append(f"{name} ({pod.trouble or 'not ready'})")
    return f"not serving: {', '.join(said)}" if said else ""
