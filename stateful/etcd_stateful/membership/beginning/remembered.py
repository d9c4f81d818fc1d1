"""Rebuilds the bootstrap record when its Secret is lost: cluster ID, epoch and version.

They are read from claims, pods, the StatefulSet, etcd's answers and the status. A lost Secret never
leads to an empty cluster (I11), nor to another version than the members ran: the default version is
applied only once, when a cluster begins (I9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.identity import to_hex
from etcd_stateful.manifests.start_settings import epoch_in
from etcd_stateful.manifests.statefulset import begun_in, is_assumed, version_of
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.observation import Observation
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.versions import Version, minor_of

_PASSED_OVER: Final = 10
"""More epochs than recoveries are likely to be lost one after the other."""


def rebuilt_record(seen: Observation, cluster_id: int) -> Bootstrap:
    """The record of the cluster as it was, as far as other objects still say."""
    size, epoch = min(replicas.wanted(seen), naming.MAX_SIZE), _epoch(seen, cluster_id)
    known = _version_in_objects(seen)
    version = known or seen.last_version or seen.cluster.version
    uid, links = seen.cluster.uid, seen.cluster.links
    taken_on = records.adopted(uid, cluster_id, str(version), size, epoch=epoch, links=links)
    return replace(
        taken_on,
        before=_version_before(seen, version),
        untried=known is None or _is_still_assumed(seen),
        begun=_begun(seen, epoch),
    )


def cluster_ids(seen: Observation) -> set[int]:
    """The cluster IDs that claims and pods, etcd or the status remember. More than one: a split
    brain."""
    last = {seen.last_cluster_id} if seen.last_cluster_id is not None else set()
    held = {one for _, one in _on_record(seen)}
    # Other claims may still be recorded for an earlier attempt than the one that formed.
    known, begun = held & last or held, not_ended(seen)
    # The status may be older than a restore in place, which has begun another epoch.
    outdated = not known & begun
    return known | (begun if outdated else set()) | answering(seen) or last


def not_ended(seen: Observation) -> set[int]:
    """The cluster IDs on our claims whose epoch has not ended, by what the StatefulSet's pods
    expect."""
    epoch = _expected_epoch(seen)
    held = (claim.own_record for claim in seen.claims if not claim.deleting)
    ours = (one for one in held if one and one.cluster_uid == seen.cluster.uid)
    return {one.cluster_id for one in ours if epoch is not None and one.epoch >= epoch}


def why_formed(seen: Observation) -> str:
    """What shows that the cluster has formed, whatever its record says; empty if nothing does."""
    told = _tells_that_it_formed(seen)
    return f"the cluster has formed before, {told}" if told else ""


def _tells_that_it_formed(seen: Observation) -> str:
    if seen.last_cluster_id is not None:
        return f"by its status ({to_hex(seen.last_cluster_id)})"
    if seen.client_service or seen.disruption_budget:
        return "as it has objects that are created only then"
    ours = (one for one in seen.claims if one.cluster_uid == seen.cluster.uid)
    later = (one for one in ours if one.own_record and one.own_record.epoch > FIRST_EPOCH)
    claim = next(later, None)
    return f"as claim {claim.name} is of a later epoch" if claim else ""


def answering(seen: Observation) -> set[int]:
    """The cluster IDs that etcd answers with, but for pods that have yet to be stopped.

    Such a pod answers with the ID in its own member record. Its member is from before a recovery or
    a restore, or from an earlier attempt. It is not of a later epoch: then the record is older.
    """
    said = {status.cluster_id for status in seen.statuses.values()}
    strange = {other for at, other in seen.strangers.items() if not _has_ended(seen, at, other)}
    return said | strange | ({seen.etcd.cluster_id} if seen.etcd else set())


def in_words(seen: Observation) -> str:
    """Who says which cluster ID, for a message."""
    said = [*_on_record(seen), *(("etcd", one) for one in sorted(answering(seen)))]
    return ", ".join(f"{what} says {to_hex(one)}" for what, one in said)


def _on_record(seen: Observation) -> Iterator[tuple[str, int]]:
    """For each claim and pod with a member record: its name and the cluster ID recorded there."""
    yield from ((f"claim {one.name}", one.record.cluster_id) for one in seen.claims if one.record)
    yield from ((f"pod {one.name}", one.record.cluster_id) for one in seen.pods if one.record)


def pods_that_answer_with(seen: Observation, ids: Collection[int]) -> list[str]:
    """Names of the pods whose etcd answers with one of these cluster IDs."""
    served = {at: status.cluster_id for at, status in seen.statuses.items()}
    said = {**seen.strangers, **served}
    return [naming.pod(seen.cluster.name, at) for at in sorted(said) if said[at] in ids]


def pods_of_others(seen: Observation, cluster_id: int) -> list[str]:
    """Names of the pods in which etcd runs on data from before a restore in place, or of one.

    It is of another epoch. With the same epoch, somebody has edited the record on a claim.
    """
    epoch = _epoch(seen, cluster_id)
    running = ((pod.name, _record(seen, pod.ordinal)) for pod in seen.pods if pod.runs_etcd)
    held = [(name, record) for name, record in running if record and record.epoch != epoch]
    return [name for name, record in held if record.cluster_id != cluster_id]


def _has_ended(seen: Observation, ordinal: int, cluster_id: int) -> bool:
    """Whether the pod at this ordinal answers for its own member, of an epoch that has ended or of
    an earlier attempt."""
    held, record = _record(seen, ordinal), seen.bootstrap
    if held is None or held.cluster_id != cluster_id:
        return False
    return record is None or held.epoch <= record.epoch


def _record(seen: Observation, ordinal: int) -> MemberRecord | None:
    """The member record of this ordinal's volume."""
    claim, pod = seen.claim(ordinal), seen.pod(ordinal)
    return claim.record if claim else pod.record if pod else None


