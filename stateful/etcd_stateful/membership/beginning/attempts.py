"""Edits of a cluster that has not formed yet. If possible, it starts over from the edited spec.

    no ticket was handed out  the bootstrap record is rewritten before anything is created from it,
                              also if the spec now names a backup to start from
    tickets were used         a new attempt starts once every volume is known to be empty. Only
                              `start` can tell, so a pod that has its ticket but cannot pull its
                              image is recreated
    etcd may have run         its data fixes the version and the first members, so the edit waits
                              until the cluster has formed, and the user is told. A backup would
                              then come too late, so with one the cluster does not form at all

Each attempt has its own token, and so its own member IDs: members of two attempts cannot join into
one cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import DEFAULT
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.beginning.bootstrap import (
    behind_the_spec,
    first_peers,
    running_version,
)
from etcd_stateful.membership.members import claim_expansion
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import DeletePod, Hold, Step, WriteBootstrap
from etcd_stateful.membership.tls import links
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap

PODLESS_SECONDS: Final = 10.0
"""How long a pod may be missing before it counts as one that is not created."""

LATE_SECONDS: Final = 120.0
"""From the creation of its pods, a cluster forms within this time, image pulls included. After that
something is wrong."""


def rewrite_record(seen: Observation) -> Step | None:
    """Rewrites the record if the spec has changed since, and nothing was created from it yet.

    No ledger entry means that no ticket was handed out: the entry is written first, and this write
    fails if the Secret has changed since it was read.
    """
    record = recorded(seen)
    if not _may_start_over(record) or record.issued or _has_left_traces(seen):
        return None
    if (source := seen.cluster.restore) is not None:
        return bootstrap_source.switch_to_backup(seen, source, _as_new(seen.cluster))
    following = _next_attempt(seen, max(seen.replicas, seen.cluster.size))
    if not _differs(seen, following):
        return None
    reason = "the cluster starts over from its edited spec: nothing was created from the old one"
    return WriteBootstrap.of(seen, following, reason, final=True)


def late_backup(seen: Observation) -> Step | None:
    """Holds if the spec names a backup too late. Asked before this attempt gets any further: an
    empty cluster must not form in place of the backup (I11)."""
    said = _backup_in_words(seen)
    return Hold("BegunOtherwise", said) if said else None


def another_attempt(seen: Observation) -> Step | None:
    """A new attempt, once `start` waits on an empty volume at every ordinal.

    It is needed if a ticket was used (a member gets no second one), or if no ticket was handed out
    yet and the spec was edited.
    """
    bootstrap = recorded(seen)
    if bootstrap.latched or seen.etcd is not None:
        return None
    pods = [seen.pod(ordinal) for ordinal in range(len(bootstrap.members))]
    if not all(pod and pod.volume_is_empty for pod in pods):
        return None
    size = max(len(pods), seen.cluster.size)
    following = _next_attempt(seen, size)
    spent = any(pod and has_spent_ticket(seen, pod) for pod in pods)
    if not spent and (bootstrap.issued or not _differs(seen, following)):
        return None  # a ticket is still on its way, for instance until a claim can be recorded
    reason = f"attempt {bootstrap.attempt} left only empty volumes"
    return WriteBootstrap.of(seen, following, reason, final=True)


def has_spent_ticket(seen: Observation, pod: Pod) -> bool:
    """Whether `start` waits on an empty volume, and the member's one ticket went to an earlier run,
    or may have, as the ledger is older."""
    first = recorded(seen).member(pod.name)
    if first is None or pod.answer is None or not pod.volume_is_empty:
        return False
    run = recorded(seen).challenge(first.member_id)
    return roster.is_ledger_older(seen) if run is None else pod.answer.challenge != run


def recreate_unpullable(seen: Observation) -> Step | None:
    """Recreates a pod that has its ticket but cannot pull its image, after the spec was edited.

    `start` then says whether the volume is still empty, so that another attempt can begin. Not if
    any volume may have data: no other attempt can follow, and pods would be recreated for ever.
    """
    record = recorded(seen)
    if not _may_start_over(record) or seen.etcd is not None or seen.statuses:
        return None
    following = _next_attempt(seen, max(len(record.members), seen.cluster.size))
    if not _differs(seen, following) or any(_may_have_data(pod) for pod in seen.pods):
        return None
    words = "its image cannot be pulled, and the spec was edited before the cluster formed"
    stuck = (pod for pod in seen.pods if pod.image_missing and not pod.deleting)
    steps = (DeletePod.of(seen, pod, f"pod {pod.name} is recreated: {words}") for pod in stuck)
    return next(filter(None, steps), None)


def late_edits(seen: Observation) -> Step | None:
    """Holds for an edit that came too late. Asked last, when there is nothing to do but wait."""
    if not (said := describe_late_edits(seen)):
        return None
    pods = {ordinal: seen.pod(ordinal) for ordinal in range(len(recorded(seen).members))}
    troubled = [words for one, pod in pods.items() if (words := _trouble(seen, one, pod))]
    if not troubled and not all(pod and pod.age > LATE_SECONDS for pod in pods.values()):
        return None
    return Hold("BegunOtherwise", "; ".join((said, *troubled)), soon=None in pods.values())


def _trouble(seen: Observation, ordinal: int, pod: Pod | None) -> str:
    """Why the pod does not run; empty if it may only have begun to."""
    if pod is not None:
        return f"pod {pod.name}: {pod.trouble}" if pod.trouble else ""
    name = naming.pod(seen.cluster.name, ordinal)
    late = seen.missing.get(name, 0.0) > PODLESS_SECONDS
    return f"{name}: {wording.not_created(seen, ordinal)}" if late else ""


def describe_late_edits(seen: Observation) -> str:
    """The edits that came too late for a cluster that is still forming; empty if there are none."""
    record, cluster = recorded(seen), seen.cluster
    if not _may_start_over(record):
        return ""
    if words := _backup_in_words(seen):
        return words
    now = running_version(seen)
    said = []
    if cluster.version_declared and cluster.version != now:
        said.append(f"spec.version is {cluster.version}, but the cluster began with {now}")
    if cluster.size != len(record.members):
        began = len(record.members)
        said.append(f"spec.size is {cluster.size}, but the cluster began with {began}")
    for name, one, other in links.differences(cluster):
        wanted, begun = links.describe(other), links.describe(one)
        said.append(f"spec.TLS asks for {wanted} for {name}, but they began with {begun}")
    if words := claim_expansion.not_in_template(seen):
        said.append(words)
    if kept := _kept_in_spite_of_an_edit(seen):
        said.append(
            f"other fields were edited, but pods {', '.join(kept)} keep what they began with: a "
            "restart would lose the data in their emptyDir"
        )
    if not said:
        return ""
    what = "the EtcdCluster and its claims" if cluster.durable else "the EtcdCluster"
    return (
        f"{'; '.join(said)}. Members may already have data, so the cluster goes on forming as it "
        "began, and the edit is applied once it has formed. If it cannot form, fix the cause or "
        f"revert the edit; or delete {what}, and create it again with the spec that you want"
    )


def _kept_in_spite_of_an_edit(seen: Observation) -> list[str]:
    """Pods that are not restarted for an edit of their template, as etcd has started on their
    emptyDir."""
    if seen.cluster.durable:
        return []
    return [pod.name for pod in behind_the_spec(seen) if pod.etcd_started]


def _backup_in_words(seen: Observation) -> str:
    if seen.cluster.restore is None or not _may_start_over(recorded(seen)):
        return ""
    return (
        "spec.bootstrap.restore was added after the cluster had begun without it, and members may "
        "already have data. The cluster is kept from forming, so that no empty cluster takes the "
        "place of the backup. To start from the backup, delete the EtcdCluster and its claims, and "
        "create it again; or remove the field to go on without the backup"
    )


def _may_start_over(record: Bootstrap) -> bool:
    """Whether the cluster has yet to form, and does not start from a backup (see `restore`)."""
    return not (record.latched or record.restoring)


def _has_left_traces(seen: Observation) -> bool:
    """Whether an earlier attempt, or a ticket from a lost ledger, may have left data."""
    if seen.etcd is not None or seen.statuses or seen.strangers:
        return True
    on_claims = any(claim.record or claim.damage for claim in seen.claims)
    return on_claims or any(pod.record or _may_have_data(pod) for pod in seen.pods)


def _may_have_data(pod: Pod) -> bool:
    return pod.etcd_started or pod.has_data


def _next_attempt(seen: Observation, size: int) -> Bootstrap:
    cluster = _as_new(seen.cluster)
    peers, version = first_peers(cluster, size), str(cluster.version)
    return records.next_attempt(recorded(seen), peers, version, cluster.links)


def _as_new(cluster: EtcdCluster) -> EtcdCluster:
    """The cluster with default links where the spec does not set them, as for a new cluster."""
    return replace(cluster, links=cluster.requested_links.over(DEFAULT))


def _differs(seen: Observation, following: Bootstrap) -> bool:
    record = recorded(seen)
    now = (str(running_version(seen)), record.links, len(record.members))
    return (following.version, following.links, len(following.members)) != now
