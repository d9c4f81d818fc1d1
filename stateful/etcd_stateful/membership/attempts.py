"""Edits of a cluster that has not formed: it begins anew as its spec says by now, where it can.

    nothing was handed out    the record is written anew, before anything is made by it; also for
                              a backup that the spec has come to name
    tickets were spent        once every volume is known to be empty: another attempt. A pod that
                              has its ticket and cannot get its image is made again for that, as
                              only `start` can tell
    etcd may have run         what is on its volume is of that version and those members, so the
                              edit waits until the cluster has formed, and a human is told. For
                              a backup it would then be too late: the cluster does not form

Each attempt has a token of its own, and with it other members: no two of them make one cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import DEFAULT
from etcd_stateful.membership import bootstrap_source, links
from etcd_stateful.membership.bootstrap import first_peers, running_version
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import DeletePod, Hold, Step, WriteBootstrap
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap

LATE_SECONDS: Final = 120.0
"""From the making of its pods to a cluster, images pulled and all; later something is amiss."""


def as_edited(seen: Observation) -> Step | None:
    """The spec has changed since the record was written, and nothing has come of that yet.

    No ledger entry means no ticket: it is written first, into the same version of the Secret.
    """
    record = recorded(seen)
    if not _is_open(record) or record.issued or _has_left_traces(seen):
        return None
    if (source := seen.cluster.restore) is not None:
        return bootstrap_source.begin_after_all(seen, source, _as_new(seen.cluster))
    following = _following(seen, max(seen.replicas, seen.cluster.size))
    if not _differs(seen, following):
        return None
    reason = "the cluster begins as its spec says by now: nothing has come of what it said before"
    return WriteBootstrap.of(seen, following, reason, final=True)


def without_backup(seen: Observation) -> Step | None:
    """A backup that the spec has named too late. Asked before anything more comes of this attempt:
    an empty cluster must not take the backup's place (I11)."""
    said = _backup_in_words(seen)
    return Hold("BegunOtherwise", said) if said else None


def another_attempt(seen: Observation) -> Step | None:
    """A new attempt once every ordinal waits with an empty volume and one has spent its ticket; or,
    where none was due yet, once the spec asks for another."""
    bootstrap = recorded(seen)
    if bootstrap.latched or seen.etcd is not None:
        return None
    pods = [seen.pod(ordinal) for ordinal in range(len(bootstrap.members))]
    if not all(pod and pod.waits_empty for pod in pods):
        return None
    size = max(len(pods), seen.cluster.size)
    following = _following(seen, size)
    spent = any(pod and has_spent_ticket(seen, pod) for pod in pods)
    if not spent and (bootstrap.issued or not _differs(seen, following)):
        return None  # as long as a claim is missing, another attempt would get no further
    reason = f"attempt {bootstrap.attempt} left only empty volumes"
    return WriteBootstrap.of(seen, following, reason, final=True)


def has_spent_ticket(seen: Observation, pod: Pod) -> bool:
    """It waits empty, and its member's one ticket was for another run."""
    first = recorded(seen).member(pod.name)
    run = recorded(seen).challenge(first.member_id) if first else None
    return bool(run and pod.waits_empty and pod.answer and pod.answer.challenge != run)


def look_again(seen: Observation) -> Step | None:
    """Pods that have their tickets and no image, where the spec asks for another beginning: made
    again, so that `start` says whether their volumes are still empty.

    Not where one may have data: then no attempt follows, and they would be made again for ever.
    """
    record = recorded(seen)
    if not _is_open(record) or seen.etcd is not None or seen.statuses:
        return None
    following = _following(seen, max(len(record.members), seen.cluster.size))
    if not _differs(seen, following) or any(_may_have_data(pod) for pod in seen.pods):
        return None
    stuck = [pod for pod in seen.pods if pod.image_missing and not pod.deleting]
    if not stuck:
        return None
    words = "its image cannot be had, and by now the spec asks for a cluster that begins otherwise"
    return DeletePod.of(stuck[0], f"pod {stuck[0].name} is made again: {words}")


def not_taken(seen: Observation) -> Step | None:
    """An edit that came too late. Asked when nothing is left to do but to wait."""
    said = in_words(seen)
    pods = [seen.pod(ordinal) for ordinal in range(len(recorded(seen).members))] if said else []
    troubled = [f"pod {pod.name}: {pod.trouble}" for pod in pods if pod and pod.trouble]
    if not troubled and not (pods and all(pod and pod.age > LATE_SECONDS for pod in pods)):
        return None
    return Hold("BegunOtherwise", "; ".join((said, *troubled)))


def in_words(seen: Observation) -> str:
    """What the spec asks for that a cluster which has begun does not begin with any more; empty
    where it has formed, or begins as it says."""
    record, cluster = recorded(seen), seen.cluster
    if not _is_open(record):
        return ""
    if words := _backup_in_words(seen):
        return words
    now = running_version(seen)
    said = []
    if cluster.version_declared and cluster.version != now:
        said.append(f"spec.version says {cluster.version}, and it has begun with {now}")
    if cluster.size != len(record.members):
        said.append(f"spec.size says {cluster.size}, and it has begun with {len(record.members)}")
    for name, one, other in links.edited(cluster):
        wanted, begun = links.in_words(other), links.in_words(one)
        said.append(f"spec.TLS asks for {wanted} for {name}, and they have begun with {begun}")
    if not said:
        return ""
    what = "the EtcdCluster and its claims" if cluster.durable else "the EtcdCluster"
    return (
        f"{'; '.join(said)}. Members may have data of that beginning, so it goes on with it, and "
        "the edit is for when it has formed. If it cannot form, mend what keeps it or take the "
        f"edit back; or delete {what}, and create it again as it is to be"
    )


def _backup_in_words(seen: Observation) -> str:
    if seen.cluster.restore is None or not _is_open(recorded(seen)):
        return ""
    return (
        "spec.bootstrap.restore was added when the cluster had begun without it, and members may "
        "have data of that beginning. It does not form, so that no empty cluster takes the place "
        "of the backup. To begin from the backup, delete the EtcdCluster and its claims, and "
        "create it again; or remove the field to go on without the backup"
    )


def _is_open(record: Bootstrap) -> bool:
    """A cluster that is born from a backup has its own way to another version (`restore`)."""
    return not (record.latched or record.restoring)


def _has_left_traces(seen: Observation) -> bool:
    """Of an attempt before, or of a ticket whose ledger was lost."""
    if seen.etcd is not None or seen.statuses or seen.strangers:
        return True
    on_claims = any(claim.record or claim.damage for claim in seen.claims)
    return on_claims or any(pod.record or _may_have_data(pod) for pod in seen.pods)


def _may_have_data(pod: Pod) -> bool:
    return pod.etcd_started or pod.has_data


def _following(seen: Observation, size: int) -> Bootstrap:
    cluster = _as_new(seen.cluster)
    peers, version = first_peers(cluster, size), str(cluster.version)
    return records.next_attempt(recorded(seen), peers, version, cluster.links)


def _as_new(cluster: EtcdCluster) -> EtcdCluster:
    """Links that the spec does not speak of are as for any new cluster."""
    return replace(cluster, links=cluster.wished_links.over(DEFAULT))


def _differs(seen: Observation, following: Bootstrap) -> bool:
    record = recorded(seen)
    now = (str(running_version(seen)), record.links, len(record.members))
    return (following.version, following.links, len(following.members)) != now
