"""Decides the one next step of a cluster from what is observed, and from nothing else.

`decide` asks a list of questions in order of priority; the first that has an answer wins. An
operator that is killed after any step and started again asks them anew and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.membership import blocked, bootstrap, leftovers
from etcd_stateful.membership.observation import Foreign, Live, Observation, Pod
from etcd_stateful.membership.steps import ApplyChild, Hold, Settled, Step, Wait

Question = Callable[[Observation], Step | None]


def decide(seen: Observation) -> Step:
    """The next step. Every branch that may destroy something is in `leftovers`."""
    for question in _QUESTIONS:
        if (step := question(seen)) is not None:
            return step
    return Settled()


def _deleting(seen: Observation) -> Step | None:
    """With foreground deletion the resource is there until its children are gone."""
    return Wait("the cluster's objects to be deleted") if seen.cluster.deleting else None


def _paused(seen: Observation) -> Step | None:
    if seen.cluster.paused:
        return Hold("Paused", "spec.paused is true: nothing is written until it is false")
    return None


def _names_taken(seen: Observation) -> Step | None:
    """Another owner's object under a name that the cluster cannot do without."""
    vital = [foreign for foreign in seen.foreign if foreign.name != _client_name(seen)]
    if passing := next((foreign for foreign in vital if foreign.passing), None):
        return Wait(f"{passing.kind} {passing.name} of {passing.owner} to be gone")
    return _name_taken(vital[0]) if vital else None


def _name_taken(foreign: Foreign) -> Hold:
    return Hold(
        "NameTaken",
        f"{foreign.kind} {foreign.name} belongs to {foreign.owner}. It is left alone; delete or "
        "rename it, or give the cluster another name",
    )


def _children(seen: Observation) -> Step | None:
    """Puts back what was deleted or altered; the version stays as it is (I9)."""
    cluster = seen.cluster
    wanted: list[tuple[Live | None, Manifest]] = [
        (seen.headless_service, headless_service(cluster)),
        (seen.stateful_set, _stateful_set(seen)),
    ]
    if bootstrap.is_latched(seen) and not _client_name_taken(seen):
        wanted.append((seen.client_service, client_service(cluster)))
    return next((step for live, manifest in wanted if (step := _child(live, manifest))), None)


def _predecessors(seen: Observation) -> Step | None:
    """A StatefulSet made while pods of the one before still bear their names would back off from
    them, up to minutes: the end of those pods does not wake its controller."""
    if seen.stateful_set is not None or not seen.predecessors:
        return None
    return Wait(f"pods {', '.join(seen.predecessors)} of the StatefulSet before to stop")


def _stateful_set(seen: Observation) -> Manifest:
    manifest = stateful_set(
        replace(seen.cluster, version=bootstrap.running_version(seen)),
        replicas=bootstrap.replicas(seen),
        operator_image=seen.operator_image,
    )
    if seen.stateful_set is not None:
        # Kubernetes never lets them change, so what an older operator rendered stays.
        manifest["spec"]["volumeClaimTemplates"] = seen.stateful_set["spec"].get(
            "volumeClaimTemplates", []
        )
    return manifest


def _child(live: Live | None, manifest: Manifest) -> Step | None:
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    if live is None:
        return ApplyChild(kind, name, manifest, f"{kind} {name} is not there")
    if live["metadata"].get("deletionTimestamp"):
        return Wait(f"{kind} {name}, which is being deleted, to be gone; then it is made again")
    if where := drift(live, manifest):
        # Of this very version: an old view must not undo what came after it, replicas least of all.
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        return ApplyChild(kind, name, manifest, f"{kind} {name} differs at {where}")
    return None


def _every_pod_serves(seen: Observation) -> Step | None:
    waits = [
        (ordinal, pod)
        for ordinal in range(seen.replicas)
        if (pod := seen.pod(ordinal)) is None or not pod.ready or pod.deleting
    ]
    if not waits:
        return None
    ordinal, pod = min(waits, key=lambda one: _blame(one[1]))
    return Wait(_in_words(seen, ordinal, pod))


def _blame(pod: Pod | None) -> int:
    """Lowest for the pod to name: one with a cause rather than one that only lacks the others."""
    if pod is not None and pod.trouble:
        return 0
    lacks_others = pod is not None and not pod.deleting and (pod.answer or pod.etcd_started)
    return 2 if lacks_others else 1


def _in_words(seen: Observation, ordinal: int, pod: Pod | None) -> str:
    name = naming.pod(seen.cluster.name, ordinal)
    if pod is None:
        return f"pod {name} to be made by the StatefulSet"
    if pod.deleting:
        return f"pod {name} to stop; the StatefulSet then makes it again"
    if pod.trouble:
        return f"pod {name}: {pod.trouble}"
    if pod.etcd_started and seen.etcd is None:
        return f"etcd in pod {name} to reach a quorum"
    if pod.in_start:
        what = "get its ticket" if pod.answer else "answer from its init container start"
        return f"pod {name} to {what}"
    return f"pod {name} to become ready"


def _client_service_taken(seen: Observation) -> Step | None:
    """Last, as members do without it."""
    taken = next((foreign for foreign in seen.foreign if foreign.name == _client_name(seen)), None)
    if taken is None:
        return None
    if taken.passing:
        return Wait(f"{taken.kind} {taken.name} of {taken.owner} to be gone")
    return _name_taken(taken)


def _client_name_taken(seen: Observation) -> bool:
    return any(foreign.name == _client_name(seen) for foreign in seen.foreign)


def _client_name(seen: Observation) -> str:
    return naming.client_service(seen.cluster.name)


def _size_as_declared(seen: Observation) -> Step | None:
    if seen.replicas == seen.cluster.size:
        return None
    return Hold(
        "ResizeNotAvailable",
        f"the cluster runs with {seen.replicas} members and spec.size is {seen.cluster.size}: "
        "this version of the operator cannot change the size of a running cluster yet; it goes "
        f"on with {seen.replicas}. Set spec.size back to {seen.replicas}",
    )


def _version_as_declared(seen: Observation) -> Step | None:
    running = bootstrap.running_version(seen)
    if running == seen.cluster.version:
        return None
    return Hold(
        "VersionChangeNotAvailable",
        f"the cluster runs etcd {running} and spec.version is {seen.cluster.version}: this version "
        f"of the operator cannot change the version of a running cluster yet; it goes on with "
        f"{running}. Set spec.version back to {running}",
    )


_QUESTIONS: Final[tuple[Question, ...]] = (
    _deleting,
    _paused,
    _names_taken,
    leftovers.before_anything,
    bootstrap.secret,
    _predecessors,
    _children,
    leftovers.damaged,
    bootstrap.latch,
    bootstrap.tickets,
    bootstrap.another_attempt,
    blocked.cannot_form,
    blocked.starts,
    _every_pod_serves,
    blocked.unformed,
    _client_service_taken,
    _size_as_declared,
    _version_as_declared,
)
