"""Whom of a cluster's members to ask, where, as whom, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from etcd_operator.etcd.api import READ_SECONDS, Endpoint, Identity
from etcd_stateful.membership import links
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.members import MemberStatus

YOUNG_SECONDS: Final = 30.0
YOUNG_PATIENCE: Final = 0.25
"""A member that starts takes connections before it serves: until it does, each question lasts to
its deadline, and what else the cluster waits for waits along. So young pods get a short one until
they are ready."""


def endpoints(base: Observation, identity: Identity | None = None) -> dict[int, Endpoint]:
    """Where members may answer, and as whom, by ordinal.

    Without a record of the cluster's ID nobody is asked: there would be no telling who answers.
    Without a certificate to show no member is that serves TLS alone.
    """
    bootstrap = base.bootstrap
    if bootstrap is None:
        return {}
    places: dict[int, Endpoint] = {}
    for pod in base.pods:
        # One that is on its way out is counted on no more, and may let a question hang.
        if pod.deleting or not pod.etcd_started or pod.in_start or not pod.address:
            continue
        served = links.levels_of(base, pod).client_schemes
        encrypted = identity is not None and "https" in served
        if not encrypted and "http" not in served:
            continue
        claim = base.claim(pod.ordinal) if base.cluster.durable else None
        record = claim.record if claim else pod.record
        known = record is not None and record.cluster_id == bootstrap.cluster_id
        member_id = record.member_id if record and known else None
        host = base.cluster.host(pod.ordinal)
        tls = replace(identity, host=host) if identity and encrypted else None
        places[pod.ordinal] = Endpoint(pod.address, bootstrap.cluster_id, member_id, tls=tls)
    return places


def deadline(base: Observation, ordinal: int) -> float:
    """Seconds that the member of this ordinal has to answer a status."""
    pod = base.pod(ordinal)
    starts = pod is not None and pod.age < YOUNG_SECONDS and not pod.ready
    return YOUNG_PATIENCE if starts else READ_SECONDS


def list_order(statuses: Mapping[int, MemberStatus]) -> list[int]:
    """Voters that know a leader, the latest term first, in it the leader itself.

    One without a leader would keep the question until its deadline, and a deposed leader that does
    not know it yet, too.
    """
    able = [
        (-status.term, status.leader_id != status.member_id, ordinal)
        for ordinal, status in statuses.items()
        if status.leader_id and not status.learner
    ]
    return [ordinal for *_, ordinal in sorted(able)]
