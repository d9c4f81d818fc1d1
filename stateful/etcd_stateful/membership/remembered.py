"""A cluster whose Secret is lost: its ID, epoch and version, as everything else tells them.

A lost Secret never leads to an empty cluster (I11), nor to another version than its members ran: a
default is never applied twice (I9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.identity import to_hex
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import replicas
from etcd_stateful.membership.observation import Observation
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.versions import Version


def record(seen: Observation, cluster_id: int) -> Bootstrap:
    """The cluster as it was, as far as anything tells."""
    size, epoch = min(replicas.wanted(seen), naming.MAX_SIZE), _epoch(seen, cluster_id)
    told = _told(seen)
    version = told or seen.last_version or seen.cluster.version
    uid, links = seen.cluster.uid, seen.cluster.links
    taken_on = records.adopted(uid, cluster_id, str(version), size, epoch=epoch, links=links)
    return replace(taken_on, before=_version_before(seen, version), untried=told is None)


def cluster_ids(seen: Observation) -> set[int]:
    """What claims and pods, etcd or the status remember of a cluster's ID."""
    last = {seen.last_cluster_id} if seen.last_cluster_id is not None else set()
    held = {one for _, one in _on_record(seen)}
    # Other claims are still of an attempt before the one that formed.
    return (held & last or held) | answering(seen) or last


def answering(seen: Observation) -> set[int]:
    """The cluster IDs that etcd answers with."""
    said = {status.cluster_id for status in seen.statuses.values()}
    strange = {other for at, other in seen.strangers.items() if other != _of_before(seen, at)}
    return said | strange | ({seen.etcd.cluster_id} if seen.etcd else set())


def in_words(seen: Observation) -> str:
    """What remembers which cluster's ID."""
    said = [*_on_record(seen), *(("etcd", one) for one in sorted(answering(seen)))]
    return ", ".join(f"{what} says {to_hex(one)}" for what, one in said)


def _on_record(seen: Observation) -> Iterator[tuple[str, int]]:
    """The ID that each claim and each pod has on record, and which of them it is."""
    yield from ((f"claim {one.name}", one.record.cluster_id) for one in seen.claims if one.record)
    yield from ((f"pod {one.name}", one.record.cluster_id) for one in seen.pods if one.record)


def pods_that_answer_with(seen: Observation, ids: Collection[int]) -> list[str]:
    """Names of the pods whose etcd answers with one of these cluster IDs."""
    served = {at: status.cluster_id for at, status in seen.statuses.items()}
    said = {**seen.strangers, **served}
    return [naming.pod(seen.cluster.name, at) for at in sorted(said) if said[at] in ids]


def _of_before(seen: Observation, ordinal: int) -> int | None:
    """The cluster ID that its volume has on record, and that is no surprise: a member of before a
    recovery or a restore, or of an attempt before this one, has yet to be stopped."""
    claim, pod = seen.claim(ordinal), seen.pod(ordinal)
    record = claim.record if claim else pod.record if pod else None
    return record.cluster_id if record else None


def _epoch(seen: Observation, cluster_id: int) -> int:
    """Claims remember it; what is of an earlier one has ended with a recovery."""
    held = [claim.record for claim in seen.claims if claim.record]
    epochs = [record.epoch for record in held if record.cluster_id == cluster_id]
    return max(epochs, default=records.FIRST_EPOCH)


def _told(seen: Observation) -> Version | None:
    """By what pods are made from, or else by those that have run etcd. Of several minors the lowest
    is what all members can be brought to; of its patches, the one of most pods."""
    if seen.stateful_set and (live := version_of(seen.stateful_set)):
        return live
    ran = Counter(_have_run(seen))
    return min(ran, key=lambda one: (one.major, one.minor, -ran[one], one), default=None)


def _have_run(seen: Observation) -> list[Version]:
    return [pod.made_for for pod in seen.pods if pod.etcd_started and pod.made_for]


def _version_before(seen: Observation, now: Version) -> str:
    """What a change of the version has not reached yet is a way back from it (see `upgrade`).

    By the pods in which etcd has started: nobody asks etcd while there is no record. Of several
    versions the one of another minor is what the change comes from.
    """
    others = {version for version in _have_run(seen) if version != now}
    return str(min(others, key=lambda one: (one.minor == now.minor, one), default=""))
