"""`spec.recovery`: the user's request to continue a cluster without quorum from one member's data.

It names the cluster ID and the epoch in status. So the same text has no effect on another cluster,
nor on this one after the requested recovery has begun.
"""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful import identity, naming
from etcd_stateful.api.reading import Reader

LAST_EPOCH = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery that the spec asks for."""

    survivor: str
    """Name of the pod whose volume the cluster continues from."""
    cluster_id: int
    epoch: int
    fenced: tuple[str, ...] = ()
    """Pods that cannot confirm that they have stopped, but are off for good, as the user knows."""


def read_recovery(reader: Reader, cluster: str) -> Recovery | None:
    """Reads `spec.recovery`; None if it is absent or has problems."""
    if not reader.raw:
        return None
    found = len(reader.problems)
    survivor = reader.text("survivor")
    _check_pod(reader, "survivor", survivor, cluster)
    fenced = _names(reader, cluster)
    if survivor in fenced:
        reader.problem("fenced", f"lists {survivor}, the survivor: its volume is needed")
    cluster_id, epoch = _cluster_id(reader), reader.number("epoch", 0, 1, LAST_EPOCH)
    if not reader.has("epoch"):
        reader.problem("epoch", "is missing: copy it from status.epoch")
    if len(reader.problems) > found:
        return None
    return Recovery(survivor, cluster_id, epoch, fenced)


def _cluster_id(reader: Reader) -> int:
    text = reader.text("clusterID")
    try:
        return identity.from_hex(text)
    except ValueError:
        reader.problem(
            "clusterID",
            f"must be the hexadecimal ID in status.clusterID, found {text[:60]!r}",
        )
        return 0


def _names(reader: Reader, cluster: str) -> tuple[str, ...]:
    value = reader.listed("fenced", "pods")
    for name in value:
        _check_pod(reader, "fenced", name, cluster)
    return tuple(sorted(set(value)))


def _check_pod(reader: Reader, key: str, name: str, cluster: str) -> None:
    if naming.ordinal_of(cluster, name) is None:
        example = naming.pod(cluster, 0)
        reader.problem(key, f"must name a pod of this cluster, like {example}, found {name[:60]!r}")
