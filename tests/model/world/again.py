"""Crash loops: a container that fails is restarted, and runs for a moment before it fails again.

The world has no state for that moment, in which nothing else happens. Whenever the planner is shown
pods that fail, it is also shown them in that moment, and must obey two rules: it does what it would
do if they ran without answering, and its message does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait
from etcd_stateful.observed.pods import Pod
from model.world.moves import Broken


def check(seen: Observation, step: Step, decide: Callable[[Observation], Step]) -> None:
    """Checks both rules. Raises Broken.

    Args:
        step: the decision while all of these pods are down.
    """
    for some in _groups([pod.ordinal for pod in seen.pods if pod.crashing]):
        told, silent = decide(_with(seen, some, _again)), decide(_with(seen, some, _runs))
        if _is_write(told) or _is_write(silent):
            if told != silent:
                raise Broken(f"again: {told} is done for etcd that is tried again, not {silent}")
        elif not _is_write(step) and told != step and not _is_excused(step, told):
            raise Broken(f"again: etcd is tried again, and instead of {step} it says {told}")


def _groups(failing: list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(1, len(failing) + 1):
        yield from combinations(failing, count)


def _with(seen: Observation, some: tuple[int, ...], how: Callable[[Pod], Pod]) -> Observation:
    pods = (how(pod) if pod.ordinal in some else pod for pod in seen.pods)
    return replace(seen, pods=tuple(pods))


def _again(pod: Pod) -> Pod:
    return replace(pod, crashing=False, tried_again=True)


def _runs(pod: Pod) -> Pod:
    return replace(pod, crashing=False, trouble="", damage="")


def _is_write(step: Step) -> bool:
    return not isinstance(step, Wait | Hold | Settled)


def _is_excused(step: Step, told: Step) -> bool:
    """Exceptions. Of several members with damaged data, a message names one that is down. And a
    member whose loss etcd's last message proves is removed as soon as the others answer, so its
    message lasts for a moment only."""
    if isinstance(step, Hold) and isinstance(told, Hold):
        return step.reason == told.reason == "DataDamaged"
    return isinstance(step, Wait) and "can be replaced: etcd in pod" in step.reason
