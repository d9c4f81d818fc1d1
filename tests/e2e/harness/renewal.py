"""The certificates that members present, and their renewal."""

from __future__ import annotations

from collections.abc import Iterable

from harness.clusters import Cluster
from harness.waiting import eventually

KUBELET_SECONDS = 150
"""For a kubelet to update a mounted Secret: it syncs once a minute, plus some delay."""


def serials(cluster: Cluster) -> list[int]:
    """Serial numbers of the certificates that the members present."""
    found = []
    for name in sorted(cluster.pods()):
        where = cluster.reach.pod(cluster.namespace, name, 2379)
        found.append(cluster.credentials().shown_at(where).serial_number)
    return found


def all_show_another(cluster: Cluster, before: Iterable[int]) -> None:
    eventually(
        "every member shows its new certificate",
        lambda: serials(cluster),
        lambda now: len(set(now)) == 1 and not set(now) & set(before),
        seconds=KUBELET_SECONDS,
    )
