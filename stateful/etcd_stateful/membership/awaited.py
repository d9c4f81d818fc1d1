"""Waits for pods and members that do not serve yet, and says which one holds up the others."""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import roll, rollback, version_first
from etcd_stateful.membership.steps import Step, Wait
from etcd_stateful.observed.pods import Pod


def unserving_pod(seen: Observation) -> Step | None:
    """Waits for the pod that holds up the others; None once all pods and all voters serve."""
    idle = _after_restarts(seen)
    waits = [
        (ordinal, pod)
        for ordinal in range(seen.replicas)
        if (pod := seen.pod(ordinal)) is None or not pod.takes_traffic
        if ordinal not in idle
    ]
    if not waits:
        return _silent_voter(seen)
    ordinal, pod = min(waits, key=lambda one: _rank(one[1]))
    words = _in_words(seen, ordinal, pod)
    running = _that_should_form(seen)
    if running and (pod is None or not pod.etcd_started):
        words = f"etcd in pods {', '.join(running)} to reach a quorum; also {words}"
    return rollback.with_version_advice(seen, Wait(words))


def pod_of_a_taken_name(seen: Observation) -> Step | None:
    """Waits for a pod that is not created because another one has its name."""
    absent = [one for one in range(seen.replicas) if seen.pod(one) is None]
    taken = next((one for one in absent if wording.name_taken(seen, one)), None)
    return Wait(_in_words(seen, taken, None)) if taken is not None else None


def _that_should_form(seen: Observation) -> list[str]:
    """The pods in which etcd runs, if they are enough for the first quorum, and there is none: that
    is worse than what the other pods lack."""
    running = [pod.name for pod in seen.pods if pod.runs_untroubled and not pod.deleting]
    enough = len(running) >= roster.quorum(recorded(seen).ordinals)
    return running if enough and seen.etcd is None else []


def _after_restarts(seen: Observation) -> set[int]:
    """Ordinals that a rolling restart does not wait for, because it may help them: those without a
    member are grown after it has proven their image."""
    if roll.is_complete(seen):
        return set()
    return {
        seat.ordinal
        for seat in roster.seats(seen)
        if (seat.member is None and seat.volume_is_empty) or roll.may_be_cured(seen, seat)
    }


def _silent_voter(seen: Observation) -> Step | None:
    """Waits for the member of a Ready pod. Ready only says that the last probe passed; the member's
    own answer says whether it serves now."""
    if not is_latched(seen):
        return None
    away = [seat for seat in roster.voters(seen) if not seat.serves]
    said = ", ".join(f"{one.name}{wording.why_silent(one.pod) if one.pod else ''}" for one in away)
    return Wait(f"etcd in {said} to answer", soon=True) if away else None


def _rank(pod: Pod | None) -> int:
    """The pod of the lowest rank is named: a pod with trouble of its own before one that only waits
    for other members."""
    if pod is not None and pod.trouble:
        return 0
    lacks_others = pod is not None and not pod.deleting and (pod.answer or pod.etcd_started)
    return 2 if lacks_others else 1


def _in_words(seen: Observation, ordinal: int, pod: Pod | None) -> str:
    name = naming.pod(seen.cluster.name, ordinal)
    if pod is None:
        why = wording.why_no_pod(seen, ordinal)
        return f"pod {name} to be created; {why}{version_first.advice(seen)}"
    if pod.deleting:
        return f"pod {wording.stopping(pod)} to stop; the StatefulSet then recreates it"
    if pod.trouble:
        return f"pod {name}: {pod.trouble}{_if_tied(seen, pod)}{version_first.advice(seen)}"
    if pod.etcd_started and seen.etcd is None:
        return f"etcd in pod {name} to reach a quorum"
    if pod.in_start:
        silent = f"answer from its init container start{wording.why_silent(pod)}"
        ticket = f"pod {name} to {'get its ticket' if pod.answer else silent}"
        return wording.awaited_name(seen, pod) or ticket
    why = f": {pod.unready}{version_first.advice(seen)}" if pod.unready else ""
    return f"pod {name} to become ready{why}"


def _if_tied(seen: Observation, pod: Pod) -> str:
    """What to do if the volume of a pod that is no member yet lies on a node without room: it was
    made where the pod was placed first. The operator deletes no claim without a record (I6)."""
    claim = seen.claim(pod.ordinal)
    if seen.etcd is None or not pod.crowded_out or roster.member_at(seen, pod.ordinal):
        return ""
    if claim is None or claim.deleting or claim.phase != "Bound" or claim.record or claim.damage:
        return ""
    return (
        f". No member has used claim {claim.name} yet: if its volume ties the pod to a node "
        "without room, delete the claim, and the pod gets another"
    )