def _epoch(seen: Observation, cluster_id: int) -> int:
    """The highest epoch on the cluster's claims: a recovery has ended all lower ones.

    But if the Secret was lost in the middle of that recovery, the StatefulSet has both: the epoch
    whose members may have served again since, and a note of the one that had begun.
    """
    held = [claim.record for claim in seen.claims if claim.record]
    epochs = [record.epoch for record in held if record.cluster_id == cluster_id]
    expected, noted = _expected_epoch(seen) or 0, _noted_epoch(seen)
    known = [one for one in epochs if not expected < one <= noted]
    return max(known, default=FIRST_EPOCH)


def _expected_epoch(seen: Observation) -> int | None:
    """The epoch that pods of the live StatefulSet expect on their volumes; None if unknown."""
    live = seen.stateful_set
    return epoch_in(live["spec"]["template"]["spec"]) if live else None


def _noted_epoch(seen: Observation) -> int:
    """The epoch that the StatefulSet notes as begun; 0 if it notes none."""
    return begun_in(seen.stateful_set) if seen.stateful_set else 0


def _begun(seen: Observation, epoch: int) -> int:
    """The epoch of the StatefulSet or of a claim of another cluster, if it is above that of the
    cluster's claims; else 0.

    A recovery has begun that of the StatefulSet, and perhaps raised the epoch of a volume, whose
    claim would have been recorded after that. Once the StatefulSet follows the rebuilt record, it
    still has a note of that epoch. If the StatefulSet is lost too, nothing tells, and a few epochs
    are passed over. That of a claim is of a restore in place, also of one that was cancelled, as
    long as something keeps the claim.
    """
    held = [claim.record for claim in seen.claims if claim.record]
    # Volumes of another UID do not run, whatever their epoch is.
    own = any(one.cluster_uid == seen.cluster.uid for one in held)
    untold = epoch + _PASSED_OVER if own and seen.stateful_set is None else 0
    begun = max([epoch_of_pods(seen), untold, *(one.epoch for one in held)])
    return begun if begun > epoch else 0


def is_begun_alone(seen: Observation) -> bool:
    """Whether of a later epoch than that on record nothing has happened but its beginning: a write
    of the StatefulSet arrived after the Secret was lost and the record rebuilt. Rebuilt now, it
    would be the same but for `begun`."""
    record = seen.bootstrap
    if record is None or not record.latched or record.survivor or record.successor:
        return False
    later = any(one.record and one.record.epoch > record.epoch for one in seen.claims)
    runs = any(pod.runs_etcd and (pod.epoch or 0) > record.epoch for pod in seen.pods)
    return not (later or runs)


def epoch_of_pods(seen: Observation) -> int:
    """The latest epoch that pods were made for, or that is noted as begun; 0 if unknown."""
    of_pods = (pod.epoch or 0 for pod in seen.pods)
    return max([_expected_epoch(seen) or 0, _noted_epoch(seen), *of_pods])


def _version_in_objects(seen: Observation) -> Version | None:
    """The version of the StatefulSet, or else of the pods that have run etcd.

    If those differ, it is the lowest minor, which all members can be brought to, and of its patches
    the one that most pods run.
    """
    if seen.stateful_set and (live := version_of(seen.stateful_set)):
        return live
    ran = Counter(_have_run(seen))
    return min(ran, key=lambda one: (minor_of(one), -ran[one], one), default=None)


def _is_still_assumed(seen: Observation) -> bool:
    """Whether the StatefulSet's version comes from a record that had only assumed it."""
    return seen.stateful_set is not None and is_assumed(seen.stateful_set)


def _have_run(seen: Observation) -> list[Version]:
    return [pod.made_for for pod in seen.pods if pod.etcd_started and pod.made_for]


def _version_before(seen: Observation, now: Version) -> str:
    """The version that an unfinished version change started from, which it may return to
    (`upgrade`).

    It is read from pods in which etcd has started, because etcd is not asked while there is no
    record. If there are several, it is the one of another minor.
    """
    others = {version for version in _have_run(seen) if version != now}
    return str(min(others, key=lambda one: (one.minor == now.minor, one), default=""))
