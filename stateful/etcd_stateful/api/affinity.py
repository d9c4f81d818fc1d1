"""`spec.pod.affinity`: passed on unchanged, unless it selects pods of other namespaces.

Such a term would reveal where pods of another namespace run, and could keep them off nodes, to
anybody who may edit an EtcdCluster but may not even list those pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_stateful.api.reading import Reader

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ELSEWHERE: Final = ("namespaces", "namespaceSelector")


def read_affinity(pod: Reader) -> Mapping[str, Any] | None:
    """`affinity` unchanged; None where the spec has none. A term that selects pods of other
    namespaces is a problem."""
    if not pod.has("affinity"):
        return None
    affinity = pod.object("affinity")
    for term in _terms(affinity):
        for key in _ELSEWHERE:
            if term.has(key):
                term.problem(key, "must not select pods of other namespaces; remove it")
    return dict(affinity.raw)


def _terms(affinity: Reader) -> Iterator[Reader]:
    for kind in ("podAffinity", "podAntiAffinity"):
        wanted = affinity.object(kind)
        yield from wanted.items(_REQUIRED)
        yield from (one.object("podAffinityTerm") for one in wanted.items(_PREFERRED))
