"""The model's world, driven as the traces of etcd and `start` say."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from compared import NO_ANSWER, Looks

from etcd_stateful import naming
from etcd_stateful.membership import steps
from etcd_stateful.start.ticket import Ticket
from model.world import faults, moves, tables, volume
from model.world.actions import beginning, to_rest
from model.world.etcd import Refused
from model.world.seen import Planner
from model.world.state import (
    CRASH,
    ETCD,
    PENDING,
    START,
    Pod,
    State,
    content_of,
    has_quorum,
    member_at,
    up_voters,
)
from model.world.world import World
from model.world.writes import apply

WIDTH = 5
OLDEST = 5
_FAULTS = {
    "stop": "node_silent",
    "go on": "node_answers",
    "restart": "container_restarts",
    "empty": "volume_emptied",
    "reimage": "node_reimaged",
    "spoil the log of": "log_damaged",
    "mount nothing at": "wrong_mount",
    "mount again at": "right_mount",
}
_NOBODY = (
    "nobody answers",
    "no leader",
    "another member, or none, is at this address",
    "the transferee is not active",
)
"""What etcd says nothing to in time."""


class Modelled:
    """Ends every act with the world at rest, but for time: that passes when a trace says `wait`."""

    def __init__(self, size: int, version: str) -> None:
        state = to_rest(beginning(WIDTH, size=size, version=version), Planner())
        fresh = tuple(pod and pod._replace(linked=False) for pod in state.pods)
        self.state = state._replace(pods=fresh)
        self._leader = 0

    @property
    def leader(self) -> int | None:
        """The ordinal that leads."""
        etcd = self.state.etcd
        found = [one.ordinal for one in etcd.members if one.member == etcd.leader] if etcd else []
        return found[0] if found else None

    def do(self, action: str) -> str:
        verb, _, ordinal = action.rpartition(" ")
        if self.leader is not None:
            self._leader = self.leader
        try:
            if verb in _FAULTS:
                self._happens(action, _FAULTS[verb], int(ordinal))
            else:
                _ACTS[verb](self, ordinal)
        except Refused as refused:
            return NO_ANSWER if str(refused) in _NOBODY else str(refused)
        self._rest()
        return ""

    def _happens(self, action: str, name: str, ordinal: int) -> None:
        world = World(self.state)
        able = (faults.FAULTS | faults.FREE)[name](world, ordinal)
        assert able, f"in the model {action!r} cannot happen"
        self.state = world.freeze()

    def _rest(self) -> None:
        self.state = at_rest(self.state)

    # What a trace may say.

    def wait(self, _: str) -> None:
        world = World(self.state)
        moves._tick(world)
        self.state = world.freeze()

    def scale(self, replicas: str) -> None:
        """Pods are made, and wait in `start`."""
        manifest = copy.deepcopy(tables.objects[self.state.sts].live)
        manifest["spec"]["replicas"] = int(replicas)
        self._apply(steps.ApplyChild("StatefulSet", tables.NAME, manifest, ""))

    def add(self, ordinal: str) -> None:
        url = tables.specs[self.state.spec].cluster.peer_url(int(ordinal))
        self._apply(steps.MemberAddLearner(self._asked(), url, ""))

    def promote(self, ordinal: str) -> None:
        self._apply(steps.MemberPromote(self._asked(), self._member(ordinal), ""))

    def remove(self, ordinal: str) -> None:
        member = self._member(ordinal)
        self._gone = member
        self._apply(steps.MemberRemove(self._asked(), member, ""))

    def remove_again(self, _: str) -> None:
        self._apply(steps.MemberRemove(self._asked(), self._gone, ""))

    def lead(self, ordinal: str) -> None:
        self._apply(steps.MoveLeader(self._asked(), self._member(ordinal), ""))

    def downgrade(self, minor: str) -> None:
        self._apply(steps.EnableDowngrade(self._asked(), minor, ""))

    def call_off(self, _: str) -> None:
        self._apply(steps.CancelDowngrade(self._asked(), ""))

    def ticket(self, ordinal: str) -> None:
        """For the listed member at the ordinal, with everybody on the list."""
        self._ticket(int(ordinal), {one.ordinal for one in self._members()})

    def ticket_alone(self, ordinal: str) -> None:
        """With an initial cluster that lacks the others."""
        self._ticket(int(ordinal), {int(ordinal)})

    def make_again(self, ordinal: str) -> None:
        """The pod, on the same volume."""
        world = World(self.state)
        world.drop_pod(int(ordinal))
        world.pods[int(ordinal)] = Pod(PENDING, tables.objects[world.sts].template)
        moves.run_start(world, int(ordinal))
        self.state = world.freeze()

    def update(self, words: str) -> None:
        """A pod made again with another version: `update 2=3.6.16`."""
        ordinal, _, version = words.partition("=")
        manifest = copy.deepcopy(tables.objects[self.state.sts].live)
        etcd = next(
            one
            for one in manifest["spec"]["template"]["spec"]["containers"]
            if one["name"] == naming.ETCD_CONTAINER
        )
        etcd["image"] = f"{etcd['image'].rpartition(':')[0]}:v{version}"
        self._apply(steps.ApplyChild("StatefulSet", tables.NAME, manifest, ""))
        self.make_again(ordinal)

    # How.

    def _apply(self, step: steps.Write) -> None:
        self.state = apply(self.state, step)

    def _members(self) -> tuple[Any, ...]:
        return self.state.etcd.members if self.state.etcd else ()

    def _asked(self) -> steps.Leader:
        """The leader, or who led last."""
        etcd = self.state.etcd
        assert etcd is not None
        ordinal = self._leader if self.leader is None else self.leader
        return steps.Leader(f"10.0.0.{ordinal + 1}", self._member(str(ordinal)), etcd.cluster)

    def _member(self, ordinal: str) -> int:
        found = member_at(self.state, int(ordinal))
        assert found is not None, f"in the model no member is at {ordinal}"
        return found.member

    def _ticket(self, ordinal: int, initial: set[int]) -> None:
        cluster, member = tables.specs[self.state.spec].cluster, self._member(str(ordinal))
        run = tables.run_of(ordinal)
        record = tables.bootstraps[self.state.secret]
        kept = tuple(one for one in record.issued if one[0] != member)
        issued = tuple(sorted((*kept, (member, run))))
        ledger = replace(record, issued=issued)
        self._apply(steps.WriteBootstrap("", "1", ledger, ""))
        names = {at: naming.pod(tables.NAME, at) for at in sorted(initial)}
        entries = [f"{name}={cluster.peer_url(at)}" for at, name in names.items()]
        given = Ticket(
            challenge=run,
            cluster_uid=tables.UID,
            epoch=record.epoch,
            member=naming.pod(tables.NAME, ordinal),
            member_id=member,
            cluster_id=record.cluster_id,
            state="existing",
            initial_cluster=",".join(entries),
            token=record.token,
        )
        pod = naming.pod(tables.NAME, ordinal)
        self._apply(steps.PushTicket(pod, f"pod-{ordinal}", f"10.0.0.{ordinal + 1}", given, ""))

    # What it looks like.

    def look(self) -> Looks:
        state, etcd = self.state, self.state.etcd
        assert etcd is not None
        led = bool(etcd.leader) and has_quorum(state)
        pods = {at: words for at in range(WIDTH) if (words := self._pod(at))}
        if not led:
            return {"pods": pods, "leads": None}
        listed = {one.ordinal: (one.learner, one.started) for one in etcd.members}
        version = f"3.{etcd.minor}{f' down to 3.{etcd.down}' if self._tells(etcd.down) else ''}"
        return {"pods": pods, "leads": self.leader, "members": listed, "version": version}

    def _tells(self, down: int) -> bool:
        """3.5 says nothing of a downgrade."""
        pods = (self.state.pods[one.ordinal] for one in up_voters(self.state))
        return bool(down) and any(
            pod and tables.templates[pod.template].version.minor > OLDEST for pod in pods
        )

    def _pod(self, ordinal: int) -> str:
        pod, content = self.state.pods[ordinal], content_of(self.state, ordinal)
        if pod is None:
            return ""
        if self.state.away >> ordinal & 1:
            return "off"
        if pod.where == START:
            found = volume.finding(ordinal, content)
            assert found is not None
            return f"waits: {found.found}"
        if pod.where == ETCD:
            return "runs" if content and content.log else "joins"
        assert pod.where == CRASH, pod
        return "fails"


def at_rest(state: State) -> State:
    """When all that goes on by itself has, but for the passing of time."""
    while (after := _next(state)) is not None:
        state = after
    return state


def _next(state: State) -> State | None:
    for move in moves.MOVES:
        world = World(state)
        if move is not moves._tick and move(world):
            return world.freeze()
    return None


_ACTS = {
    "": Modelled.wait,
    "scale to": Modelled.scale,
    "add": Modelled.add,
    "promote": Modelled.promote,
    "remove": Modelled.remove,
    "remove it": Modelled.remove_again,
    "move the lead to": Modelled.lead,
    "downgrade to": Modelled.downgrade,
    "call it": Modelled.call_off,
    "ticket for": Modelled.ticket,
    "a ticket that names only": Modelled.ticket_alone,
    "make again": Modelled.make_again,
    "update": Modelled.update,
}
