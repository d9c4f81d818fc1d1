"""Where pods may run: an affinity of Kubernetes' own type, handed on unless it looks elsewhere.

A term about pods of other namespaces would tell where those run, and could keep nodes free of them:
for anybody who may edit an EtcdCluster, and may not even list those pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_stateful.api.reading import Reader

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ELSEWHERE: Final = ("namespaces", "namespaceSelector")


def read_affinity(pod: Reader) -> Mapping[str, Any] | None:
    """`affinity` as it is; None where the spec has none. One that looks at pods of other namespaces
    is a problem."""
    if not pod.has("affinity"):
        return None
    affinity = pod.object("affinity")
    for term in _terms(affinity):
        for key in _ELSEWHERE:
            if term.has(key):
                term.problem(key, "looks at pods of other namespaces; leave it out")
    return dict(affinity.raw)


def _terms(affinity: Reader) -> Iterator[Reader]:
    for kind in ("podAffinity", "podAntiAffinity"):
        wanted = affinity.object(kind)
        yield from wanted.items(_REQUIRED)
        yield from (one.object("podAffinityTerm") for one in wanted.items(_PREFERRED))
