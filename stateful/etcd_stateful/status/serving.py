"""Which members should serve, which do, and why the others do not, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etcd_stateful import naming
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.epochs.quorum import VOLUMES
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.members.loss import why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.pods import Pod


def expected(seen: Observation, stored: Mapping[str, Any]) -> list[int]:
    """The ordinals of the voters: from the member list, or from the last status while etcd is
    silent.

    A pod that has yet to become a member is not expected to serve.
    """
    if seen.etcd is not None:
        return [seat.ordinal for seat in roster.voters(seen)]
    known = [
        naming.ordinal_of(seen.cluster.name, str(one.get("name")))
        for one in stored.get("memberStatus") or ()
        if one.get("role") != "learner"
    ]
    listed = sorted(ordinal for ordinal in known if ordinal is not None)
    return listed or list(range(seen.replicas or replicas.wanted(seen)))


def serving(seen: Observation, ordinals: list[int]) -> list[int]:
    """Those of the ordinals whose pod is Ready and not being deleted."""
    ready = {pod.ordinal for pod in seen.pods if pod.takes_traffic}
    return [ordinal for ordinal in ordinals if ordinal in ready]


def not_serving(seen: Observation, stored: Mapping[str, Any]) -> str:
    """Which members do not serve, and why, if that is known."""
    every = expected(seen, stored)
    up = serving(seen, every)
    said = [
        f"{naming.pod(seen.cluster.name, ordinal)} ({_why(seen, ordinal)})"
        for ordinal in every
        if ordinal not in up
    ]
    return f"not serving: {', '.join(said)}" if said else ""


def _why(seen: Observation, ordinal: int) -> str:
    seat = roster.seat_named(seen, naming.pod(seen.cluster.name, ordinal))
    if seat and (lost := why_lost(seen, seat)):
        return lost
    pod = seen.pod(ordinal)
    if pod is None:
        taken = wording.name_taken(seen, ordinal)
        return "no pod: another one has its name" if taken else "no pod"
    if pod.trouble or pod.deleting:
        return pod.trouble or "stopping"
    if pod.in_start:
        return _of_start(pod)
    status = seen.statuses.get(ordinal)
    if status and not status.leader_id:
        return "without a leader"
    return f"not ready: {pod.unready}" if pod.unready else "not ready"


def _of_start(pod: Pod) -> str:
    if pod.answer is None:
        return "in its init container start"
    finding = pod.answer.finding
    words = VOLUMES.get(finding.found, "it is starting")
    return f"{words}: {finding.detail}" if finding.detail else words
