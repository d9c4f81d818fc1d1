"""Says in words what a pod waits for or why it fails. The text is empty if all is as expected.

The text goes into conditions. So it contains nothing that changes by itself (no counters, no
times), and a pod that stays broken causes no further status writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_operator.objects import termination_message
from etcd_operator.timestamps import age_of, seconds, seconds_since
from etcd_stateful import naming, stored_conditions
from etcd_stateful.observed.objects import finalizers_of_others

Object = Mapping[str, Any]

GRACE_SECONDS: Final = 10.0
"""How long a pod may be unscheduled, or without its images, before that is reported."""

PODLESS_SECONDS: Final = 5.0
"""How long a Job may have no pod before that is reported. Normally the pod is created at once; but,
for example, its service account may be missing."""

SETUP_SECONDS: Final = 60.0
"""How long volumes may take before that is reported. Attaching and mounting is slow on some
clouds."""

STEADY_SECONDS: Final = 30.0
"""A container that ran for so long did start, and failed for another reason later. One that cannot
start ends sooner."""

_PULL: Final = frozenset(
    # The last two are CRI-O's.
    {"ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"}
)
_IMAGE: Final = _PULL | {"ErrImageNeverPull", "InvalidImageName"}
_CONFIG: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ImageInspectError",
        "RunContainerError",
    }
)
_LONGEST: Final = 300

_ALL_NODES: Final = re.compile(
    r"0/(?P<all>\d+) nodes are available: (?P<these>\d+) node\(s\) "
    # The wording of Kubernetes 1.36, and that of older versions.
    r"(didn't match PersistentVolume's node affinity|had volume node affinity conflict)"
    r"\.(\s|$)"
)

_CROWDED: Final = re.compile(r"Insufficient |Too many pods|anti-affinity rules")
"""The scheduler's words for what other pods take: room, or by an anti-affinity the whole node."""

_BEFORE_PREEMPTION: Final = " no new claims to deallocate,"
"""What Kubernetes 1.34 and newer say just before that."""


def trouble(pod: Object, claim: Object | None, now: float) -> str:
    """What keeps the pod from serving, the most specific cause first.

    Args:
        claim: the claim of the pod's data volume, if it has one.
        now: seconds since 1970.
    """
    status = pod.get("status") or {}
    if words := _lost(pod, status, now) or _crashing(status):
        return words
    age = age_of(pod, now)
    if age < GRACE_SECONDS:
        return ""
    return (
        _claim(claim, _unscheduled(status))
        or _gated(pod)
        or _unscheduled(status)
        or _containers(status)
        or _setup(status, age)
    )


def podless(job: Object, now: float) -> str:
    """What to report about a Job that runs and has no pod; empty while it is new."""
    late = age_of(job, now) > PODLESS_SECONDS
    return "its pod has not been created; the Events of the Job say why" if late else ""


def unstopped(pod: Object, now: float) -> str:
    """What to report about a deleted pod whose node has not confirmed in time that it stopped."""
    metadata = pod["metadata"]
    if seconds_since(metadata.get("deletionTimestamp"), now) <= GRACE_SECONDS:
        return ""
    name, node = metadata["name"], (pod.get("spec") or {}).get("nodeName") or "its node"
    return (
        f"pod {name} was deleted and node {node} has not confirmed that it stopped. Once that node "
        f"is certainly off: kubectl delete pod {name} --namespace {metadata['namespace']} --force"
    )


def _lost(pod: Object, status: Object, now: float) -> str:
    """The node does not answer, or does not confirm that the pod has stopped."""
    node = (pod.get("spec") or {}).get("nodeName") or "its node"
    if status.get("phase") == "Unknown" or status.get("reason") == "NodeLost":
        return f"node {node} does not answer"
    deadline = pod["metadata"].get("deletionTimestamp")
    if seconds_since(deadline, now) > GRACE_SECONDS:
        if kept := kept_by(pod["metadata"]):
            return f"it was deleted, and its finalizer {kept} keeps it"
        return f"it was deleted and node {node} has not confirmed that it stopped"
    if status.get("phase") == "Failed":
        return _short(f"failed: {status.get('reason', '')} {status.get('message', '')}".rstrip())
    return ""


def kept_by(metadata: Object) -> str:
    """The finalizers that alone keep an object. The grace period of a pod is none once the kubelet
    has seen its containers stop, or somebody has force-deleted it."""
    ended = metadata.get("deletionGracePeriodSeconds") == 0
    return finalizers_of_others(metadata) if ended else ""


def _crashing(status: Object) -> str:
    for container in all_containers(status):
        state, last = container.get("state") or {}, container.get("lastState") or {}
        ended = state.get("terminated") or last.get("terminated") or {}
        if is_crashing(container):
            return _keeps_failing(container, ended)
    return ""


def last_end_of_etcd(pod: Object) -> str:
    """How etcd failed before it was restarted; empty if it was not."""
    for container in all_containers(pod.get("status") or {}):
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if container["name"] == naming.ETCD_CONTAINER and ended.get("exitCode"):
            return _keeps_failing(container, ended)
    return ""


def is_crashing(container: Object) -> bool:
    """Whether the container has failed more than once and does not run now."""
    state = container.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        return True
    ended = state.get("terminated") or {}
    return bool(ended.get("exitCode")) and int(container.get("restartCount") or 0) > 0


