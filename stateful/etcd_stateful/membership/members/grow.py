"""Adds members at ordinals that have none: after `spec.size` has grown or a member was removed.

all new pods are created at once and wait in `start` -> MemberAddLearner, lowest ordinal first
-> its ticket -> promoted (`learner`)
"""

from __future__ import annotations

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.members import budget, changes, claim_expansion
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.rolling import retries, roll, upgrade
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import MemberAddLearner, Step, Wait
from etcd_stateful.membership.tls import links
from etcd_stateful.membership.upkeep import alarms
from etcd_stateful.observed.pods import Pod


def add_lowest(seen: Observation) -> Step | None:
    """Adds a learner at the lowest vacant ordinal that can have one (I2)."""
    if alarms.is_undecided(seen):
        return None
    if candidates := _candidates(seen):
        due = [seat for seat in candidates if _is_due(seen, seat)]
        return _add(seen, due[0]) if due else _pause(candidates[0])
    tight = (seat.claim for seat in _vacant(seen) if claim_expansion.lacks_room(seen, seat.claim))
    return next((claim_expansion.to_grow(seen, claim) for claim in tight if claim), None)


def _is_due(seen: Observation, seat: Seat) -> bool:
    """Whether the pod is old enough. If earlier members may have failed, there is a pause: each new
    member costs a volume and copies all data. A pod that has waited since the growth began is old
    enough."""
    return seat.pod is not None and seat.pod.age >= retries.pause(seen, "Scaling", "Recovering")


def _pause(seat: Seat) -> Wait:
    return Wait(
        f"the back-off to pass before {seat.name} is added, {retries.LONGEST:.0f} seconds at most: "
        "members have been missing for a long time, so attempts are made less and less often"
    )


def is_possible(seen: Observation) -> bool:
    """Whether a member can be added at some ordinal now, or may be soon."""
    vacant = _vacant(seen)
    wait = any(_may_wait(seen, one) for one in vacant)
    small = any(claim_expansion.lacks_room(seen, one.claim) for one in vacant)
    return wait or small or bool(_candidates(seen))


def _may_wait(seen: Observation, seat: Seat) -> bool:
    """Whether a pod may soon wait in `start` at this ordinal: nothing is wrong with it, but it is
    still being created, or does not answer for a moment."""
    if seat.pod is None:
        return seat.ordinal < seen.replicas
    return seat.pod.answer is None and not seat.pod.is_stuck


def _candidates(seen: Observation) -> list[Seat]:
    if seen.etcd is None:
        return []
    return [seat for seat in _vacant(seen) if _may_join(seen, seat)]


def _vacant(seen: Observation) -> list[Seat]:
    wanted = (seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size)
    return [seat for seat in wanted if seat.member is None]


def _may_join(seen: Observation, seat: Seat) -> bool:
    """Whether the pod waits on an empty volume that can be recorded, and some member already runs
    its image.

    A pod whose etcd cannot start must not become a member. So the rolling restart tries a new image
    first, on an existing member; or this pod does, if the cluster cannot spare a member.
    """
    claim = seat.claim
    if not seat.volume_is_empty or seat.pod is None:
        return False
    if seat.durable and (claim is None or claim.deleting or claim.damage):
        return False
    if claim_expansion.lacks_room(seen, claim):
        return False
    voters = roster.voters(seen)
    tried = any(_is_same_image(seat.pod, one.pod) for one in voters if one.serves and one.pod)
    none_to_spare = len(voters) < min(seen.cluster.size, roll.SPARING)
    return tried or not seen.cluster.durable or none_to_spare


def _is_same_image(pod: Pod, other: Pod) -> bool:
    """Whether both pods run the same image. Pods of the same spec and version do so by definition:
    if admission replaced the image in later pods, no rolling restart would try the new one."""
    of_one_spec = bool(pod.spec_hash) and pod.spec_hash == other.spec_hash
    return of_one_spec or pod.image == other.image


def _add(seen: Observation, seat: Seat) -> Step:
    if seat.pod and (barred := upgrade.step_before_joining(seen, seat.pod)):
        return barred
    voters = roster.voters(seen)
    serving = [one for one in voters if one.serves]
    if len(voters) > 1 and len(serving) < roster.quorum(len(voters) + 1):
        # etcd refuses a learner, as any member, without a quorum of the voters plus the new one.
        return Wait(
            f"{wording.not_serving(seen, voters)} to serve, so that {seat.name} can be added",
            soon=True,
        )
    if held := _held_by_budget(seen, seat):
        return held
    url, words = seen.cluster.peer_url(seat.ordinal), f"{seat.name} is added as a learner"
    others = links.with_schemes([url], links.schemes_listed(seen)) - {url}
    other_urls = tuple(sorted(others))
    return changes.request(seen, lambda asked: MemberAddLearner(asked, url, words, other_urls))


def _held_by_budget(seen: Observation, seat: Seat) -> Wait | None:
    """Waits while the budget is too low for one more member and cannot be changed. The learner
    could not be promoted, and until then no other member could be replaced."""
    if not budget.is_stuck(seen) or budget.protects(seen, len(seen.members) + 1):
        return None
    return Wait(f"the PodDisruptionBudget to be changed again, before {seat.name} is added")
