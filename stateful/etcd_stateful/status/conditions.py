"""The conditions of an EtcdCluster, each computed by one pure function.

`Available` is about clients and follows from the pods: a pod is Ready only while its etcd answers a
linearizable read, so one Ready pod proves a quorum. Accepted, Available, Progressing, Degraded and
Ready, which sums them up, are always present; the others, as in coreos's status, only while they
are true.

While the spec is refused, or the cluster is paused or cannot be observed, a condition that cannot
be computed keeps its last value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from etcd_stateful.api.tls import Level, Link
from etcd_stateful.membership.beginning.bootstrap import behind_the_spec
from etcd_stateful.membership.members import claim_expansion
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import PAUSED
from etcd_stateful.membership.steps import Hold, Settled, Wait
from etcd_stateful.membership.tls import issued, links, rotation, tls_switch
from etcd_stateful.status.disruptions import drains_blocked
from etcd_stateful.status.outcome import LONGEST_MESSAGE, Condition, Outcome, Truth
from etcd_stateful.status.serving import expected, not_serving, serving
from etcd_stateful.status.transitions import recovering, scaling, upgrading
from etcd_stateful.stored_conditions import with_times


def accepted(outcome: Outcome) -> Condition:
    """Whether the spec is valid."""
    if outcome.refused:
        return Condition("Accepted", "False", outcome.refused.reason, str(outcome.refused))
    seen = outcome.observation
    if seen is None:
        return _not_observed(outcome, "Accepted")
    notes = "; ".join(str(note) for note in seen.cluster.ignored)
    return Condition("Accepted", "True", "SpecAccepted", notes or "every field is understood")


def available(outcome: Outcome) -> Condition:
    """Whether a client that connects now is served."""
    seen = outcome.observation
    if outcome.refused and not outcome.has_formed:
        words = "the spec is not accepted, and no cluster has formed"
        return Condition("Available", "False", "NotAccepted", words)
    if seen is None:
        return _not_observed(outcome, "Available")
    if not outcome.has_formed:
        return Condition("Available", "False", "Forming", "the cluster has not formed yet")
    away = not_serving(seen, outcome.stored)
    if isinstance(outcome.step, Hold) and outcome.step.reason == "QuorumLost":
        # It is proven before the kubelet's readiness probes have failed often enough.
        return Condition("Available", "False", "NoQuorum", away or outcome.step.message)
    if not any(pod.takes_traffic for pod in seen.pods):
        return Condition("Available", "False", "NoQuorum", away or "no member is ready")
    every = expected(seen, outcome.stored)
    words = f"{len(serving(seen, every))} of {len(every)} members serve"
    return Condition("Available", "True", "QuorumServes", f"{words}; {away}" if away else words)


def progressing(outcome: Outcome) -> Condition:
    """Whether the operator is working towards what the spec declares."""
    if outcome.refused:
        return Condition("Progressing", "False", outcome.refused.reason, "the spec is not accepted")
    if outcome.failure:
        return Condition("Progressing", "True", "StepFailed", outcome.failure)
    if off := outcome.put_off:
        return _besides(_of_step(outcome), off)
    return _of_step(outcome)


def _besides(found: Condition, off: str) -> Condition:
    """The condition, with writes that the API server refuses or others undo. They are retried while
    everything else goes on."""
    if found.reason == "AsDeclared":
        return Condition("Progressing", "True", "StepFailed", off)
    room = max(LONGEST_MESSAGE - len(off) - len(_BESIDES), LONGEST_MESSAGE // 2)
    return replace(found, message=f"{found.message[:room]}{_BESIDES}{off}")


_BESIDES: Final = ". Also, to be retried: "


def _of_step(outcome: Outcome) -> Condition:
    match outcome.step:
        case None | Settled():
            return Condition("Progressing", "False", "AsDeclared", at_rest(outcome.observation))
        case Hold(reason=reason, message=message):
            return Condition("Progressing", "False", reason, message)
        case Wait():
            return Condition("Progressing", "True", "Waiting", outcome.words)
        case write:
            return Condition("Progressing", "True", "Working", write.reason)


def at_rest(seen: Observation | None) -> str:
    """The message of a cluster that is as declared, with what still differs but blocks nothing."""
    words = "the cluster is as declared"
    if seen is None:
        return words
    kept = claim_expansion.not_lowered(seen)
    return f"{words}{_behind(seen)}{f'; {kept}' if kept else ''}"


def _behind(seen: Observation) -> str:
    """Pods without the newest template. Those created from an older spec will be restarted. Those
    created from the same spec are not: another version of the operator renders it differently, or
    somebody has added to the template, which is no drift."""
    if not seen.outdated:
        return ""
    words, behind = "", [pod.name for pod in behind_the_spec(seen)]
    if behind:
        words += (
            f" except for pods {', '.join(behind)}, which have yet to be restarted for the spec"
        )
    if older := [name for name in seen.outdated if name not in behind]:
        words += (
            f"; pods {', '.join(older)} keep the template from before another version of the "
            "operator, or an edit of the StatefulSet (kubectl rollout restart): each gets the "
            "newer one when it is next restarted; to restart them now, one by one, edit "
            "spec.pod.annotations"
        )
    return words


def degraded(outcome: Outcome) -> Condition:
    """Whether the cluster does less than it should, or tolerates fewer failures."""
    seen = outcome.observation
    if seen is None and (outcome.has_formed or not outcome.refused):
        return _not_observed(outcome, "Degraded")
    if seen is None or not outcome.has_formed:
        return Condition("Degraded", "False", "NotFormed", "the cluster has not formed")
    alarm = _alarm(outcome, seen)
    replaced = outcome.kept("Recovering") if outcome.refused else recovering(outcome)
    if away := not_serving(seen, outcome.stored):
        reason, words = "MembersNotReady", away
    elif replaced:
        reason, words = "MembersMissing", replaced.message
    elif alarm:
        return Condition("Degraded", "True", "AlarmRaised", alarm)
    else:
        return Condition("Degraded", "False", "AllMembersServe", "all members serve")
    if alarm:
        words = f"{words[: LONGEST_MESSAGE - len(alarm) - len('; ')]}; {alarm}"
    return Condition("Degraded", "True", reason, words)


def _alarm(outcome: Outcome, seen: Observation) -> str:
    """Which alarms are raised; while etcd is not asked, those of the last time."""
    if seen.etcd is None:
        before = outcome.kept("Degraded")
        said = _ALARM_PATTERN.search(before.message) if before else None
        return f"{said[0]}{_WHEN_LAST_ASKED}" if said else ""
    raised = sorted({alarm.kind for alarm in seen.alarms})
    return _ALARM.format(", ".join(raised)) if raised else ""


_ALARM: Final = "etcd refuses writes: alarm {} is raised"
"""`_alarm` finds the last alarms in the stored message by these words: no other field has them."""

_ALARM_PATTERN: Final = re.compile("[A-Z, ]+".join(map(re.escape, _ALARM.split("{}"))))
_WHEN_LAST_ASKED: Final = ", when it was last asked"


def ready(found: list[Condition]) -> Condition:
    """Whether the cluster is as declared, and all its members serve. Its reason and message are
    those of the first of these conditions that says otherwise. Helm's `--wait`, Flux and other
    users of kstatus wait for a condition of this name.

    Args:
        found: the other conditions that are always present.
    """
    by_type = {one.type: one for one in found}
    for kind, at_best in _AT_BEST.items():
        one = by_type[kind]
        if one.reason != at_best:
            status: Truth = "Unknown" if one.status == "Unknown" else "False"
            return Condition("Ready", status, one.reason, one.message)
    return Condition("Ready", "True", "AsDeclared", "as declared, and all members serve")


_AT_BEST: Final = {
    "Accepted": "SpecAccepted",
    "Progressing": "AsDeclared",
    "Available": "QuorumServes",
    "Degraded": "AllMembersServe",
}
"""The reasons of a cluster that is Ready, those that say most first."""


def blocked(outcome: Outcome) -> Condition | None:
    """Present only while the user has to act."""
    if isinstance(outcome.step, Hold) and outcome.step.reason != "Paused":
        return Condition("Blocked", "True", outcome.step.reason, outcome.step.message)
    return None


def paused(outcome: Outcome) -> Condition | None:
    """Present only while `spec.paused` is true."""
    seen = outcome.observation
    if seen is None or not seen.cluster.paused:
        return None
    return Condition("Paused", "True", "SpecPaused", PAUSED)


def plaintext(outcome: Outcome) -> Condition | None:
    """Present only while traffic is not encrypted: by choice, or because the cluster is older than
    the TLS default."""
    seen = outcome.observation
    words = _why_plaintext(seen) if seen else ""
    return Condition("Plaintext", "True", "NotEncrypted", words) if words else None


def _why_plaintext(seen: Observation) -> str:
    """Which links are in plaintext on at least one pod, and why; empty if none is."""
    wanted, now = seen.cluster.requested_links, links.lowest_levels(seen)
    exposed = {
        "members": _why_exposed(now.peer, wanted.peer),
        "clients": _why_exposed(now.client, wanted.client),
    }
    said = []
    for why in _REASONS:
        if names := [name for name, reason in exposed.items() if reason == why]:
            whose = " and of ".join(names)
            said.append(f"the traffic of {whose} is neither encrypted nor authenticated{why}")
    return "; ".join(said)


_ASKED: Final = ", as spec.TLS asks"
_ALLOWED: Final = " where they connect without TLS, as spec.TLS.allowPlaintextClients asks"
_FOR_NOW: Final = " until every pod has changed to TLS"
_KEPT: Final = ": the cluster began without TLS, and goes on as it began"
_REASONS: Final = (_ASKED, _ALLOWED, _FOR_NOW, _KEPT)


def _why_exposed(level: Level, wish: Link | None) -> str:
    """Why a link of this level is in plaintext; empty if it is not.

    Args:
        wish: what spec.TLS asks for; None if it says nothing.
    """
    if level is Level.TLS:
        return ""
    if wish is None:
        return _KEPT if level is Level.PLAINTEXT else _FOR_NOW
    if not wish.is_encrypted:
        return _ASKED
    return _ALLOWED if wish.between and level is Level.BETWEEN else _FOR_NOW


def changing_tls(outcome: Outcome) -> Condition | None:
    """Present only while TLS is being turned on or off, with the progress."""
    seen = outcome.observation
    words = tls_switch.under_way(seen) if seen else ""
    if not words:
        return _as_before(outcome, "ChangingTLS") if seen and seen.etcd is None else None
    reason = outcome.step.reason if isinstance(outcome.step, Hold) else "TLSChanges"
    return Condition("ChangingTLS", "True", reason, words)


def rotating(outcome: Outcome) -> Condition | None:
    """Present only while an authority is being replaced, with the progress."""
    seen = outcome.observation
    if seen is None or seen.certificates is None:
        return _as_before(outcome, "Rotating")
    said = rotation.under_way(seen) | issued.under_way(seen)
    if not said:
        return None
    return Condition("Rotating", "True", "AuthorityRotates", "; ".join(said.values()))


def _not_observed(outcome: Outcome, kind: str) -> Condition:
    return outcome.kept(kind) or Condition(
        kind, "Unknown", "NotObserved", "the cluster could not be observed"
    )


def _as_before(outcome: Outcome, kind: str) -> Condition | None:
    """The condition as it was: only etcd or the Secrets could tell that it is over. If the planner
    holds, the hold's reason is the condition's."""
    before = outcome.kept(kind) if outcome.was(kind) else None
    if before is None or not isinstance(outcome.step, Hold):
        return before
    return replace(before, reason=outcome.step.reason, generation=None)


_ALWAYS: Final = (accepted, available, progressing, degraded)
_WHILE_TRUE: Final = {
    "Recovering": recovering,
    "Scaling": scaling,
    "Upgrading": upgrading,
    "Blocked": blocked,
    "Paused": paused,
    "DrainsBlocked": drains_blocked,
    "Plaintext": plaintext,
    "ChangingTLS": changing_tls,
    "Rotating": rotating,
}
_OF_THE_STEP: Final = frozenset({"Blocked", "Paused"})
"""These are about what the operator does. They are computed even if the spec is refused."""


def all_conditions(outcome: Outcome) -> list[Condition]:
    found = [compute(outcome) for compute in _ALWAYS]
    found.append(ready(found))
    for kind, compute in _WHILE_TRUE.items():
        knows = outcome.observation and not outcome.refused
        one = compute(outcome) if knows or kind in _OF_THE_STEP else outcome.kept(kind)
        found += [one] if one else []
    return found


def as_stored(
    conditions: list[Condition], before: Mapping[str, Mapping[str, Any]], now: str, generation: int
) -> list[dict[str, Any]]:
    """Conditions in the API's form.

    Args:
        before: the conditions of the stored status, by type.
        now: RFC 3339.
    """
    return [with_times(_said(one, generation), before.get(one.type, {}), now) for one in conditions]


def _said(condition: Condition, generation: int) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:LONGEST_MESSAGE],
        "observedGeneration": generation if condition.generation is None else condition.generation,
    }
