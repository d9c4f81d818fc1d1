"""Ways out of a version that does not run: back from half-way, and on without a quorum.

    another patch            at once, as etcd takes any
    down, from half-way up   while a voter answers that runs the minor before: until the last is
                             upgraded, the data of all is as the oldest member's. Or as long as no
                             etcd of the newer one was seen to start, for want of its image
    up, from half-way down   the higher one reads what the lower has written

Anything else waits until every member serves (`upgrade.go_on`), and the human is told so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.membership import roster, survivor
from etcd_stateful.membership.bootstrap import running_version
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Hold, Step, Wait, WriteBootstrap
from etcd_stateful.membership.upgrade import (
    is_ready_to_go_down,
    minor_in,
    minor_of,
    target,
    version_before,
    write,
)
from etcd_stateful.observed.objects import Job
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import Version

FAILS: Final = "VersionFails"
"""Reason of the Hold that takes a Wait's place: what is waited for may still come by itself."""


def go_back(seen: Observation) -> Step | None:
    """Also while pods do not serve, or may not run: a version that cannot be had, or fails, is left
    again this way."""
    if not is_latched(seen):
        return None
    wanted, now, before = target(seen), running_version(seen), version_before(seen)
    if wanted == now or not _may_go(seen, wanted, now, before):
        return None
    kept = before if minor_of(wanted) == minor_of(now) else None
    crossed = recorded(seen).crossed or minor_of(wanted) > minor_of(now)
    return write(seen, wanted, kept or now, crossed=crossed)


def _may_go(seen: Observation, wanted: Version, now: Version, before: Version | None) -> bool:
    if minor_of(wanted) == minor_of(now):
        # Where nothing fails and nothing is under way, `upgrade.go_on` has the gates.
        return before is not None or seen.etcd is None or _fails(seen)
    if before is None or minor_of(wanted) != minor_of(before):
        return False
    if _any_runs(seen, wanted):
        return True
    # A downgrade is called off last: etcd would refuse the pods that have yet to come back up.
    return seen.etcd is None if wanted > now else _never_ran(seen, now)


def cross(seen: Observation) -> Step | None:
    """Written down as soon as it may be so, as pods that are made again tell of nothing."""
    now, before = running_version(seen), version_before(seen)
    if not is_latched(seen) or before is None or minor_of(before) >= minor_of(now):
        return None
    record = recorded(seen)
    if record.crossed or not _may_have_crossed(seen, now, before):
        return None
    words = f"etcd {now} has started, and no member that runs {before} answers any more"
    return WriteBootstrap.of(seen, replace(record, crossed=True), words)


def lowers_blindly(seen: Observation, made: Version | None) -> bool:
    """Whether a pod that was made for this version is to run a lower minor, on data that may be of
    the higher: an etcd of that has started meanwhile, no voter runs the lower, and no quorum has
    been told of a downgrade."""
    now = running_version(seen)
    if made is None or minor_of(made) <= minor_of(now) or survivor.halted(seen):
        return False
    if recorded(seen).untried:
        return False  # what the data is of is for the spec to say (`upgrade.try_another`)
    if _any_runs(seen, now) or not any(_has_run_above(pod, now) for pod in seen.pods):
        return False
    return seen.etcd is None or not is_ready_to_go_down(seen, now)


def besides(seen: Observation, step: Step | None) -> Step | None:
    """What the cluster waits for as pods fail, with what a human can do about its version."""
    if not is_latched(seen) or recorded(seen).untried:
        return step
    if not (_is_seen_to_fail(seen) if seen.etcd is None else _is_missing(seen)):
        return step
    words = why_not(seen) or _why_it_may_fail(seen)
    match step:
        case Wait(reason=reason) if words:
            return Hold(FAILS, f"{words}. Until then: {reason}")
        case Hold(message=message) if words:
            return replace(step, message=f"{message}. {words}")
    return step


def why_not(seen: Observation) -> str:
    """Why a version that the spec asks for is not taken; empty where it is on record, or where it
    may be and something else keeps it."""
    wanted, now, before = target(seen), running_version(seen), version_before(seen)
    if wanted == now or _may_go(seen, wanted, now, before):
        return ""
    minor = f"{now.major}.{now.minor}"
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
        f"{before} again, or to another patch of {before.major}.{before.minor}"
    )


def _fails(seen: Observation) -> bool:
    return _is_missing(seen) or any(pod.crashing for pod in seen.pods)


def _is_seen_to_fail(seen: Observation) -> bool:
    """Also while etcd is only tried again, or what is told would come and go with each crash."""
    return _fails(seen) or any(pod.tried_again for pod in seen.pods)


def _is_missing(seen: Observation) -> bool:
    return any(pod.image_missing for pod in seen.pods)


def _may_have_crossed(seen: Observation, now: Version, before: Version) -> bool:
    if recorded(seen).survivor:
        return seen.job is not None and _has_run(seen.job)
    if seen.stateful_set is not None and not seen.replicas:
        return False  # those that answered until now were stopped
    if _any_runs(seen, before):
        return False
    if survivor.halted(seen):
        return not _never_ran(seen, now)  # nobody can tell any more once all pods are gone
    return any(pod.etcd_started and _is_made_for(pod, now) for pod in seen.pods)


def _never_ran(seen: Observation, now: Version) -> bool:
    """Whether there are pods made for the present minor, and for want of their image none has run.

    That none runs is not enough: pods that were made again may have run it before, on this data. Of
    one that waits for something else nobody can tell.
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
    """Whether a voter answers that runs this minor, leader or not, in a pod that stays."""
    return any(
        seat.status is not None and minor_in(seat.status.version) == minor_of(version)
        for seat in roster.seats(seen)
        if _is_voter(seen, seat) and seat.pod is not None and not seat.pod.deleting
    )


def _is_voter(seen: Observation, seat: Seat) -> bool:
    """By the list; without one by its own word, and by what its volume is recorded as."""
    if seen.etcd is not None:
        return seat.is_voter and seat.answers
    status, record, claim = seat.status, seat.record, seat.claim
    if status is None or status.learner or record is None or (claim and claim.deleting):
        return False
    return status.member_id == record.member_id and seat.ordinal < seen.replicas
