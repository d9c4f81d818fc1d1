"""The bootstrap record: how a cluster is meant to begin, written down before anything starts, and
latched once it has formed (I4, I7).

An attempt that can no longer form a cluster, because every one of its volumes is still or again
empty, is followed by another with its own token (`attempts`).
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import identity, naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import bootstrap_source, remembered
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import (
    CreateSecret,
    Hold,
    Step,
    WriteBootstrap,
)
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records
from etcd_stateful.versions import Version, parse_version


def secret(seen: Observation) -> Step | None:
    """The Secret with key and record, before anything that needs it."""
    name = naming.start_secret(seen.cluster.name)
    if seen.secret is None:
        return _begin(seen, name)
    record = seen.secret.bootstrap
    if seen.secret.newer:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage}. Install that newer one again, and do not delete "
            "the Secret: what is written there would be lost",
        )
    if seen.secret.damage or record is None:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage or 'no record'}. Put back what it held, or delete "
            "it: the cluster is then taken on as its claims say",
        )
    if record.cluster_uid != seen.cluster.uid:
        return Hold(
            "SecretOfAnotherCluster",
            f"Secret {name} was written for a cluster with UID {record.cluster_uid}; delete it",
        )
    return None


def _begin(seen: Observation, name: str) -> Step:
    """A record from what is left of an older one, or a first attempt where nothing is.

    A lost Secret never leads to an empty cluster (I11): what the claims or the status remember of a
    cluster ID counts as formed.
    """
    known, version = remembered.cluster_ids(seen), str(running_version(seen))
    if len(known) > 1:
        return Hold(
            "SplitBrain",
            f"Secret {name} is gone, and what is left is of different etcd clusters: "
            f"{remembered.in_words(seen)}. Nothing is touched. Find out which data is right, and "
            "put its cluster ID into status.clusterID; no etcd may answer with another by then",
        )
    if known:
        record = remembered.record(seen, known.pop())
        return CreateSecret(name, record, "a cluster that exists is taken on with a new key")
    if running := next((pod.name for pod in seen.pods if pod.etcd_started), None):
        return Hold(
            "RecordsLost",
            f"etcd has started in pod {running}, and Secret {name}, the records on the claims and "
            "status.clusterID are all gone: nothing says which cluster this is, so nothing is "
            "started. Put etcd's cluster ID into status.clusterID, in hexadecimal",
        )
    cluster, size = seen.cluster, seen.cluster.size
    if cluster.restore is not None:
        return bootstrap_source.begin(seen, cluster.restore, version)
    peers, links = first_peers(cluster, size), cluster.links
    record = records.first_attempt(cluster.uid, peers, version, links=links)
    return CreateSecret(name, record, f"a cluster of {size} begins")


def running_version(seen: Observation) -> Version:
    """What pods run or would run next; only a version change, step by step, may move it (I9)."""
    record = seen.bootstrap
    noted = parse_version(record.version) if record else None
    live = version_of(seen.stateful_set) if seen.stateful_set else None
    return noted or live or seen.cluster.version


def as_running(seen: Observation) -> EtcdCluster:
    """What is declared, with the version that pods run or would run next."""
    return replace(seen.cluster, version=running_version(seen))


def first_peers(cluster: EtcdCluster, size: int) -> dict[str, str]:
    """Peer URLs by member name, for an initial cluster of this size."""
    return {naming.pod(cluster.name, ordinal): cluster.peer_url(ordinal) for ordinal in range(size)}


def one_cluster(seen: Observation) -> Step | None:
    """Holds where two clusters answer: any step would be done to one as if it were both."""
    record = recorded(seen)
    if others := remembered.answering(seen) - {record.cluster_id}:
        ids = ", ".join(identity.to_hex(other) for other in sorted(others))
        names = ", ".join(remembered.pods_that_answer_with(seen, others))
        where = f" in pods {names}" if names else ""
        return Hold(
            "SplitBrain",
            f"etcd answers with cluster ID {ids}{where}, the record says "
            f"{identity.to_hex(record.cluster_id)}. Nothing is touched until they agree",
        )
    return None


def latch(seen: Observation) -> Step | None:
    """Writes down that the cluster has formed, once a linearizable answer proves it."""
    record = recorded(seen)
    if seen.etcd is None or record.latched:
        return None
    reason = "the cluster has formed; clients are let in"
    return WriteBootstrap.of(seen, records.latch(record), reason)


def is_of_before(seen: Observation, pod: Pod) -> bool:
    """Made for an epoch that a recovery or a restore has ended: no volume or ticket suits it."""
    return pod.epoch is not None and pod.epoch < recorded(seen).epoch
