"""`spec.pod` of an EtcdCluster: what its pods are given beside etcd's options.

Fields of Kubernetes' own types are handed on verbatim; the API server checks them when the
StatefulSet is applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.affinity import read_affinity
from etcd_stateful.api.options import ENVIRONMENT_PREFIX
from etcd_stateful.api.reading import Problem, Reader, check_labels

_DOMAIN: Final = re.compile(r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+\.?")


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """coreos's `spec.pod`, and what we add to it."""

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
    """The variables that coreos manifests set options of etcd with."""
    options: dict[str, str] = {}
    for item in environment:
        name, value = item.text("name"), item.text("value")
        if not name:
            item.problem("name", "is missing")
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if item.has("valueFrom"):
            item.problem("valueFrom", f"cannot give {name[:60]}, an option of etcd: say its value")
        elif value:
            options[name] = value
    return options


def read_pod(pod: Reader, environment: tuple[Mapping[str, Any], ...]) -> PodPolicy:
    """`spec.pod`, with `etcdEnv` as it was read before."""
    domain = pod.text("ClusterDomain")
    if domain and not _DOMAIN.fullmatch(domain):
        pod.problem("ClusterDomain", f"must be like .cluster.local, found {domain[:60]!r}")
    if pod.has("persistentVolumeClaimSpec") and pod.has("emptyDir"):
        pod.problem("emptyDir", "excludes persistentVolumeClaimSpec; choose one of them")
    _check_claim(pod.object("persistentVolumeClaimSpec"))
    labels, annotations = pod.texts("labels"), pod.texts("annotations")
    check_labels(pod, labels)
    _check_annotations(pod, annotations)
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
    """What fills or names a volume: members start on empty ones of their own, of this namespace."""
    for key in ("dataSource", "dataSourceRef", "volumeName"):
        if claim.has(key):
            claim.problem(key, "gives members another's volume or data; leave it out")


def _check_annotations(pod: Reader, annotations: Mapping[str, str]) -> None:
    for key in annotations:
        if key == "etcd.version" or key.startswith(naming.GROUP):
            pod.problem(f"annotations[{key[:60]}]", "is the operator's own; choose another")


def ignored_in_pod(pod: Reader) -> tuple[Problem, ...]:
    """coreos's fields that are accepted and do nothing here, each with the reason."""
    notes: list[Problem] = []
    if pod.has("busyboxImage"):
        notes.append(
            Problem("spec.pod.busyboxImage", "has no effect: names are checked without busybox")
        )
    return tuple(notes)
