"""Rolling restart: recreates pods whose template is outdated.

The StatefulSet controller restarts no pod by itself (OnDelete). If a pod is deleted, it recreates
it with the newest template. Pods that do not serve are deleted first, even without a quorum: the
new spec may fix what keeps them from serving. Then the others follow, one at a time while all
others serve. The leader is the last, after it has handed over its leadership (I8).
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning.bootstrap import is_of_past_epoch, running_version
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import retries, rollback, version_first
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import DeletePod, Hold, Step, Wait
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import minor_in, minor_of, reported_version

SPARING: Final = 3
"""The smallest number of members that still has a quorum without one of them."""

CRASH_SECONDS: Final = 30.0
"""How long etcd may keep failing in a pod before the pod is recreated, so that `start` checks its
volume."""

ALIKE_SECONDS: Final = 10.0
"""Pods whose ages differ by less than this were created at once."""


def restart_unready(seen: Observation) -> Step | None:
    """Restarts an outdated pod that is not ready and whose etcd does not answer; with an emptyDir,
    only if etcd has not started in it, or fails and may be replaced.

    A pod whose etcd answers is kept, even if it has no leader: without a quorum, it may be the last
    good member. And if the network separates the operator from all pods, no etcd seems to answer.
    So pods in which etcd may run are restarted one by one, each when the one before is back (I8),
    and none while a pod of the newest template lacks an image: it might not come back either (I1).
    """
    latched = is_latched(seen)
    # Voters whose peer URLs somebody has changed.
    homes = (roster.home_of(seen, one) for one in roster.unknown_members(seen) if not one.learner)
    moved = {home.ordinal for home in homes if home}
    for seat in roster.seats(seen):
        pod = seat.pod
        if pod is None or pod.ready or seat.status is not None:
            continue
        if not (_is_outdated(seen, pod) or _lacks_start(seen, pod)):
            continue
        may_run = pod.etcd_started and not pod.crashing
        if latched and may_run and _another_is_away(seen, seat):
            continue
        if latched and pod.runs_undisturbed and _template_lacks_image(seen):
            continue
        if latched and pod.etcd_started and rollback.is_unsafe_downgrade(seen, pod.made_for):
            continue  # the older etcd might find data that it cannot read (I9)
        votes = seat.is_voter or seat.ordinal in moved
        if votes and not pod.is_stuck and _quorum_may_need(seen, seat):
            continue  # it may be silent only for a moment
        keeps = seat.durable or not pod.etcd_started
        if _may_go(seat, pod) and (keeps or _is_dispensable(seen, seat, pod)):
            why = "it does not serve, and its template is outdated"
            if step := restart(seen, pod, why):
                return step
    return None


def give_way(seen: Observation) -> Step | None:
    """Deletes pods that wait in `start`, as long as a member's pod finds no room on a node, or is
    not created, perhaps because of a quota.

    They may have taken it. After a recovery all pods are created at once, the lowest ordinal first,
    and a new pod that no node or quota has room for takes the place of a member that restarts.
    """
    if not is_latched(seen) or (seen.etcd is None and any(pod.ready for pod in seen.pods)):
        return None  # a Ready pod proves a quorum, whose member list is not known now
    every = roster.seats(seen)
    member = next((one for one in every if _lacks_room(seen, one)), None)
    if member is None:
        return None
    for seat in every:
        pod = seat.pod
        waits = seat.member is None and seat.found not in ("", "ticketed")
        if not (waits and pod and _may_go(seat, pod)) or not _may_have_taken(seen, pod, member):
            continue
        why = f"it may have taken the room that pod {member.name}, which has data, does not find"
        if step := restart(seen, pod, why):
            return step
    return None


def _lacks_room(seen: Observation, seat: Seat) -> bool:
    """Whether it is a member's pod, and the scheduler finds no room for it, or it is not created,
    without a claim or another pod in its way."""
    pod, held = seat.pod, seat.record
    if pod is None:
        absent = roster.lacks_pod_for(seen, seat, CRASH_SECONDS)
        waits = absent and not wording.name_taken(seen, seat.ordinal)
    else:
        waits = pod.crowded_out and pod.age >= CRASH_SECONDS
    if seen.etcd is not None:
        return waits and seat.is_voter
    return waits and held is not None and held.epoch == recorded(seen).epoch


def _may_have_taken(seen: Observation, pod: Pod, member: Seat) -> bool:
    """Whether the pod may have the room that the member's needs. Once it is deleted, the scheduler
    turns to the one that has waited for longer: a pod that is younger than the member's has
    followed one that gave way. But the StatefulSet controller creates pods side by side, so under a
    quota a pod gives way again, ever more rarely."""
    if member.pod is None:
        return pod.age > _patience(seen)
    return pod.age >= member.pod.age - ALIKE_SECONDS


def _is_dispensable(seen: Observation, seat: Seat, pod: Pod) -> bool:
    """Whether the data of a member that fails may go with its emptyDir: all others serve, and it is
    replaced, as in each restart with an emptyDir. Not while it is in doubt whose data is right."""
    others = [one for one in roster.voters(seen) if one.ordinal != seat.ordinal]
    spared = len(others) + 1 >= SPARING and all(one.serves for one in others)
    in_doubt = seen.is_corrupt or roster.learner(seen)
    return seat.is_voter and pod.crashing and spared and not in_doubt


def _quorum_may_need(seen: Observation, seat: Seat) -> bool:
    """Whether the quorum that answers may need this member (I1).

    Unknown voters count for the size of the quorum, but not as serving: the operator never queries
    them. Two voters always need each other, so with two, one other serving voter is enough.
    """
    rest = (one for one in roster.voters(seen) if one.ordinal != seat.ordinal)
    others = [one for one in rest if roster.counts(seen, one)]
    strange = [member for member in roster.unknown_members(seen) if not member.learner]
    listed = len(roster.voters(seen)) + len(strange)
    return len(others) < (roster.quorum(listed) if listed >= SPARING else 1)


def _another_is_away(seen: Observation, seat: Seat) -> bool:
    """Whether another pod was restarted a moment ago, by anyone, and is not up again.

    A pod that fails, or whose node does not confirm that it has stopped, does not count.
    """
    others = (one for one in roster.seats(seen) if one.ordinal != seat.ordinal)
    return any(
        _is_on_its_way(one.pod) if one.pod else roster.lacks_pod(seen, one) for one in others
    )


def _template_lacks_image(seen: Observation) -> bool:
    """Whether a pod cannot pull an image, and would get no other by a restart."""
    lacking = (one for one in seen.pods if one.image_missing or one.start_missing)
    stay = (one for one in lacking if not one.deleting and not _lacks_start(seen, one))
    return any(not _is_outdated(seen, one) for one in stay)


def _is_on_its_way(pod: Pod) -> bool:
    if pod.deleting:
        return not pod.overdue
    is_up = pod.etcd_started or pod.answer is not None
    return not is_up and not pod.is_stuck and pod.age < CRASH_SECONDS


def may_be_cured(seen: Observation, seat: Seat) -> bool:
    """Whether an outdated pod is not Ready only because of something besides etcd, such as a
    container that admission has added: the newest template may keep that away."""
    pod = seat.pod
    return bool(pod and pod.unready and seat.serves and _is_outdated(seen, pod))


def next_pod(seen: Observation) -> Step | None:
    """Restarts the next outdated pod. Asked when all members serve."""
    outdated = [seat for seat in roster.voters(seen) if _is_due(seen, seat)]
    if seen.etcd is None or not outdated:
        return None
    first = max(outdated, key=lambda one: (not one.leads, may_be_cured(seen, one), one.ordinal))
    # Until this one is restarted, nothing that is asked later may begin, such as another version.
    return _in_turn(seen, first) or Wait(f"the API server to let pod {first.name} be restarted")


def ailing_pod(seen: Observation) -> Step | None:
    """Restarts an outdated pod that is not Ready, or whose etcd does not answer the operator or has
    no leader, while all others serve. It may need the edit for that, as if it has too little CPU:
    etcd answers from memory while its probe fails, and probes have longer than the operator waits.
    If it leads and does not answer, etcd itself hands over as it stops (3.5.35, 3.6.16, 3.7.3).

    Not while any other pod is in trouble, which may be that of the newest template, or stops (I8),
    or one below it is missing: nothing may be created above that one.
    """
    away = [one for one in roster.voters(seen) if not (one.serves and one.takes_traffic)]
    if seen.etcd is None or len(away) != 1 or _template_lacks_image(seen):
        return None
    [seat] = away
    fails = any(one.is_stuck for one in seen.pods if one.ordinal != seat.ordinal)
    absent = _lacks_one_below(seen, seat)
    if fails or absent or _another_is_away(seen, seat) or (seat.pod and seat.pod.tried_again):
        return None
    return _in_turn(seen, seat) if may_cure(seen, seat) else None


def _lacks_one_below(seen: Observation, seat: Seat) -> bool:
    """Whether a pod below it is missing. If the StatefulSet controller cannot create that one, it
    creates none above it (`slowStartBatch`)."""
    return any(seen.pod(ordinal) is None for ordinal in range(seat.ordinal))


def may_cure(seen: Observation, seat: Seat) -> bool:
    """Whether a restart is due that may cure a slow member. One that changes its minor only if the
    format of its data is known, and is one that the next minor reads."""
    made, now = seat.pod.made_for if seat.pod else None, minor_of(running_version(seen))
    told = minor_in(seat.status.storage_version) if seat.status else None
    reads = bool(made and minor_of(made) == now) or bool(told and told <= now)
    return reads and _is_due(seen, seat)


def _is_due(seen: Observation, seat: Seat) -> bool:
    """Whether the pod of this seat is outdated, and may be restarted."""
    return bool(seat.pod and _is_outdated(seen, seat.pod) and _may_go(seat, seat.pod))


def _in_turn(seen: Observation, seat: Seat) -> Step | None:
    voters = roster.voters(seen)
    others = [one for one in voters if one.serves and one.ordinal != seat.ordinal]
    few = seen.cluster.size < SPARING
    if not seat.durable and few:
        return Hold(
            "RestartNeedsMembers",
            f"pod {seat.name} is to be restarted for a change of the spec, and its data is in an "
            "emptyDir: with fewer than three members it would be lost. Set spec.size to 3",
        )
    if not few and not roster.is_quorum(others, voters):
        return Wait(f"a quorum to serve without {seat.name}", soon=True)
    if seat.leads and (step := changes.hand_over(seen, seat, f"{seat.name} is to be restarted")):
        return step
    outage = "; with fewer than three members, clients are not served meanwhile" if few else ""
    return restart(seen, seat.pod, f"its template is outdated{outage}") if seat.pod else None


def recreate_crashing(seen: Observation) -> Step | None:
    """Recreates a pod in which etcd keeps failing, so that `start` checks the volume. The init
    container does not run again when only etcd's container restarts. Not above a pod that is
    missing: one that the API server refuses would keep this one away too."""
    if not seen.cluster.durable or (is_latched(seen) and seen.etcd is None):
        return None
    for seat in roster.seats(seen):
        pod = seat.pod
        meant = seat.is_voter or not is_latched(seen)
        if not (meant and pod and _keeps_failing(seen, pod) and _may_go(seat, pod)):
            continue
        if _lacks_one_below(seen, seat):
            continue
        if step := restart(seen, pod, "etcd keeps failing in it"):
            return step
    return None


def _keeps_failing(seen: Observation, pod: Pod) -> bool:
    """Whether etcd keeps failing for an unknown reason. If its data is damaged, its log says so."""
    return pod.crashing and not pod.damage and pod.age > _patience(seen)


def _patience(seen: Observation) -> float:
    return max(CRASH_SECONDS, retries.pause(seen, "Degraded"))


def is_complete(seen: Observation) -> bool:
    """Whether no pod is outdated, and the StatefulSet controller has seen the newest template."""
    return seen.is_settled_revision and not any(_is_outdated(seen, pod) for pod in seen.pods)


def unobserved_edit(seen: Observation) -> Step | None:
    """Waits until the StatefulSet controller has seen the last edit: which pods are outdated is
    unknown before. Asked last."""
    if seen.stateful_set is None or seen.is_settled_revision:
        return None
    return Wait(f"the controller of StatefulSet {seen.cluster.name} to observe its latest template")


def _is_outdated(seen: Observation, pod: Pod) -> bool:
    """Whether the pod is of an older revision, and also of another spec or epoch. The revision
    alone does not count: a new release of the operator that renders the same spec differently must
    not restart the pods of all clusters."""
    if pod.name not in seen.outdated:
        return False
    edited = pod.spec_hash != version_first.template_hash(seen)
    return edited or is_of_past_epoch(seen, pod) or _runs_another_minor(seen, pod)


def _runs_another_minor(seen: Observation, pod: Pod) -> bool:
    """Whether its etcd is of another minor than the pod was created for: somebody changed the image
    in the StatefulSet, and it was put back only after the pod was created (I9)."""
    status, made = seen.statuses.get(pod.ordinal), pod.made_for
    runs = reported_version(status.version) if status else None
    return runs is not None and made is not None and minor_of(runs) != minor_of(made)


def _lacks_start(seen: Observation, pod: Pod) -> bool:
    """Whether the operator image of this pod cannot be pulled, and the newest template may name
    another one. A pod of the newest template is left waiting, and so is one with a member record:
    it had its ticket."""
    return pod.start_missing and pod.name in seen.outdated and pod.record is None


def _may_go(seat: Seat, pod: Pod) -> bool:
    """Whether the pod may be deleted: not if it is being deleted already, nor if its claim is: the
    new pod would use the same claim."""
    return not pod.deleting and not (seat.claim and seat.claim.deleting)


def restart(seen: Observation, pod: Pod, why: str) -> DeletePod | None:
    """Deletes the pod, unless it would not come back for as long as something keeps a claim: the
    StatefulSet controller creates no pod above one whose claim is being deleted."""
    below = (seen.claim(ordinal) for ordinal in range(pod.ordinal) if seen.pod(ordinal) is None)
    if any(claim and claim.deleting for claim in below):
        return None
    return DeletePod.of(seen, pod, f"pod {pod.name} is restarted: {why}")
