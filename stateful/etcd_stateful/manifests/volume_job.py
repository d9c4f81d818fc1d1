"""The common part of the Jobs that work on a member's volume while no pod uses it: recovery and
restore. They are scheduled like the member's pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import AS_MADE
from etcd_stateful.manifests import start_settings
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.manifests.jobs import admitted
from etcd_stateful.manifests.pod import RESTRICTED_CONTAINER, data_mount, downward

LABEL: Final = "etcd-recovery"
"""Differs from the label of the members' pods, so that no Service or StatefulSet selects these."""

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def job(
    cluster: EtcdCluster,
    name: str,
    notes: Mapping[str, str],
    spec: Manifest,
    pod: Manifest,
    pod_labels: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """The Job's manifest.

    Args:
        notes: its annotations, which say what it was created for.
        spec: the Job's spec without the template.
        pod: the pod's spec.
        pod_labels: further labels of the pod.
    """
    described = metadata(cluster, name)
    described |= {"labels": labels(cluster.name), "annotations": dict(notes)}
    made = {
        "labels": {**admitted(cluster.pod.labels), **pod_labels, **labels(cluster.name)},
        "annotations": _annotations(cluster, pod),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": described,
        "spec": {**spec, "template": {"metadata": made, "spec": pod}},
    }


def _annotations(cluster: EtcdCluster, pod: Manifest) -> dict[str, str]:
    """The spec's annotations of pods, but for AppArmor's of containers that only members' pods
    have: the API server would refuse the Job."""
    there = {one["name"] for one in (*pod["initContainers"], *pod["containers"])}
    return {
        key: text
        for key, text in cluster.pod.annotations.items()
        if not key.startswith(_APPARMOR) or key.removeprefix(_APPARMOR) in there
    }


def labels(cluster: str) -> dict[str, str]:
    """The labels of the Job and its pod."""
    return naming.selector(cluster) | {
        naming.LABEL_NAME: LABEL,
        naming.LABEL_COMPONENT: "recovery",
        naming.LABEL_PART_OF: cluster,
    }


def spec_hash(cluster: EtcdCluster) -> str:
    """Hash of the spec that the Job is made from. Its pod mounts no certificates, so it is the same
    throughout a rotation: a Job that restores a large backup is not begun again for that."""
    return replace(cluster, trust=AS_MADE).template_hash


def environment(cluster: EtcdCluster, member: str, epoch: int) -> list[Manifest]:
    """The variables that `start` has in the member's pod: the containers act in its place."""
    return [
        {"name": "POD_NAME", "value": member},
        downward("POD_UID", "metadata.uid"),
        {"name": "POD_IP", "value": "127.0.0.1"},
        start_settings.variable(cluster, epoch),
    ]


def data_volume(member: str) -> Manifest:
    """The member's claim as a volume, with the same volume name as in the member's pod."""
    claim = {"claimName": naming.claim_of(member)}
    return {"name": naming.DATA_VOLUME, "persistentVolumeClaim": claim}


def container(
    module: str, name: str, variables: list[Manifest], image: str, *mounts: Manifest
) -> Manifest:
    """A container that runs a module of the operator's image on the volume.

    Args:
        name: also the module's argument, by which it knows which container it is.
        mounts: further mounts.
    """
    return {
        "name": name,
        "image": image,
        "command": ["python3", "-m", module, name],
        "env": variables,
        "volumeMounts": [data_mount(), *mounts],
        "securityContext": RESTRICTED_CONTAINER,
    }
