"""Where a recovery may come to rest before its end, by the true state of the world."""

from __future__ import annotations

from model.world import tables
from model.world.state import DATABASE, FAILED, LOG, NONE, RUNS, STAYS, State, content_of


def is_wrong(state: State) -> bool:
    """`spec.recovery` is not for this cluster in its present epoch, or names a useless volume."""
    cluster, record = tables.specs[state.spec].cluster, tables.bootstraps[state.secret]
    asked = cluster.recovery
    if asked is None:
        return False
    meant = (asked.cluster_id, asked.epoch) == (record.cluster_id, record.epoch)
    if not meant or record.declined or not cluster.durable:
        return True
    return _is_useless(state, tables.ordinal_of(asked.survivor)) or _answers(state, asked.fenced)


def _answers(state: State, fenced: tuple[str, ...]) -> bool:
    ordinals = [tables.ordinal_of(one) for one in fenced]
    return any(state.pods[one] and not state.away >> one & 1 for one in ordinals)


def _is_useless(state: State, ordinal: int) -> bool:
    claim, content = state.claims[ordinal], content_of(state, ordinal)
    if claim is None or claim.deleting or claim.lost or claim.record is None:
        return True
    if content is None or not content.log or content.harm in (LOG, DATABASE):
        return True
    newest = max(one.record.epoch for one in state.claims if one and one.record)
    return claim.record.epoch < newest or content.member != claim.record.member


def is_under_way(state: State) -> bool:
    """A finished Job may be left if the Secret was lost before the Job was deleted. So may a Job
    that cannot work, if `spec.recovery` was removed as well."""
    record, job = tables.bootstraps[state.secret], state.job
    works = job is not None and job.phase == RUNS and job.epoch <= record.epoch
    return works or bool(record.survivor)


def is_kept_back(state: State) -> bool:
    """A Job has worked on a volume, and the Secret that recorded its purpose was lost. Or the claim
    will be deleted as soon as its pod of the earlier epoch is gone."""
    epoch = tables.bootstraps[state.secret].epoch if state.secret != NONE else 0
    for ordinal, pod in enumerate(state.pods):
        content, claim = content_of(state, ordinal), state.claims[ordinal]
        if content is not None and (content.aside or content.epoch > epoch):
            return True
        if pod and claim and claim.deleting and tables.templates[pod.template].epoch < epoch:
            return True
    return False


def has_failed(state: State) -> bool:
    """The Job has failed, or the survivor is gone."""
    record = tables.bootstraps[state.secret] if state.secret != NONE else None
    if record is None or not record.survivor:
        return False
    failed = state.job is not None and state.job.phase == FAILED
    return failed or _is_useless(state, tables.ordinal_of(record.survivor))


def cannot_run(state: State) -> bool:
    """etcd's container in the Job's pod fails, which the status reports."""
    job = state.job
    if job is None or job.phase != RUNS or job.going != STAYS:
        return False
    content = content_of(state, job.survivor)
    damaged = content is not None and content.harm == DATABASE
    claim = state.claims[job.survivor]
    return damaged or not job.pullable or bool(claim and claim.lost)
