"""The StatefulSet and its claims. Its pod template is in `pod`.

`podManagementPolicy` is Parallel, because members need each other to become ready. The update
strategy is OnDelete, because only the operator decides which pod is restarted next. The rendered
bytes must stay the same: a change here makes a new revision of every cluster's StatefulSet, so it
belongs in the changelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etcd_stateful import naming
from etcd_stateful.api.cluster import DEFAULT_STORAGE, EtcdCluster
from etcd_stateful.api.tls import NO_TLS, Links, dump_links, load_links
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.manifests.pod import template
from etcd_stateful.metadata import annotations_of
from etcd_stateful.records.bootstrap import FIRST_EPOCH
from etcd_stateful.untrusted import epoch_of, loads
from etcd_stateful.versions import Version, parse_version


def stateful_set(
    cluster: EtcdCluster,
    *,
    replicas: int,
    operator_image: str,
    epoch: int = FIRST_EPOCH,
    begun: int = 0,
    assumed: bool = False,
) -> Manifest:
    """The StatefulSet of the cluster.

    Args:
        epoch: the epoch that `start` expects of the data on the volumes.
        begun: a later epoch that a lost recovery has begun, noted for when this record is lost too.
        assumed: whether the version is only assumed, noted for the same reason.
    """
    described = metadata(cluster, cluster.name)
    described["annotations"] = {naming.VERSION_ANNOTATION: str(cluster.version)}
    if not cluster.links.are_plaintext:
        described["annotations"][naming.LINKS_ANNOTATION] = dump_links(cluster.links)
    if begun > epoch:
        described["annotations"][naming.BEGUN_ANNOTATION] = str(begun)
    if assumed:
        described["annotations"][naming.ASSUMED_ANNOTATION] = str(cluster.version)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": described,
        "spec": {
            "replicas": replicas,
            "serviceName": naming.headless_service(cluster.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "selector": {"matchLabels": naming.selector(cluster.name)},
            "template": template(cluster, operator_image, epoch),
            "volumeClaimTemplates": [_claim(cluster)] if cluster.durable else [],
        },
    }


def version_of(live: Mapping[str, Any]) -> Version | None:
    """The version that a live StatefulSet was rendered for; None if it does not say."""
    return parse_version(annotations_of(live).get(naming.VERSION_ANNOTATION, ""))


def is_assumed(live: Mapping[str, Any]) -> bool:
    """Whether the version of a live StatefulSet was only assumed when it was rendered."""
    noted = parse_version(annotations_of(live).get(naming.ASSUMED_ANNOTATION, ""))
    return noted is not None and noted == version_of(live)


def begun_in(live: Mapping[str, Any]) -> int:
    """The epoch noted as begun, beside that of the template; 0 if none is, or it is unreadable."""
    return epoch_of(annotations_of(live).get(naming.BEGUN_ANNOTATION, ""))


def links_of(live: Mapping[str, Any]) -> Links:
    """The links that a live StatefulSet was rendered for. Raises ValueError, KeyError or TypeError
    if they are unreadable."""
    text = annotations_of(live).get(naming.LINKS_ANNOTATION)
    return load_links(loads(text)) if text else NO_TLS


def _claim(cluster: EtcdCluster) -> Manifest:
    """The claim template. Claims have no owner reference, because they outlive the cluster; so an
    annotation says from the beginning which cluster they are for, and another that they stay."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": DEFAULT_STORAGE}},
        **dict(cluster.pod.claim or {}),
    }
    return {
        "metadata": {
            "name": naming.DATA_VOLUME,
            "labels": naming.labels(cluster.name),
            "annotations": {
                naming.CLUSTER_UID: cluster.uid,
                naming.ARGO_CD_OPTIONS: naming.KEPT,
            },
        },
        "spec": spec,
    }


def first_claim(cluster: EtcdCluster, ordinal: int) -> Manifest:
    """The claim of one ordinal, exactly as the StatefulSet controller would create it."""
    template = _claim(cluster)
    place = {"name": naming.claim(cluster.name, ordinal), "namespace": cluster.namespace}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": template["metadata"] | place,
        "spec": template["spec"],
    }
