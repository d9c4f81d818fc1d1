"""Decides which members of a cluster to ask, at which address, with which certificate, and how
long to wait for the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from etcd_operator.etcd.api import READ_SECONDS, Endpoint, Identity
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import links
from etcd_stateful.observed.members import MemberStatus

YOUNG_SECONDS: Final = 30.0
YOUNG_PATIENCE: Final = 0.25
"""A member that starts accepts connections before it serves. Until then each call lasts until its
deadline and delays the whole pass. So calls to young pods have a short deadline until they are
ready."""


def endpoints(base: Observation, identity: Identity | None = None) -> dict[int, Endpoint]:
    """The endpoints of members that may answer, by ordinal.

    Without a bootstrap record no member is asked, because only the cluster ID in it proves that the
    right cluster answers. Without a client certificate, members that serve only TLS are not asked.
    """
    bootstrap = base.bootstrap
    if bootstrap is None:
        return {}
    places: dict[int, Endpoint] = {}
    for pod in base.pods:
        # A pod that is being deleted no longer counts, and may let a call hang.
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
    """Seconds to wait until the member of this ordinal answers a status call."""
    pod = base.pod(ordinal)
    starts = pod is not None and pod.age < YOUNG_SECONDS and not pod.ready
    return YOUNG_PATIENCE if starts else READ_SECONDS


def list_order(statuses: Mapping[int, MemberStatus]) -> list[int]:
    """Voters that know a leader, sorted by the latest term; within a term the leader comes first.

    A member without a leader would not answer before the deadline, nor would a leader that was
    deposed and does not know it yet.
    """
    able = [
        (-status.term, status.leader_id != status.member_id, ordinal)
        for ordinal, status in statuses.items()
        if status.leader_id and not status.learner
    ]
    return [ordinal for *_, ordinal in sorted(able)]
