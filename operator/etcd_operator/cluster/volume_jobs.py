"""Reads the Job of a recovery or a restore, and finds the pods that use the volumes.

There is no watch on Jobs. So the Job is read in every pass while a recovery or restore is under
way, and otherwise only if the watch on pods shows a pod of such a Job. A pod counts as gone only
when a read from the API server does not find its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from etcd_operator.kube.api import CLAIMS, JOBS, PODS, Conflict, Json, Kubernetes
from etcd_operator.kube.store import Store
from etcd_operator.objects import jobs, reading
from etcd_operator.objects.termination_message import cause
from etcd_operator.objects.trouble import (
    all_containers,
    is_crashing,
    podless,
    trouble,
    unstopped,
)
from etcd_operator.step_result import Done, Outdated
from etcd_operator.tasks import together
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests import volume_job
from etcd_stateful.manifests.jobs import ETCDUTL
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import CreateJob, DeleteJob
from etcd_stateful.metadata import annotations_of, labels_of
from etcd_stateful.observed.objects import Job
from etcd_stateful.untrusted import epoch_of

JOB_NAME: Final = "batch.kubernetes.io/job-name"
"""The label that the Job controller sets on pods."""

_OVER: Final = ("Succeeded", "Failed")

_LONGEST: Final = 800
"""Characters of what a container of the operator says as it ends, with what to do at the end."""

_LAST: Final = "finish"
"""The container with which the work of either Job ends."""


class VolumeJobs:
    """Reads the Jobs of recoveries and restores."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        wall_clock: Callable[[], float],
        *,
        operator_image: str,
    ) -> None:
        self._operator_image = operator_image
        self._kube = kube
        self._store = store
        self._wall_clock = wall_clock

    async def onto(self, base: Observation) -> Observation:
        """The observation, with the Job and the pods that use the volumes, if they matter now."""
        if not survivor.needs_lookup(base):
            return await self._unneeded(base)
        cluster = base.cluster
        where, name = cluster.namespace, survivor.job_name(base)
        raw, *pods = await together(
            self._kube.get(JOBS, where, name),
            *(self._kube.get(PODS, where, one) for one in _places(base)),
        )
        own = self._pods_of_job(cluster)
        known = {pod.uid for pod in base.pods}
        strangers = (pod for pod in pods if pod and pod["metadata"]["uid"] not in known)
        running = (pod for pod in own if _phase(pod) not in _OVER)
        job = self._read(cluster, raw, own) if raw else None
        return replace(base, job=job, occupants=_names((*strangers, *running)))

    async def _unneeded(self, base: Observation) -> Observation:
        """The observation, with a Job that is no longer needed, as when the create request was
        late, or the record of what it was for was lost. Its pod reveals it: also one that has
        ended keeps a deleted claim."""
        own = self._pods_of_job(base.cluster)
        names = [_label(pod, JOB_NAME) for pod in own]
        if not any(names):
            return base
        raw = await self._kube.get(JOBS, base.cluster.namespace, max(names))
        return replace(base, job=self._read(base.cluster, raw, own)) if raw else base

    def _pods_of_job(self, cluster: EtcdCluster) -> list[Json]:
        """The pods of recovery and restore Jobs, by their label."""
        pods = self._store.of_cluster(PODS, cluster.namespace, cluster.name)
        return [pod for pod in pods if _label(pod, naming.LABEL_NAME) == volume_job.LABEL]

    def _read(self, cluster: EtcdCluster, raw: Json, own: Sequence[Json]) -> Job:
        metadata, notes = raw["metadata"], annotations_of(raw)
        other = reading.foreign(cluster, "Job", raw)
        state, newest = jobs.state(raw), jobs.newest(own)
        if state == "running" and any(map(_is_done, jobs.of_job(own, raw))):
            state = "complete"
        return Job(
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            survivor=notes.get(naming.SURVIVOR, ""),
            epoch=epoch_of(notes.get(naming.EPOCH, "")),
            spec_hash=notes.get(naming.SPEC_HASH, ""),
            state=state,
            stranger=other.owner if other else "",
            deleting="deletionTimestamp" in metadata,
            trouble=self._trouble(raw, newest) if state != "complete" else "",
            unpullable=jobs.is_unpullable(raw, newest, self._operator_image),
            claim_uid=notes.get(naming.CLAIM_UID, ""),
            storage=notes.get(naming.STORAGE, ""),
            etcd_started=any(map(_ran, own))
            or _failed(raw) > sum(_phase(pod) == "Failed" for pod in own),
            etcd_crashing=state == "running" and newest is not None and _crashes(newest),
        )

    def _trouble(self, job: Json, pod: Mapping[str, Any] | None) -> str:
        now = self._wall_clock()
        if pod is None:
            return podless(job, now) if jobs.state(job) == "running" else jobs.why_failed(job)
        stuck = "" if _phase(pod) in _OVER else unstopped(pod, now)
        said = stuck or jobs.out_of_memory(pod) or _last_words(pod)
        return said or trouble(pod, self._claim(job), now)

    def _claim(self, job: Json) -> Json | None:
        """The claim whose volume the Job works on."""
        name = naming.claim_of(annotations_of(job).get(naming.SURVIVOR, ""))
        return self._store.get(CLAIMS, job["metadata"]["namespace"], name)


