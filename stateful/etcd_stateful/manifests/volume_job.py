"""Jobs that work on a member's volume while no pod of the cluster is there: those of a recovery and
of a restore. They are scheduled like the pod whose volume it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests import start_settings
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.manifests.pod import RESTRICTED_CONTAINER, data_mount, downward

LABEL: Final = "etcd-recovery"
"""Another name than the members' pods have: no Service leads here, and no StatefulSet adopts it."""

SURVIVOR: Final = f"{naming.GROUP}/survivor"


def job(
    cluster: EtcdCluster,
    name: str,
    notes: Mapping[str, str],
    spec: Manifest,
    pod: Manifest,
    pod_labels: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """The Job as a whole.

    Args:
        notes: its annotations, by which it is known again.
        spec: but for its template.
        pod: the spec of its pod.
        pod_labels: of its pod, beside those of the cluster's pods.
    """
    described = metadata(cluster, name)
    described |= {"labels": labels(cluster.name), "annotations": dict(notes)}
    made = {
        "labels": {**cluster.pod.labels, **pod_labels, **labels(cluster.name)},
        "annotations": dict(cluster.pod.annotations),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": described,
        "spec": {**spec, "template": {"metadata": made, "spec": pod}},
    }


def labels(cluster: str) -> dict[str, str]:
    """Labels of such a Job and its pod."""
    return naming.selector(cluster) | {
        naming.LABEL_NAME: LABEL,
        naming.LABEL_COMPONENT: "recovery",
        naming.LABEL_PART_OF: cluster,
    }


def environment(cluster: EtcdCluster, member: str, epoch: int) -> list[Manifest]:
    """What `start` would be told in the member's pod, which the containers stand in for."""
    return [
        {"name": "POD_NAME", "value": member},
        downward("POD_UID", "metadata.uid"),
        {"name": "POD_IP", "value": "127.0.0.1"},
        start_settings.variable(cluster, epoch),
    ]


def data_volume(member: str) -> Manifest:
    """The member's claim, under the name that members mount it by."""
    claim = {"claimName": f"{naming.DATA_VOLUME}-{member}"}
    return {"name": naming.DATA_VOLUME, "persistentVolumeClaim": claim}


def container(
    module: str, name: str, variables: list[Manifest], image: str, *mounts: Manifest
) -> Manifest:
    """One that runs a module of the operator's image on the volume.

    Args:
        name: also the word that tells the module which of its containers it is.
        mounts: beside that of the volume.
    """
    return {
        "name": name,
        "image": image,
        "command": ["python3", "-m", module, name],
        "env": variables,
        "volumeMounts": [data_mount(), *mounts],
        "securityContext": RESTRICTED_CONTAINER,
    }
