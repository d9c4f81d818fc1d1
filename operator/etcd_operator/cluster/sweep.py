"""Asks one cluster over the network: `start` in pods that wait in it, and the etcd members.

A pod or member that does not answer is left out of the result, so the planner treats it as unknown.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from etcd_operator.cluster import tickets
from etcd_operator.cluster.endpoints import deadline, endpoints, list_order
from etcd_operator.cluster.tickets import Start
from etcd_operator.etcd import auth_look, corruption, recounting
from etcd_operator.etcd.accounts import Accounts
from etcd_operator.etcd.api import (
    Denied,
    Endpoint,
    Etcd,
    Identity,
    NoAnswer,
    NoHandshake,
    Refused,
    Stranger,
)
from etcd_operator.etcd.auth_look import AuthLook
from etcd_operator.etcd.corruption import Suspicion
from etcd_operator.repeats import Repeats
from etcd_operator.tasks import loop_time
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.observed.members import EtcdView, MemberStatus, is_full
from etcd_stateful.observed.pods import Pod, StartAnswer

log = logging.getLogger(__name__)

SECONDS_PER_CALL: Final = 10.0
"""A settled cluster costs at most 0.1 calls of etcd per second (I12)."""

SHORTEST_INTERVAL: Final = 15.0
AGAIN_SECONDS: Final = 600.0
"""How often to warn about the same member of another cluster that answers at a pod's address."""

LIST_TRIES: Final = 3
"""How many voters are asked for the member list in one pass. Each may use its whole deadline."""

Shape = tuple[object, ...]
"""What must not change for an earlier answer of the network to be reused."""

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Sweep:
    """The answers of one round, and the shape of the cluster that they are valid for."""

    statuses: Mapping[int, MemberStatus] = field(default_factory=dict)
    strangers: Mapping[int, int] = field(default_factory=dict)
    etcd: EtcdView | None = None
    """The member list, from a voter that knows a leader."""

    suspicion: Suspicion = corruption.NONE
    calls: int = 0
    """How many calls of etcd the round took."""

    denied: str = ""
    """etcd's message if it denies the operator access; else empty."""

    no_handshakes: Mapping[int, str] = field(default_factory=dict)
    """By ordinal: why no TLS connection to etcd came about."""

    looked: AuthLook | None = None
    known: AuthLook | None = None
    """The last look that succeeded, in this round or an earlier one."""

    answers: Mapping[str, StartAnswer] = field(default_factory=dict)
    """The answers of `start`, by pod UID."""

    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Why `start` did not answer, by pod UID."""

    of: Shape = ()
    at: float = 0.0
    answered: float = 0.0
    """When the last answer came, in the event loop's time."""

    stagger: float = 0.0
    """By how much the interval is extended, as a fraction of it."""

    @property
    def interval(self) -> float:
        if is_full(self.suspicion.alarms):
            return SHORTEST_INTERVAL  # clients cannot write until the operator sees free space
        return max(SHORTEST_INTERVAL, SECONDS_PER_CALL * self.calls) * (1 + self.stagger)

    def onto(self, base: Observation) -> Observation:
        pods = tuple(self._as_asked(pod) for pod in base.pods)
        return replace(
            base,
            pods=pods,
            etcd=self.etcd,
            statuses=self.statuses,
            strangers=self.strangers,
            alarms=self.suspicion.alarms,
            hashes=self.suspicion.hashes,
            denied=self.denied,
            auth=self.looked.view if self.looked else None,
        )

    def _as_asked(self, pod: Pod) -> Pod:
        why = self.unanswered.get(pod.uid, "")
        closed = self.no_handshakes.get(pod.ordinal, "")
        answer = self.answers.get(pod.uid)
        return replace(pod, answer=answer, unanswered=why, no_handshake=closed)


