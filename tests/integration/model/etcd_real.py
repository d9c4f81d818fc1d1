"""Real `start` and real etcd, driven as the traces say: processes without Kubernetes.

What a kubelet would do is done here: etcd is started when `start` has ended well, and again and
again when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar

from compared import NO_ANSWER, Looks
from start_helpers import listening
from start_pods import Pod, World, binary

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_operator.etcd.changes import change
from etcd_operator.etcd.client import GrpcEtcd, plaintext
from etcd_operator.step_result import Declined, Done
from etcd_stateful.membership import steps
from etcd_stateful.observed.members import EtcdView, MemberStatus
from etcd_stateful.start import ticket

T = TypeVar("T")

HEALTH_SECONDS: Final = 5.0
"""etcd's HealthInterval."""

ENDS: Final = 2
"""A container that has ended so often in a row fails."""

ONE_TRY: Final = 4.0
"""Seconds in which an etcd that is to end has ended."""


LONGEST: Final = 60.0
"""Seconds of one question, all of whose calls have deadlines of their own."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all traces, which run in threads: the loops of gRPC's asyncio share one poller, and
    the one that is closed first closes it under the others' hands."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def awaited(question: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(question, _loop()).result(LONGEST)


@dataclass
class Seat:
    """A pod and what its kubelet knows."""

    pod: Pod
    where: str = "start"
    """`start`, `etcd` or `off`."""
    ends: int = 0
    began: float = 0.0

    @property
    def ended(self) -> int | None:
        """How its last process has ended; None while it runs."""
        return self.pod.processes[-1].poll() if self.pod.processes else 0


class Processes:
    def __init__(self, world: World, size: int) -> None:
        self._world = world
        self.seats = {at: Seat(pod, "etcd") for at, pod in enumerate(world.bootstrap(size))}
        self._leads: int | None = None
        self._leader = 0
        """Who leads, or led last."""
        self._list: dict[int, tuple[bool, bool]] = {}
        self._ids: dict[int, int] = {}
        self._gone = 0
        self._ports = {
            seat.pod.settings.host: seat.pod.settings.client_port for seat in self.seats.values()
        }
        self._cluster = self.seats[0].pod.ids().cluster_id
        self._etcd = GrpcEtcd(lambda at: plaintext(replace(at, port=self._ports[at.address])))

    # What a trace may say.

    def do(self, action: str) -> str:
        verb, _, rest = action.rpartition(" ")
        said = _ACTS[verb](self, rest)
        return said or ""

    def wait(self, _: str) -> None:
        time.sleep(HEALTH_SECONDS + 0.5)

    def scale(self, replicas: str) -> None:
        for at in range(len(self.seats), int(replicas)):
            pod = self._world.pod(f"c-{at}")
            self._ports[pod.settings.host] = pod.settings.client_port
            self.seats[at] = Seat(pod)
            pod.start()

    def add(self, ordinal: str) -> str:
        return self._ask(lambda leader: steps.MemberAddLearner(leader, self._url(int(ordinal)), ""))

    def promote(self, ordinal: str) -> str:
        member = self._member(int(ordinal))
        return self._ask(lambda leader: steps.MemberPromote(leader, member, ""))

    def remove(self, ordinal: str) -> str:
        self._gone = self._member(int(ordinal))
        return self.remove_again("")

    def remove_again(self, _: str) -> str:
        return self._ask(lambda leader: steps.MemberRemove(leader, self._gone, ""))

    def lead(self, ordinal: str) -> str:
        member = self._member(int(ordinal))
        return self._ask(lambda leader: steps.MoveLeader(leader, member, ""))

    def downgrade(self, minor: str) -> str:
        return self._ask(lambda leader: steps.EnableDowngrade(leader, minor, ""))

    def call_off(self, _: str) -> str:
        return self._ask(lambda leader: steps.CancelDowngrade(leader, ""))

    def ticket(self, ordinal: str) -> str:
        return self._ticket(int(ordinal), set(self._list))

    def ticket_alone(self, ordinal: str) -> str:
        return self._ticket(int(ordinal), {int(ordinal)})

    def stop(self, ordinal: str) -> None:
        """As a node that is switched off: nothing of the pod runs, and its data stays."""
        self._end(int(ordinal)).where = "off"

    def go_on(self, ordinal: str) -> None:
        """The container only."""
        self._run(self.seats[int(ordinal)])

    def restart(self, ordinal: str) -> None:
        self._run(self._end(int(ordinal)))

    def make_again(self, ordinal: str) -> None:
        seat = self._end(int(ordinal))
        seat.where, seat.ends = "start", 0
        seat.pod.start(pod_uid=f"{seat.pod.settings.pod_uid}+")

    def update(self, words: str) -> None:
        ordinal, _, version = words.partition("=")
        seat = self.seats[int(ordinal)]
        seat.pod.etcd = binary(version.rpartition(".")[0])
        assert seat.pod.etcd.endswith(version), seat.pod.etcd
        self.make_again(ordinal)

    def empty(self, ordinal: str) -> None:
        """Under the pod, whose container is restarted."""
        seat = self._end(int(ordinal))
        _clear(seat.pod)
        self._run(seat)

    def reimage(self, ordinal: str) -> None:
        _clear(self._end(int(ordinal)).pod)
        self.make_again(ordinal)

    def spoil_log(self, ordinal: str) -> None:
        """The container goes on failing over it; only a new pod has `start` look."""
        seat = self._end(int(ordinal))
        for path in (seat.pod.volume / "data/member/wal").glob("*.wal"):
            path.write_bytes(b"\x01" * path.stat().st_size)
        self._run(seat)

    def mount_nothing(self, ordinal: str) -> None:
        seat = self._end(int(ordinal))
        right = seat.pod.volume.with_name("right")
        seat.pod.volume.rename(right)
        seat.pod.volume.mkdir()
        self.make_again(ordinal)

    def mount_again(self, ordinal: str) -> None:
        seat = self._end(int(ordinal))
        shutil.rmtree(seat.pod.volume)
        seat.pod.volume.with_name("right").rename(seat.pod.volume)
        self.make_again(ordinal)

    # How.

    def _url(self, ordinal: int) -> str:
        return self.seats[ordinal].pod.peer_url

    def _at(self, ordinal: int) -> Endpoint:
        settings = self.seats[ordinal].pod.settings
        return Endpoint(settings.host, self._cluster, port=settings.client_port)

    def _end(self, ordinal: int) -> Seat:
        seat = self.seats[ordinal]
        seat.pod.stop()
        return seat

    def _run(self, seat: Seat) -> None:
        seat.where, seat.ends = "etcd", 0
        self._container(seat)

    def _container(self, seat: Seat) -> None:
        seat.began = time.monotonic()
        seat.pod.restart_container()

    def _ask(self, step: Callable[[steps.Leader], steps.EtcdChange]) -> str:
        """The leader, or who led last, through what the operator asks with."""
        host = self.seats[self._leader].pod.settings.host
        member = self._ids[self._leader]
        asked = steps.Leader(host, member, self._cluster)
        outcome = awaited(change(self._etcd, step(asked)))
        if isinstance(outcome, Done):
            return ""
        return outcome.why if isinstance(outcome, Declined) else NO_ANSWER

    def _ticket(self, ordinal: int, initial: set[int]) -> str:
        pod = self.seats[ordinal].pod
        receipt = pod.push(
            state="existing",
            initial_cluster=",".join(self.seats[at].pod.entry for at in sorted(initial)),
            member_id=self._member(ordinal),
            cluster_id=self._cluster,
        )
        return receipt.refusal

    def _member(self, ordinal: int) -> int:
        return self._ids[ordinal]

    # What it looks like.

    def follow(self, modelled: Looks) -> None:
        self._see()
        wanted = modelled["leads"]
        if None not in (self._leads, wanted) and wanted != self._leads and self._may_lead(wanted):
            self.lead(str(wanted))
        self._kubelet()

    def _may_lead(self, ordinal: int) -> bool:
        is_learner = self._list.get(ordinal, (True, False))[0]
        return self.seats[ordinal].where == "etcd" and not is_learner

    def is_late(self) -> bool:
        """A member that has just begun makes etcd call the cluster unhealthy, for so long."""
        began = max(seat.began for seat in self.seats.values())
        return time.monotonic() - began > HEALTH_SECONDS

    def look(self) -> dict[str, Any]:
        """With the leader and the list that `follow` has just seen."""
        pods = {at: self._words(seat) for at, seat in self.seats.items()}
        if self._leads is None:
            return {"pods": pods, "leads": None}
        return {
            "pods": pods,
            "leads": self._leads,
            "members": self._list,
            "version": self._version(),
        }

    def _words(self, seat: Seat) -> str:
        if seat.where == "off":
            return "off"
        if seat.where == "start":
            return f"waits: {_found(seat.pod)}" if seat.ended is None else "starts"
        if seat.ends >= ENDS:
            return "fails"
        if seat.ended is not None:
            return "has ended"
        log = seat.pod.volume / "data/member/wal"
        return "runs" if any(log.glob("*.wal")) else "joins"

    def _kubelet(self) -> None:
        for seat in self.seats.values():
            if seat.where == "off" or (ended := seat.ended) is None:
                if seat.where == "etcd" and time.monotonic() - seat.began > ONE_TRY:
                    seat.ends = 0
                continue
            if seat.where == "start":
                assert ended == 0, seat.pod.log.read_text()
                seat.where = "etcd"
            else:
                seat.ends += 1
            self._container(seat)

    def _see(self) -> None:
        """The member list that a quorum agrees on, and who leads."""
        views = awaited(self._asked())
        self._leads = None
        for leads, view in views:
            if view is None:
                continue
            of = {f"{seat.pod.peer_url}": at for at, seat in self.seats.items()}
            at = {of[one.peer_urls[0]]: one for one in view.members if one.peer_urls[0] in of}
            self._list = {n: (one.learner, bool(one.name)) for n, one in sorted(at.items())}
            self._ids = {n: one.member_id for n, one in at.items()}
            leading = [n for n, one in at.items() if one.member_id == leads]
            if leading:
                self._leads = self._leader = leading[0]
            return

    async def _asked(self) -> list[tuple[int, EtcdView | None]]:
        return [await self._view(at) for at, seat in self.seats.items() if seat.where == "etcd"]

    async def _view(self, ordinal: int) -> tuple[int, EtcdView | None]:
        at = self._at(ordinal)
        try:
            status = await self._etcd.status(at)
            if not status.leader_id or status.learner:
                return 0, None
            return status.leader_id, await self._etcd.member_list(at)
        except (NoAnswer, Refused):
            return 0, None

    def _version(self) -> str:
        """As those say that run; what a downgrade leads to is unknown to 3.5."""
        running = {at: seat for at, seat in self.seats.items() if self._words(seat) == "runs"}
        found = {_version_of(seat.pod) for seat in running.values()}
        versions = sorted({one.rpartition(".")[0] for one in found if one})
        downs = awaited(self._targets(list(running)))
        return " and ".join(versions) + "".join(f" down to {one}" for one in sorted(downs))

    async def _targets(self, ordinals: list[int]) -> set[str]:
        found = set()
        for at in ordinals:
            with contextlib.suppress(NoAnswer, Refused):
                found.add(_target_of(await self._etcd.status(self._at(at))))
        return found - {""}


def _target_of(status: MemberStatus) -> str:
    """Where a downgrade leads to. A member's own data follow some seconds after the cluster's
    version, and no older etcd starts on them before."""
    target, data = status.downgrade_target, status.storage_version
    behind = target and data and not f"{data}.".startswith(f"{target}.")
    return f"{target}, and data of {data}" if behind else target


def _clear(pod: Pod) -> None:
    shutil.rmtree(pod.volume)
    pod.volume.mkdir()


def _found(pod: Pod) -> str:
    if not listening(pod.place.port, pod.place.addresses[0]):
        return "not listening"
    try:
        return pod.ask().finding.found
    except (OSError, ticket.NotGenuine):  # it ends just now
        return "says nothing"


def _version_of(pod: Pod) -> str | None:
    """The cluster's version as this member has it; None where nobody serves."""
    url = f"http://{pod.settings.host}:{pod.settings.client_port}/version"
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return str(json.load(reply)["etcdcluster"])
    except OSError:
        return None


_ACTS: Final[dict[str, Callable[[Processes, str], str | None]]] = {
    "": Processes.wait,
    "scale to": Processes.scale,
    "add": Processes.add,
    "promote": Processes.promote,
    "remove": Processes.remove,
    "remove it": Processes.remove_again,
    "move the lead to": Processes.lead,
    "downgrade to": Processes.downgrade,
    "call it": Processes.call_off,
    "ticket for": Processes.ticket,
    "a ticket that names only": Processes.ticket_alone,
    "stop": Processes.stop,
    "go on": Processes.go_on,
    "restart": Processes.restart,
    "make again": Processes.make_again,
    "update": Processes.update,
    "empty": Processes.empty,
    "reimage": Processes.reimage,
    "spoil the log of": Processes.spoil_log,
    "mount nothing at": Processes.mount_nothing,
    "mount again at": Processes.mount_again,
}
