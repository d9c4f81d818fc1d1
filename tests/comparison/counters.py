"""How much data members had to fetch from others, by etcd's own metrics."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass

from sides import Side

RECEIVED = "etcd_network_peer_received_bytes_total"
SNAPSHOTS = "etcd_network_snapshot_receive_success"
BEGAN = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class Fetched:
    resyncs: int
    received: int


def fetched(side: Side, since: float) -> Fetched:
    """Counts of members whose process began after `since` (seconds since 1970), so that the counts
    cover this time only. They include a few kilobytes per second of the load, on both sides.
    """
    resyncs = received = 0.0
    for pod in side.pods():
        try:
            found = counters(page(side, pod))
        except OSError:
            continue  # The member does not run.
        if found.get(BEGAN, 0.0) > since:
            resyncs += found.get(SNAPSHOTS, 0.0) > 0
            received += found.get(RECEIVED, 0.0)
    return Fetched(int(resyncs), int(received))


def counters(text: str) -> dict[str, float]:
    """Values by name of the metric, added up over labels."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in (RECEIVED, SNAPSHOTS, BEGAN):
            found[name] = found.get(name, 0.0) + float(line.rpartition(" ")[2])
    return found


def page(side: Side, pod: str) -> str:
    host, port = side.reach.pod(side.namespace, pod, 2381)
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=2) as answer:
        return str(answer.read().decode())
