"""The bootstrap record: written before anything starts, and latched once the cluster has formed
(I4, I7).

If an attempt can no longer form a cluster, because all its volumes are empty, another one with its
own token follows (`attempts`).
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import identity, naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership.beginning import bootstrap_source, remembered
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
    """Creates the Secret with the ticket key and the record, and holds if it is damaged."""
    name = naming.start_secret(seen.cluster.name)
    if seen.secret is None:
        return _begin(seen, name)
    record = seen.secret.bootstrap
    if seen.secret.newer:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage}. Install the newer operator again. Do not delete "
            "the Secret, or its records are lost",
        )
    if seen.secret.damage or record is None:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage or 'no record'}. Restore its content, or delete "
            "it: the operator then rebuilds the record from the claims",
        )
    if record.cluster_uid != seen.cluster.uid:
        return Hold(
            "SecretOfAnotherCluster",
            f"Secret {name} was written for a cluster with UID {record.cluster_uid}; delete it",
        )
    return None


def _begin(seen: Observation, name: str) -> Step:
    """A new record: rebuilt if anything is left of a cluster, otherwise that of a first attempt.

    A lost Secret never leads to an empty cluster (I11): if claims or the status know a cluster ID,
    the cluster counts as formed.
    """
    known, version = remembered.cluster_ids(seen), str(running_version(seen))
    if len(known) > 1:
        return Hold(
            "SplitBrain",
            f"Secret {name} is gone, and what is left belongs to different etcd clusters: "
            f"{remembered.in_words(seen)}. Nothing is touched. {_which_is_right(seen, known)}",
        )
    if known:
        return _rebuild(seen, name, known.pop())
    if running := next((pod.name for pod in seen.pods if pod.etcd_started), None):
        return Hold(
            "RecordsLost",
            f"etcd has started in pod {running}, but Secret {name}, the records on the claims and "
            "status.clusterID are all gone, so it is unknown which cluster this is and nothing is "
            "started. Put etcd's cluster ID into status.clusterID, in hexadecimal",
        )
    cluster, size = seen.cluster, seen.cluster.size
    if cluster.restore is not None:
        return bootstrap_source.first_record(seen, cluster.restore, version)
    peers, links = first_peers(cluster, size), cluster.links
    record = records.first_attempt(cluster.uid, peers, version, links=links)
    return CreateSecret(name, record, f"a cluster of {size} begins")


def _rebuild(seen: Observation, name: str, cluster_id: int) -> Step:
    """Pods of another cluster have to be stopped first: with the record, the right one would begin
    to serve beside them."""
    if others := remembered.pods_of_others(seen, cluster_id):
        live, names = seen.stateful_set, ", ".join(others)
        stop = f"scale StatefulSet {seen.cluster.name} to 0" if live else f"delete pods {names}"
        return Hold(
            "SplitBrain",
            f"Secret {name} is gone. The cluster to go on with is {identity.to_hex(cluster_id)}, "
            f"but etcd runs on data of another one in pods {names}. Two clusters must not serve "
            f"under one name: {stop}, and the record is rebuilt",
        )
    record = remembered.rebuilt_record(seen, cluster_id)
    return CreateSecret(name, record, "the record of an existing cluster is rebuilt")


def _which_is_right(seen: Observation, known: set[int]) -> str:
    """How the user names the cluster to go on with. The ID of one whose epoch has ended is not
    accepted: its volumes do not run any more."""
    begun = remembered.not_ended(seen)
    if len(begun) == 1 and begun < known:
        only = identity.to_hex(*begun)
        return (
            f"Only the data of {only} can run: it alone has the epoch that pods of the StatefulSet "
            "expect. Stop etcd of the other cluster if it runs, and put "
            f"{only} into status.clusterID"
        )
    return (
        "Find out which data is right, stop etcd of the other cluster, and put the right cluster "
        "ID into status.clusterID"
    )


def running_version(seen: Observation) -> Version:
    """The version that pods run or will run next. Only a version change moves it (I9)."""
    record = seen.bootstrap
    noted = parse_version(record.version) if record else None
    live = version_of(seen.stateful_set) if seen.stateful_set else None
    return noted or live or seen.cluster.version


def at_running_version(seen: Observation) -> EtcdCluster:
    """The declared cluster, but with the version that pods run or will run next."""
    return replace(seen.cluster, version=running_version(seen))


def behind_the_spec(seen: Observation) -> list[Pod]:
    """Pods without the newest template that were created from an older spec. The other outdated
    ones were created from this one, by a template that differed for another reason."""
    outdated, now = seen.outdated, at_running_version(seen).template_hash
    return [pod for pod in seen.pods if pod.name in outdated and pod.spec_hash != now]


def first_peers(cluster: EtcdCluster, size: int) -> dict[str, str]:
    """Peer URLs by member name, for an initial cluster of this size."""
    return {naming.pod(cluster.name, ordinal): cluster.peer_url(ordinal) for ordinal in range(size)}


def two_clusters(seen: Observation) -> Step | None:
    """Holds if two etcd clusters answer: a step could reach either one."""
    record = recorded(seen)
    if others := remembered.answering(seen) - {record.cluster_id}:
        ids = ", ".join(identity.to_hex(other) for other in sorted(others))
        names = ", ".join(remembered.pods_that_answer_with(seen, others))
        where = f" in pods {names}" if names else ""
        return Hold(
            "SplitBrain",
            f"etcd answers with cluster ID {ids}{where}, but the record says "
            f"{identity.to_hex(record.cluster_id)}. Nothing is touched until they agree: stop the "
            "pods with the wrong data; or, if the record was put back from an old copy, delete "
            f"Secret {naming.start_secret(seen.cluster.name)}, and it is rebuilt from the claims",
        )
    return None


def latch(seen: Observation) -> Step | None:
    """Records that the cluster has formed, once a linearizable answer proves it."""
    record = recorded(seen)
    if seen.etcd is None or record.latched:
        return None
    reason = "the cluster has formed; clients can connect"
    return WriteBootstrap.of(seen, records.latch(record), reason)


def latch_again(seen: Observation) -> Step | None:
    """The same once more if the cluster had formed before: then the Secret was put back from before
    that. A member without data would get its ticket again, or all of them would form an empty
    cluster."""
    record = recorded(seen)
    if record.latched or not (why := remembered.why_formed(seen)):
        return None
    if (known := remembered.cluster_ids(seen)) and record.cluster_id not in known:
        return _old_copy(seen, f"{why}, but not as cluster {identity.to_hex(record.cluster_id)}")
    formed = records.restored(record, record.size) if record.restoring else records.latch(record)
    return WriteBootstrap.of(seen, formed, f"{why}: its record was put back from before that")


def older_record(seen: Observation) -> Step | None:
    """Holds if a recovery or a restore in place has begun an epoch that the record does not know.
    Volumes of the epoch before, which has ended, would run again. Asked once the volumes had their
    chance to correct the record (`recovery.correct_record`)."""
    record, epoch = recorded(seen), remembered.epoch_of_pods(seen)
    taking = record.successor
    if taking and taking.cluster_id == seen.last_cluster_id:
        return _old_copy(seen, "by the status, the restore on record has taken over")
    if epoch <= record.latest_epoch or not remembered.cluster_ids(seen):
        return None  # or there is nothing to rebuild it from
    if remembered.is_begun_alone(seen):
        words = f"the StatefulSet is of epoch {epoch}, which no volume is recorded with"
        return note_begun(seen, epoch, words)
    return _old_copy(seen, f"pods are made for epoch {epoch}, and the record is of {record.epoch}")


def note_begun(seen: Observation, epoch: int, why: str) -> Step | None:
    """Notes an epoch of which nothing is left but what has begun it; None if that is on record."""
    record = recorded(seen)
    if epoch <= record.begun:
        return None
    return WriteBootstrap.of(seen, replace(record, begun=epoch), why)


def _old_copy(seen: Observation, why: str) -> Hold:
    secret = naming.start_secret(seen.cluster.name)
    return Hold(
        "SplitBrain",
        f"{why}: Secret {secret} was put back from an old copy. Nothing is started from its "
        "record: delete the Secret, and the record is rebuilt from the claims",
    )


def is_of_past_epoch(seen: Observation, pod: Pod) -> bool:
    """Whether the pod was created for an epoch that a recovery or a restore has ended: it must not
    get a ticket."""
    return pod.epoch is not None and pod.epoch < recorded(seen).epoch
