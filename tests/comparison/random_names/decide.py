"""One pass of the other approach as a pure function: what the coreos operator decided every eight
seconds.

In this order: it waits while a pod is pending, gives up while none runs, deletes pods that are not
members, compares running pods with the members, adds or removes a member until the size is right,
and finally upgrades one pod to the version. A member to remove is chosen at random.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

Pick = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Spec:
    size: int
    version: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as a pass observes it. Its name is the name of the member."""

    name: str
    phase: str
    version: str
    owner: str
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    why: str


@dataclass(frozen=True, slots=True)
class AddMember:
    """Add a voter, and then create its pod."""


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Remove a member, and then its pod, if it has one."""

    name: str


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Patch the image of a running pod."""

    name: str


@dataclass(frozen=True, slots=True)
class LostQuorum:
    """Nothing is done but to count it in a metric and log it."""


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


Move = AddMember | RemoveMember | Upgrade | LostQuorum | Nothing


@dataclass(frozen=True, slots=True)
class Pass:
    strangers: tuple[str, ...]
    """Running pods that are not members; they are deleted first."""

    move: Move


def running(spec: Spec, pods: Collection[Pod], owner: str) -> tuple[Pod, ...] | Skip:
    """The pods that count: without those that are terminating, have ended or have another owner."""
    if spec.paused:
        return Skip("paused")
    ours = [pod for pod in pods if pod.owner == owner and not pod.deleting]
    if any(pod.phase == "Pending" for pod in ours):
        return Skip("a pod is pending")
    alive = tuple(pod for pod in ours if pod.phase == "Running")
    return alive or Skip("all pods are dead")


def decide(spec: Spec, members: Collection[str], alive: Collection[Pod], pick: Pick) -> Pass:
    names = {pod.name for pod in alive}
    if names == set(members) and len(members) == spec.size:
        return Pass((), _upgrade(spec, alive))
    strangers = tuple(sorted(names - set(members)))
    return Pass(strangers, _membership(spec, members, names & set(members), pick))


def _membership(spec: Spec, members: Collection[str], alive: Collection[str], pick: Pick) -> Move:
    if len(alive) == len(members):
        return _resize(spec, members, pick)
    if len(alive) < len(members) // 2 + 1:
        return LostQuorum()
    return RemoveMember(pick(sorted(set(members) - set(alive))))


def _resize(spec: Spec, members: Collection[str], pick: Pick) -> Move:
    if len(members) < spec.size:
        return AddMember()
    if len(members) > spec.size:
        return RemoveMember(pick(sorted(members)))
    return Nothing()


def _upgrade(spec: Spec, alive: Collection[Pod]) -> Move:
    old = (pod.name for pod in alive if pod.version != spec.version)
    name = next(old, None)
    return Upgrade(name) if name else Nothing()