async def apply(kube: Kubernetes, namespace: str, step: CreateJob | DeleteJob) -> Done | Outdated:
    """Creates or deletes the Job. Raises Rejected and Unavailable."""
    try:
        if isinstance(step, CreateJob):
            await kube.create(JOBS, step.manifest)
            return Done(f"created Job {step.name}", created=True)
        await kube.delete(
            JOBS, namespace, step.name, uid=step.uid, resource_version=step.resource_version
        )
    except Conflict as error:
        return Outdated(f"Job {step.name} has changed in between: {error}")
    return Done(f"deleted Job {step.name}")


def _places(base: Observation) -> list[str]:
    """The names of all pods that may use the cluster's claims, even if their labels were
    changed."""
    claimed = {claim.ordinal for claim in base.claims}
    return [naming.pod(base.cluster.name, one) for one in sorted(claimed)]


def _last_words(pod: Mapping[str, Any]) -> str:
    """The termination message of the first container but etcd's that failed. Of what etcdutl logs,
    only its error counts."""
    for name, ended in jobs.ended(pod):
        if ended.get("exitCode") and name != naming.ETCD_CONTAINER and ended.get("message"):
            said = str(ended["message"])
            return (cause(said) if name == ETCDUTL else said)[:_LONGEST]
    return ""


def _ran(pod: Json) -> bool:
    """Whether etcd has started in the pod."""
    started = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return any(one["name"] == naming.ETCD_CONTAINER and reading.has_run(one) for one in started)


def _crashes(pod: Mapping[str, Any]) -> bool:
    """Whether etcd keeps failing in the pod."""
    every = all_containers(pod.get("status") or {})
    return any(one["name"] == naming.ETCD_CONTAINER and is_crashing(one) for one in every)


def _is_done(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's work is done. Its Job is not complete yet if admission has added a
    container, such as a service mesh's: that may never end. And etcd, which was stopped, may have
    been started once more, and fails, as its configuration is gone."""
    return any(name == _LAST and how.get("exitCode") == 0 for name, how in jobs.ended(pod))


def _failed(raw: Json) -> int:
    """How many pods of the Job have failed, including those that no longer exist."""
    return int((raw.get("status") or {}).get("failed") or 0)


def _names(pods: Iterable[Json]) -> tuple[str, ...]:
    return tuple(sorted(pod["metadata"]["name"] for pod in pods))


def _label(pod: Json, name: str) -> str:
    return str(labels_of(pod).get(name, ""))


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
