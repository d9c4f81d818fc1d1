"""A new cluster that starts from a backup (`spec.bootstrap.restore`).

    record with one first member, `restoring` -> no pod -> the claim of ordinal 0 is created
    -> a Job fills it -> the claim is recorded -> Job deleted -> latched, `restoring` over
    -> replicas as usual: ordinal 0 runs on its data, new members are added beside it

The record is written first, and its IDs are computed from its token. So an operator that is killed
at any point continues with the same cluster. After the latch the field has no effect: an emptied
volume is then a lost member, never a reason to restore again.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful.api.source import Source, backup_in
from etcd_stateful.api.stores import Store
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.epochs import filling, in_place_request, volume_jobs
from etcd_stateful.membership.epochs.filling import Failed, Filling
from etcd_stateful.membership.members import claim_expansion
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import (
    Hold,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord, member_record


def carry_out(seen: Observation) -> Step | None:
    """The next step of the restore. Asked once the StatefulSet has no replicas, which is what
    `replicas.wanted` says during a restore."""
    if not recorded(seen).restoring:
        return None
    if seen.pods:
        names = ", ".join(pod.name for pod in seen.pods)
        return Wait(f"pods {names} to stop before the backup is restored", soon=True)
    if (source := seen.cluster.restore) is None:
        return _failed(seen, "spec.bootstrap.restore was removed before it was done: put it back")
    return _fill(seen, source)


def _fill(seen: Observation, source: Source) -> Step:
    claim = seen.claim(0)
    if claim is None:
        return filling.create_claim(seen, 0)
    if step := filling.not_to_be_used(seen, claim):
        return step
    if claim.record == _record_of(seen, claim):
        return _clear_up(seen)
    if step := _with_another_version(seen):
        return step
    if claim.record is not None:
        return _failed(seen, f"claim {claim.name} holds another member's data")
    return _run(seen, claim, source)


def _with_another_version(seen: Observation) -> Step | None:
    """Follows an edited `spec.version`. No member runs yet, so it may still be any version, and the
    old one may be why the restore fails."""
    record, wanted = recorded(seen), str(seen.cluster.version)
    if not seen.cluster.version_declared or wanted == record.version:
        return None
    words = f"the backup is restored with etcd {wanted}, as spec.version was edited"
    return WriteBootstrap.of(seen, replace(record, version=wanted, oldest=wanted), words)


def _run(seen: Observation, claim: Claim, source: Source) -> Step:
    store = bootstrap_source.location(seen, source)
    if not isinstance(store, Store):
        return store
    step = filling.fill_with_job(seen, claim, Filling(recorded(seen), store, backup_in(source)))
    if isinstance(step, Failed):
        return _failed(seen, step.why, _of_another(seen, claim) or _of_fixed_size(seen, claim))
    words = f"claim {claim.name} holds the data of the backup"
    return step or RecordMember.of(claim, _record_of(seen, claim), words)


def _clear_up(seen: Observation) -> Step:
    if step := volume_jobs.clear_up(seen):
        return step
    record = records.restored(recorded(seen), seen.cluster.size)
    words = "the backup is restored; its first member runs, and others join it"
    return WriteBootstrap.of(seen, record, words, final=True)


def _record_of(seen: Observation, claim: Claim) -> MemberRecord:
    record = recorded(seen)
    return member_record(record, record.members[0].member_id, claim.uid)


def _of_another(seen: Observation, claim: Claim) -> str:
    """What else to do if the claim may hold what another cluster, or somebody, has put there."""
    if not in_place_request.is_foreign(seen, claim):
        return ""
    words = f"Claim {claim.name} was not created for this EtcdCluster"
    return f". {words}: if it holds data that you do not need, delete it, and another is created"


def _of_fixed_size(seen: Observation, claim: Claim) -> str:
    """What else to do if the spec asks for a larger volume, and this one cannot grow."""
    if not claim.fixed or claim not in claim_expansion.unrequested(seen):
        return ""
    words = f"Claim {claim.name} ({claim.capacity}) cannot be expanded ({claim.fixed[:200]})"
    return f". {words}: delete it, and another is created"


def _failed(seen: Observation, why: str, besides: str = "") -> Hold:
    again = (
        "" if seen.job is None else f". Delete Job {seen.job.name} to try again, or edit the spec"
    )
    words = f"spec.bootstrap.restore is not carried out: {why}{again}{besides}"
    return Hold("RestoreFailed", words)
