"""Certificates that the members show, and new ones in their place."""

from __future__ import annotations

from collections.abc import Iterable

from harness.clusters import Cluster
from harness.waiting import eventually

KUBELET_SECONDS = 150
"""For a kubelet to bring an altered Secret into a pod: it looks once a minute, and a bit more."""


def serials(cluster: Cluster) -> list[int]:
    """Of the certificates that the members show, each."""
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