class Network:
    """Asks `start` and etcd of one cluster at a time. No answer of theirs raises an exception."""

    def __init__(
        self,
        start: Start,
        etcd: Etcd,
        accounts: Accounts,
        clock: Callable[[], float],
    ) -> None:
        self._start = start
        self._etcd = etcd
        self._clock = clock
        self._accounts = accounts
        self._repeats = Repeats(AGAIN_SECONDS, clock)

    async def ask(
        self,
        base: Observation,
        key: bytes | None,
        last: Sweep | None = None,
        identity: Identity | None = None,
        passwords: Mapping[str, str] | None = None,
    ) -> Sweep:
        """Asks all pods in `start` and all members once.

        Args:
            key: the key of the start tickets. Without a usable key (None) `start` is not asked.
            last: the last round, for results that need not be asked for again.
            identity: the operator's client certificate; None if it has none.
            passwords: the passwords of etcd's users that should be tried.
        """
        said, sweep = await asyncio.gather(
            self._ask_starts(base.pods, key),
            self._ask_etcd(base, last or Sweep(), identity, passwords or {}),
        )
        return replace(
            sweep,
            answers={uid: one for uid, one in said.items() if isinstance(one, StartAnswer)},
            unanswered={uid: one for uid, one in said.items() if isinstance(one, str)},
            of=shape_of(base),
            at=self._clock(),
            answered=loop_time(),
            stagger=_fraction_for(base.cluster.uid) if last is None else 0.0,
        )

    async def _ask_starts(
        self, pods: Iterable[Pod], key: bytes | None
    ) -> Mapping[str, StartAnswer | str]:
        """By pod UID: what `start` said, or why it did not answer."""
        if key is None:
            return {}
        waiting = [pod for pod in pods if pod.in_start and pod.address and not pod.deleting]
        said = await asyncio.gather(*(self._ask_start(pod, key) for pod in waiting))
        return {pod.uid: one for pod, one in zip(waiting, said, strict=True)}

    async def _ask_start(self, pod: Pod, key: bytes) -> StartAnswer | str:
        try:
            answer = await self._start.ask(pod.address, pod.uid, key)
        except tickets.NoAnswer as error:
            log.debug("start in pod %s did not answer: %s", pod.name, error)
            return str(error)
        return StartAnswer(answer.challenge, answer.finding)

    async def _ask_etcd(
        self,
        base: Observation,
        last: Sweep,
        identity: Identity | None,
        passwords: Mapping[str, str],
    ) -> Sweep:
        """The round as far as etcd is asked."""
        places = endpoints(base, identity)
        asked = (self._etcd.status(at, deadline(base, ordinal)) for ordinal, at in places.items())
        answers = await asyncio.gather(*(self._said(one) for one in asked))
        said = dict(zip(places, answers, strict=True))
        statuses = {one: status for one, status in said.items() if isinstance(status, MemberStatus)}
        sweep = Sweep(
            statuses,
            _strangers(said),
            calls=len(places),
            denied=next((str(why) for why in answers if isinstance(why, Denied)), ""),
            no_handshakes={n: str(why) for n, why in said.items() if isinstance(why, NoHandshake)},
            known=last.known,
        )
        for ordinal in list_order(statuses)[:LIST_TRIES]:
            view = await self._said(self._etcd.member_list(places[ordinal]))
            sweep = replace(sweep, calls=sweep.calls + 1)
            if isinstance(view, EtcdView):
                voter = places[ordinal]
                found = await self._suspicion(voter, view, places, statuses, last.suspicion)
                if recounting.is_due(base, found.alarms):
                    statuses = await recounting.recounted(self._etcd, places, statuses)
                looked = None
                if authentication.is_asked_about(base):
                    looked = await auth_look.look(
                        self._accounts, voter, base, passwords, last.known
                    )
                return replace(
                    sweep,
                    statuses=statuses,
                    etcd=view,
                    suspicion=found,
                    calls=sweep.calls + found.calls + (auth_look.CALLS if looked else 0),
                    looked=looked,
                    known=looked or last.known,
                )
            if isinstance(view, Denied):
                sweep = replace(sweep, denied=sweep.denied or str(view))
        return sweep

    async def _suspicion(
        self,
        voter: Endpoint,
        view: EtcdView,
        places: Mapping[int, Endpoint],
        statuses: Mapping[int, MemberStatus],
        last: Suspicion,
    ) -> Suspicion:
        """Looks for corruption if a member on the list reports an alarm, or if a learner is silent:
        to ask for alarms adds an entry to etcd's log, which it may need."""
        rouse, listed = _has_silent_learner(view, places, statuses), _of_listed(view, statuses)
        if not rouse and not corruption.is_raised(listed.values()):
            return corruption.NONE
        return await corruption.look_into(
            self._etcd, voter, places, listed, last=last, clock=self._clock
        )

    async def _said(self, asked: Awaitable[Reply]) -> Reply | NoAnswer | Refused:
        try:
            return await asked
        except (NoAnswer, Refused) as error:
            self._log(error)
            return error

    def _log(self, error: Exception) -> None:
        """Logs an error: a member of another cluster at a pod's address, or a failed handshake, as
        a warning now and then, all else at DEBUG: members often do not answer while pods start."""
        grave = isinstance(error, Stranger | NoHandshake)
        news = grave and self._repeats.is_new(str(error))
        log.log(logging.WARNING if news else logging.DEBUG, "etcd: %s", error)


def _fraction_for(uid: str) -> float:
    """A fraction from 0 to 1 that differs between clusters.

    An operator that has just started asks its whole fleet at once. This fraction spreads the next
    rounds over an interval; otherwise the whole fleet would be asked at the same moments forever.
    """
    digest = hashlib.sha256(uid.encode()).digest()
    return int.from_bytes(digest[:4]) / 2**32


def _strangers(said: Mapping[int, object]) -> dict[int, int]:
    """By ordinal: the ID of the other cluster whose member answered there."""
    others = ((n, why.cluster_id) for n, why in said.items() if isinstance(why, Stranger))
    return {n: cluster for n, cluster in others if cluster is not None}


def _of_listed(view: EtcdView, statuses: Mapping[int, MemberStatus]) -> Mapping[int, MemberStatus]:
    """The statuses of members on the list. A removed one may answer for a while, and its data says
    nothing about theirs."""
    listed = {one.member_id for one in view.members}
    return {n: status for n, status in statuses.items() if status.member_id in listed}


def _has_silent_learner(
    view: EtcdView, places: Mapping[int, Endpoint], statuses: Mapping[int, MemberStatus]
) -> bool:
    """Whether a learner runs that may be waiting for any new entry in etcd's log.

    A learner that received a snapshot of the database counts nothing as applied before the next
    entry. If it is more than 5000 entries behind because of that, etcd refuses the learner's own
    announcement (`too many requests`), and the learner does not serve before it has announced
    itself. Without client writes this lasts forever (seen on 3.6.16 and 3.7.3).
    """
    told = {status.member_id for status in statuses.values()}
    silent = any(one.learner and one.member_id not in told for one in view.members)
    return silent and places.keys() != statuses.keys()


def shape_of(base: Observation) -> Shape:
    """What answers of the network depend on. An answer may be reused while this stays equal."""
    cluster_id = base.bootstrap.cluster_id if base.bootstrap else None
    pods = tuple(replace(pod, resource_version="", age=0.0) for pod in base.pods)
    return (base.cluster.uid, base.cluster.generation, cluster_id, pods)