def tried_again(container: Object, now: float) -> str:
    """What to report about a container that keeps failing, while it runs again for a moment.

    It is empty once the container is ready, or has run for a while. It is also empty if the
    container had run for a while before it failed last, for example because it was killed: then it
    need not fail again.
    """
    runs = (container.get("state") or {}).get("running")
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if not runs or container.get("ready") or not ended.get("exitCode"):
        return ""
    once = int(container.get("restartCount") or 0) < termination_message.TIMES
    if once or seconds_since(runs.get("startedAt"), now) >= STEADY_SECONDS:
        return ""
    return _keeps_failing(container, ended) if _ended_early(ended) else ""


def _ended_early(ended: Object) -> bool:
    began, end = seconds(ended.get("startedAt")), seconds(ended.get("finishedAt"))
    return began is not None and end is not None and end - began < STEADY_SECONDS


def _keeps_failing(container: Object, ended: Object) -> str:
    name = container["name"]
    ours = name in (naming.ETCD_CONTAINER, naming.START_CONTAINER)
    killed = ours and ended.get("reason") == "OOMKilled"
    advice = "; raise spec.pod.resources.limits.memory" if killed else ""
    return _short(f"container {name} keeps failing{_how(ended)}{advice}")


def _how(ended: Object) -> str:
    if not ended:
        return ""
    reason = ended.get("reason")
    named = f" ({reason})" if reason and reason not in ("Error", "Completed") else ""
    said = termination_message.cause(str(ended.get("message") or ""))
    return f": exit code {ended.get('exitCode')}{named}" + (f": {said}" if said else "")


_ANEW: Final = (
    "or, if the cluster has no data yet, delete the EtcdCluster and its claims, and create it "
    "again with"
)
_CLASS: Final = "spec.pod.persistentVolumeClaimSpec.storageClassName"


def _claim(claim: Object | None, unscheduled: str) -> str:
    if claim is None:
        return ""
    name, phase = claim["metadata"]["name"], (claim.get("status") or {}).get("phase")
    if phase == "Lost":
        return f"claim {name} has lost its volume"
    # Kubernetes fills in the default class, also later when one is marked as default. So if the
    # field is absent on a pending claim, there is no default class. An empty string is the user's
    # choice of no dynamic provisioning.
    chosen = (claim.get("spec") or {}).get("storageClassName")
    if phase == "Pending" and chosen is None:
        return (
            f"claim {name} has no storage class and Kubernetes has no default one: mark a "
            f"StorageClass as the default; {_ANEW} {_CLASS}"
        )
    if phase == "Pending" and "unbound immediate" in unscheduled:
        whose = f"of storage class {chosen}" if chosen else "that was created by hand"
        words = f"claim {name} waits for a volume {whose}, and none is provisioned"
        mistyped = f". If there is no such class, create it; {_ANEW} another {_CLASS}"
        return f"{words}: kubectl describe pvc {name} says why{mistyped if chosen else ''}"
    return ""


def _gated(pod: Object) -> str:
    """Reports scheduling gates. While a pod has them, the scheduler ignores it, and says nothing
    about who removes them."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    if not gates:
        return ""
    names = ", ".join(str(gate.get("name")) for gate in gates)
    return _short(f"held back by scheduling gates, until they are removed: {names}")


def _unscheduled(status: Object) -> str:
    why = _why_unscheduled(status)
    return _short(f"cannot be scheduled: {why}") if why else ""


def _why_unscheduled(status: Object) -> str:
    """What the scheduler says, without what it says of preemption; empty if it found a node."""
    scheduled = stored_conditions.find(status, "PodScheduled")
    if scheduled.get("status") != "False":
        return ""
    words = str(scheduled.get("message") or "no reason given")
    return words.partition(" preemption: ")[0].removesuffix(_BEFORE_PREEMPTION)


def is_crowded_out(status: Object) -> bool:
    """Whether the scheduler rejects a node because of what other pods take there."""
    return _CROWDED.search(_why_unscheduled(status)) is not None


def is_image_missing(container: Object) -> bool:
    """Whether the kubelet cannot pull the container's image."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    return waiting.get("reason") in _IMAGE


def is_node_gone(status: Object) -> bool:
    """Whether the scheduler rejects every node only because of the volume's node affinity.

    Then the node that the volume is on no longer exists. A node that is cordoned, tainted or not
    ready would be rejected, and counted, for that reason instead.
    """
    found = _ALL_NODES.match(stored_conditions.message(status, "PodScheduled", "False"))
    return found is not None and int(found["all"]) == int(found["these"]) > 0


def _containers(status: Object) -> str:
    for container in all_containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message") or ""
        if reason in _IMAGE:
            return f"image {container.get('image')} cannot be pulled ({_steady(reason)})"
        if reason in _CONFIG:
            return _short(f"container {container['name']} cannot be created: {message or reason}")
    return ""


def _steady(reason: str) -> str:
    """One reason for all errors of a pull, because the kubelet alternates between the error and the
    back-off."""
    return "ErrImagePull" if reason in _PULL else reason


def _setup(status: Object, age: float) -> str:
    """Reports volumes that do not mount. Only the kubelet's events say that, so it is concluded
    from the pod's age."""
    started = any("waiting" not in (one.get("state") or {}) for one in all_containers(status))
    if status.get("phase") != "Pending" or started or age < SETUP_SECONDS:
        return ""
    return "its volumes or network are not set up yet; the events of the pod say why"


def unready(status: Object, etcd: Object) -> str:
    """Why the pod is not Ready although etcd's container is: admission may have added containers or
    readiness gates, which somebody else has to confirm. The words are the kubelet's."""
    return _short(stored_conditions.message(status, "Ready", "False")) if etcd.get("ready") else ""


def all_containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
