"""What to say of members, pods and claims that are away: why they are, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from etcd_stateful import naming
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod
from etcd_stateful.start.configuration import DNS_TIMEOUT

SILENT_SECONDS: Final = 30.0
"""From the creation of a pod: only then is it worth a word why its `start` does not answer, as it
refuses connections until it listens."""

GIVE_UP: Final = "delete the Node, or force-delete the pod"
"""What to do about a pod that never stops, as its node is off for good."""


def not_created(seen: Observation, ordinal: int) -> str:
    """What to say of a member whose pod does not exist."""
    return f"its pod has yet to be created; {why_no_pod(seen, ordinal)}"


def why_no_pod(seen: Observation, ordinal: int) -> str:
    """Why the StatefulSet controller does not create the pod, to follow a wait for it."""
    claim = seen.claim(ordinal)
    if claim is not None and claim.deleting:
        return f"it waits for {to_be_gone(claim)}"
    events = f"the Events of StatefulSet {seen.cluster.name} say what keeps it"
    return name_taken(seen, ordinal) or events


def name_taken(seen: Observation, ordinal: int) -> str:
    """Which other pod has the name of this ordinal's, and what to do; empty if none is known to."""
    name = naming.pod(seen.cluster.name, ordinal)
    other = next((one for one in seen.namesakes if one.name == name), None)
    if other is None:
        return ""
    if other.passing:
        gone = "another pod of this name is being deleted"
        if other.kept_by:
            return f"{gone}, and {kept_by(other.kept_by)}"
        return f"{gone} (if its node is off for good, {GIVE_UP})"
    if not other.orphan:
        return f"a pod of this name belongs to {other.owner}: delete it"
    labels = " ".join(f"{key}={one}" for key, one in naming.selector(seen.cluster.name).items())
    lost = "" if seen.cluster.durable else " with its data"
    return (
        "there is a pod of this name without the labels by which its StatefulSet knows it. Put "
        f"them back (kubectl label pod {name} --overwrite {labels}), or delete that pod{lost}"
    )


def not_serving(seen: Observation, some: Sequence[Seat]) -> str:
    """Names of those that do not serve, for a wait. All may serve for the moment: one is
    stopping."""
    return in_words([seat for seat in some if not roster.counts(seen, seat)]) or "the others"


def stopping(pod: Pod) -> str:
    """The pod's name, and what to do if it may stay for ever: its node does not confirm that it has
    stopped, or a finalizer keeps it."""
    if not pod.overdue:
        return pod.name
    if pod.kept_by:
        return f"{pod.name} ({kept_by(pod.kept_by)})"
    return (
        f"{pod.name} (its node does not confirm that it has stopped; if the node is off for good, "
        f"{GIVE_UP})"
    )


def kept_by(finalizers: str) -> str:
    """What to do about finalizers that keep an object."""
    return (
        f"its finalizer {finalizers} keeps it: if what set that is gone, remove it from "
        "metadata.finalizers"
    )


def to_be_gone(claim: Claim) -> str:
    """What to say of a claim that is being deleted, for a wait."""
    return (
        f"claim {claim.name} to be gone (if it stays, kubectl describe pvc {claim.name} names the "
        "pod that uses it and its finalizers)"
    )


def why_silent(pod: Pod) -> str:
    """Why `start` or etcd in the pod does not answer, to follow what is said of it; empty while it
    may only have begun to run."""
    if pod.no_handshake:
        return f" ({pod.no_handshake})"
    if not pod.unanswered or pod.age < SILENT_SECONDS:
        return ""
    return (
        f" ({pod.unanswered}; nothing may keep the operator from that port, such as a network "
        "policy or a service mesh)"
    )


def awaited_name(seen: Observation, pod: Pod) -> str:
    """What `start` in a pod that has its ticket waits for; empty if it has none."""
    if pod.finding is None or pod.finding.found != "ticketed":
        return ""
    host, seconds = seen.cluster.host(pod.ordinal), seen.cluster.pod.dns_timeout_seconds
    return f"DNS to resolve {host} to pod {pod.name}, for at most {seconds or DNS_TIMEOUT} s"


def in_words(some: Sequence[Seat]) -> str:
    return ", ".join(seat.name for seat in some)
