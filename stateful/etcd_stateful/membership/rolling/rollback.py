"""Ways out of a version that does not run, also without a quorum.

    another patch              at once: etcd supports any change of the patch
    down, during an upgrade    while a voter answers that runs the previous minor: until the last
                               member is upgraded, all data keeps that minor's format. Or while the
                               image of the new minor cannot be pulled, so that it has not started
    up, during a downgrade     while a voter answers that runs the higher minor, or while no quorum
                               answers: the higher minor can read the data of the lower one

Any other change waits until every member serves (`upgrade.advance`), and the user is told so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning.bootstrap import running_version
from etcd_stateful.membership.epochs import in_place_request, survivor
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling.upgrade import (
    is_ready_to_go_down,
    record_version,
    target,
    version_before,
)
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold, Step, Wait, WriteBootstrap
from etcd_stateful.observed.objects import Job
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import Version, minor_in, minor_of

FAILS: Final = "VersionFails"
"""The reason of a Hold that replaces a Wait. What the Wait names may still happen by itself."""

MISSING_SECONDS: Final = 60.0
"""How long a member may be without a pod before that counts as a failure: a pod that is restarted
is away for a moment, but a quota or a policy for images may keep it from being created."""


def roll_back(seen: Observation) -> Step | None:
    """Changes the version without waiting for pods to serve, because a version that fails, or whose
    image cannot be pulled, may be what keeps them from it.

    Not while a restore in place stops them: the first volume is filled with the version on record.
    """
    if not is_latched(seen) or in_place_request.halted(seen):
        return None
    wanted, now, before = target(seen), running_version(seen), version_before(seen)
    if wanted == now or not _may_go(seen, wanted, now, before):
        return None
    kept = before if minor_of(wanted) == minor_of(now) else None
    crossed = recorded(seen).crossed or minor_of(wanted) > minor_of(now)
    return record_version(seen, wanted, kept or now, crossed=crossed)


def _may_go(seen: Observation, wanted: Version, now: Version, before: Version | None) -> bool:
    if minor_of(wanted) == minor_of(now):
        # If nothing fails and no change is under way, `upgrade.advance` has its checks.
        return before is not None or seen.etcd is None or _fails(seen)
    if before is None or minor_of(wanted) != minor_of(before):
        return False
    if _any_runs(seen, wanted):
        return True
    # Nothing cancels the downgrade yet. That is done once all members are back on the higher minor:
    # etcd would refuse those that are not.
    return seen.etcd is None if wanted > now else _never_ran(seen, now)


def record_newer_format(seen: Observation) -> Step | None:
    """Records as soon as the data may have the newer format. Recreated pods no longer show it."""
    now, before = running_version(seen), version_before(seen)
    if not is_latched(seen) or before is None or minor_of(before) >= minor_of(now):
        return None
    record = recorded(seen)
    if record.crossed or not _may_have_crossed(seen, now, before):
        return None
    words = f"etcd {now} has started, and no member that runs {before} answers any more"
    return WriteBootstrap.of(seen, replace(record, crossed=True), words)


def is_unsafe_downgrade(seen: Observation, made: Version | None) -> bool:
    """Whether a pod that was created for version `made` would next run a lower minor, on data that
    may have the higher minor's format.

    That is so if etcd of the higher minor has started, no voter runs the lower one, and no quorum
    confirms that a downgrade has changed the format back.
    """
    now = running_version(seen)
    if made is None or minor_of(made) <= minor_of(now) or survivor.halted(seen):
        return False
    if recorded(seen).untried:
        return False  # the version was only assumed: the spec decides (`upgrade.replace_assumed`)
    if _any_runs(seen, now) or not any(_has_run_above(pod, now) for pod in seen.pods):
        return False
    return seen.etcd is None or not is_ready_to_go_down(seen, now)


def with_version_advice(seen: Observation, step: Step | None) -> Step | None:
    """The step; if pods fail, with what the user can do about the version added to its message."""
    if not is_latched(seen) or recorded(seen).untried:
        return step
    fails = _is_seen_to_fail(seen) if seen.etcd is None else _lacks_image_or_pod(seen)
    if not fails:
        return step
    words = why_not(seen) or _why_it_may_fail(seen)
    match step:
        case Wait(reason=reason) if words:
            return Hold(FAILS, f"{words}. Until then: {reason}")
        case Hold(message=message) if words:
            return replace(step, message=f"{message}. {words}")
    return step


def why_not(seen: Observation) -> str:
    """Why the cluster does not change to the version in the spec; empty if it has that version, or
    may change to it."""
    wanted, now, before = target(seen), running_version(seen), version_before(seen)
    if wanted == now or _may_go(seen, wanted, now, before):
        return ""
    minor = minor_of(now)
    why = "the minor changes only while every member serves"
    if before and minor_of(wanted) == minor_of(before):
        why = f"etcd {minor} may have changed the data, and {wanted} could not read it then"
    return (
        f"spec.version is {wanted}, and the cluster stays with etcd {now}: {why}. Another patch of "
        f"{minor} is taken at once"
    )


def _why_it_may_fail(seen: Observation) -> str:
    now, before = running_version(seen), version_before(seen)
    if seen.etcd is not None or before is None or minor_of(before) <= minor_of(now):
        return ""
    return (
        f"the cluster goes down from etcd {before} to {now}. If that fails, set spec.version to "
        f"{before} again, or to another patch of {minor_of(before)}"
    )


def _fails(seen: Observation) -> bool:
    return _lacks_image_or_pod(seen) or any(pod.crashing for pod in seen.pods)


def _is_seen_to_fail(seen: Observation) -> bool:
    """Whether pods fail. A pod whose etcd was just restarted counts too, or the message would come
    and go with each crash."""
    return _fails(seen) or any(pod.tried_again for pod in seen.pods)


def _lacks_image_or_pod(seen: Observation) -> bool:
    missing = (roster.lacks_pod_for(seen, one, MISSING_SECONDS) for one in roster.seats(seen))
    return any(pod.image_missing for pod in seen.pods) or any(missing)


def _may_have_crossed(seen: Observation, now: Version, before: Version) -> bool:
    if recorded(seen).survivor:
        return seen.job is not None and _has_run(seen.job)
    if seen.stateful_set is not None and not seen.replicas:
        return False  # all pods were stopped, so that no voter of the older minor can answer
    if _any_runs(seen, before):
        return False
    if survivor.halted(seen):
        return not _never_ran(seen, now)  # decided now, because soon there are no pods to ask
    return any(pod.etcd_started and _is_made_for(pod, now) for pod in seen.pods)


def _never_ran(seen: Observation, now: Version) -> bool:
    """Whether etcd of the present minor has certainly never run: there are pods created for it, and
    none of them can pull its image.

    That none of them runs etcd is not enough: an earlier pod may have run it on the same data, and
    the present one may wait for something else.
    """
    record = recorded(seen)
    if record.crossed or _any_runs(seen, now):
        return False
    if record.survivor:
        return seen.job is None or not _has_run(seen.job)
    newer = [pod for pod in seen.pods if _is_made_for(pod, now)]
    return bool(newer) and all(pod.image_missing and not pod.etcd_started for pod in newer)


def _has_run(job: Job) -> bool:
    return not job.stranger and (job.etcd_started or job.state == "complete")


def _is_made_for(pod: Pod, version: Version) -> bool:
    return pod.made_for is not None and minor_of(pod.made_for) == minor_of(version)


def _has_run_above(pod: Pod, version: Version) -> bool:
    made = pod.made_for
    return pod.etcd_started and made is not None and minor_of(made) > minor_of(version)


def _any_runs(seen: Observation, version: Version) -> bool:
    """Whether a voter that runs this minor answers, with or without a leader, from a pod that is
    not being deleted."""
    return any(
        seat.status is not None and minor_in(seat.status.version) == minor_of(version)
        for seat in roster.seats(seen)
        if _is_voter(seen, seat) and seat.pod is not None and not seat.pod.deleting
    )


def _is_voter(seen: Observation, seat: Seat) -> bool:
    """Whether the seat has an answering voter: by the member list, or without one by the member's
    own status, if it agrees with the record of its volume."""
    if seen.etcd is not None:
        return seat.is_voter and seat.answers
    status, record, claim = seat.status, seat.record, seat.claim
    if status is None or status.learner or record is None or (claim and claim.deleting):
        return False
    return status.member_id == record.member_id and seat.ordinal < seen.replicas
