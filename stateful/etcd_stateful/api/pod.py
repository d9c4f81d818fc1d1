"""`spec.pod` of an EtcdCluster: the settings of its pods, without etcd's options.

Fields of Kubernetes' own types are passed on verbatim. The API server checks them when the
StatefulSet is applied; before Kubernetes 1.34, only in each pod that is made from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.api.affinity import read_affinity
from etcd_stateful.api.options import ENVIRONMENT_PREFIX
from etcd_stateful.api.reading import Problem, Reader, check_annotations, check_labels

_DOMAIN: Final = re.compile(r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+\.?")


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The coreos operator's `spec.pod`, with additions."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    affinity: Mapping[str, Any] | None
    anti_affinity: bool
    resources: Mapping[str, Any] | None
    environment: tuple[Mapping[str, Any], ...]
    claim: Mapping[str, Any] | None
    empty_dir: Mapping[str, Any] | None
    security_context: Mapping[str, Any] | None
    image_pull_secrets: tuple[Mapping[str, Any], ...]
    priority_class: str
    dns_timeout_seconds: int
    cluster_domain: str


def options_in_environment(environment: tuple[Reader, ...]) -> dict[str, str]:
    """Variables of `etcdEnv` that set options of etcd (`ETCD_...`), as in coreos manifests."""
    options: dict[str, str] = {}
    names: set[str] = set()
    for item in environment:
        name, value = item.text("name"), item.text("value")
        if not name:
            item.problem("name", "is missing")
        elif name in names:
            item.problem("name", f"{name[:60]} is set twice; remove one of the two")
        names.add(name)
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if item.has("valueFrom"):
            words = f"cannot be used for {name[:60]}, an option of etcd: set value instead"
            item.problem("valueFrom", words)
        elif value:
            options[name] = value
    return options


def read_pod(pod: Reader, environment: tuple[Mapping[str, Any], ...]) -> PodPolicy:
    """Reads `spec.pod`.

    Args:
        environment: `etcdEnv`, which the caller has read.
    """
    domain = pod.text("ClusterDomain")
    if domain and not _DOMAIN.fullmatch(domain):
        pod.problem("ClusterDomain", f"must be like .cluster.local, found {domain[:60]!r}")
    if pod.has("persistentVolumeClaimSpec") and pod.has("emptyDir"):
        pod.problem("emptyDir", "cannot be combined with persistentVolumeClaimSpec; remove one")
    _check_claim(pod.object("persistentVolumeClaimSpec"))
    labels, annotations = pod.texts("labels"), pod.texts("annotations")
    check_labels(pod, labels)
    check_annotations(pod, annotations, "etcd.version")
    return PodPolicy(
        labels=labels,
        annotations=annotations,
        node_selector=pod.texts("nodeSelector"),
        tolerations=tuple(dict(item.raw) for item in pod.items("tolerations")),
        affinity=read_affinity(pod),
        anti_affinity=pod.flag("antiAffinity"),
        resources=pod.verbatim("resources"),
        environment=environment,
        claim=pod.verbatim("persistentVolumeClaimSpec"),
        empty_dir=pod.verbatim("emptyDir"),
        security_context=pod.verbatim("securityContext"),
        image_pull_secrets=tuple(dict(item.raw) for item in pod.items("imagePullSecrets")),
        priority_class=pod.text("priorityClassName"),
        dns_timeout_seconds=pod.number("DNSTimeoutInSecond", 0, 0, 3600),
        cluster_domain=domain.removesuffix("."),
    )


def _check_claim(claim: Reader) -> None:
    """Refuses fields that fill a volume or name one: a member starts on an empty volume of its own,
    in this namespace."""
    for key in ("dataSource", "dataSourceRef", "volumeName"):
        if claim.has(key):
            claim.problem(key, "cannot be set: members need empty volumes of their own; remove it")


def ignored_in_pod(pod: Reader) -> tuple[Problem, ...]:
    """Fields of the coreos operator that are accepted without effect, each with the reason."""
    notes: list[Problem] = []
    if pod.has("busyboxImage"):
        notes.append(
            Problem("spec.pod.busyboxImage", "has no effect: names are checked without busybox")
        )
    if pod.flag("antiAffinity") and pod.has("affinity"):
        words = "has no effect beside affinity: say there which pods to be away from"
        notes.append(Problem("spec.pod.antiAffinity", words))
    return tuple(notes)
