"""Random operations by users and random failures of machines, in any order, on one cluster.

A seed decides which come and when, so that a run can be repeated; their timing against the
cluster's own steps still differs. Users may ask for anything at any time. Data is destroyed only if
etcd can replace it: that of one member of three or more, once all members have every acknowledged
write.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness import machines
from harness.api import (
    BUDGETS,
    CLUSTERS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    ApiError,
    Json,
    Kind,
)
from harness.clusters import PREFIX, Cluster, etcd_version, is_up, state_of
from harness.losses import damage_log, delete_claim, empty_volume, remove_by_hand
from harness.membership import settles
from harness.node import freeze_container, is_on_a_node, kill_container
from harness.operator import Operator
from harness.waiting import eventually

LARGEST = 5
VERSIONS = ("3.6.16", "3.7.3")
PAUSES = (0.0, 0.2, 1.0, 3.0, 8.0)
"""Seconds between two actions: within a step of the operator, between steps, and after several."""

SETTLES_SECONDS = 240
"""Enough for the longest chain of steps, a downgrade of five members, and a crash-loop back-off."""

OWNER = f"{PREFIX}/cluster-uid"

CHILDREN: tuple[tuple[Kind, str], ...] = (
    (STATEFUL_SETS, ""),
    (SERVICES, ""),
    (SERVICES, "-client"),
    (BUDGETS, ""),
    (SECRETS, "-start"),
    (SECRETS, "-server-tls"),
    (SECRETS, "-client-tls"),
)


@dataclass
class Chaos:
    """Random actions on one cluster, which has come up with `size` members of `version`."""

    cluster: Cluster
    operator: Operator
    chance: random.Random
    size: int
    version: str
    peers: str = "Managed"
    generation: int = 1
    deleted: set[str] = field(default_factory=set)
    """UIDs of deleted clusters, whose data may be left."""

    _lost: dict[str, str] = field(default_factory=dict)
    """IDs by name of members that have lost their data, and must be replaced."""

    def run(self, actions: int) -> None:
        for _ in range(actions):
            self._one()
            time.sleep(self.chance.choice(PAUSES))
        self.settles()

    def settles(self) -> None:
        """Waits until the cluster is as it was last declared, whatever happened before."""
        self.cluster.change(paused=False)
        machines.power_on(self.cluster.kube)
        eventually("it is as declared", self._attended, is_up, SETTLES_SECONDS)
        eventually(
            "lost members are replaced", self._unreplaced, lambda left: not left, SETTLES_SECONDS
        )
        settles(self.cluster, self.size, SETTLES_SECONDS)
        for ordinal in range(self.size):
            assert self.cluster.member(ordinal).status()["version"] == self.version

    def _one(self) -> None:
        action = self.chance.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        if action in LOSSES:
            if self.size < 3:
                return
            self.settles()
        began = time.strftime("%H:%M:%S", time.gmtime())
        print(f"{began} {action(self)}", flush=True)

    def owner(self) -> str:
        """UID of a cluster that the claims name; empty if they name none."""
        notes = (one["metadata"].get("annotations") or {} for one in self.cluster.claims().values())
        return next((note[OWNER] for note in notes if OWNER in note), "")

    def _attended(self) -> Json:
        """The cluster. If it asks for the UID of a deleted one, its user names that: an adoption
        that was broken off has left data of several."""
        asked = self.cluster.condition("Blocked").get("message", "")
        if uid := next((one for one in self.deleted if one in asked), ""):
            self.cluster.change(retainedClaims={"adopt": uid})
        body = self.cluster.body()
        assert body is not None
        return body

    def any_name(self) -> str:
        return f"{self.cluster.name}-{self.chance.randrange(self.size)}"

    def note_loss(self, name: str) -> None:
        self._lost[name] = self.cluster.client.members().ids[name]

    def _unreplaced(self) -> dict[str, str]:
        """Lost members whose ordinal is still declared, and which etcd still lists or whose ordinal
        has no member yet."""
        declared = {f"{self.cluster.name}-{ordinal}" for ordinal in range(self.size)}
        ids = self.cluster.client.members().ids
        self._lost = {
            name: lost
            for name, lost in self._lost.items()
            if name in declared and ids.get(name) in (None, "", lost)
        }
        return self._lost


# Operations of users.


def scale(chaos: Chaos) -> str:
    chaos.size = chaos.chance.randint(1, LARGEST)
    chaos.cluster.scale(chaos.size)
    return f"scaled to {chaos.size}"


def edit_template(chaos: Chaos) -> str:
    team = f"team-{chaos.chance.randrange(1000)}"
    chaos.cluster.change(pod={"labels": {"team": team}})
    return f"labelled {team}"


def change_version(chaos: Chaos) -> str:
    chaos.version = next(one for one in VERSIONS if one != chaos.version)
    chaos.cluster.change(version=chaos.version)
    return f"version {chaos.version}"


def switch_peer_tls(chaos: Chaos) -> str:
    chaos.peers = "Plaintext" if chaos.peers == "Managed" else "Managed"
    chaos.cluster.change(TLS={"peer": chaos.peers})
    return f"{chaos.peers} between members"


def renew_authorities(chaos: Chaos) -> str:
    chaos.generation += 1
    every = {"peer": chaos.generation, "client": chaos.generation, "overlapSeconds": 60}
    chaos.cluster.change(TLS={"rotation": every})
    return f"authorities of generation {chaos.generation}"


def pause_or_go_on(chaos: Chaos) -> str:
    paused = not chaos.cluster.body()["spec"].get("paused", False)
    chaos.cluster.change(paused=paused)
    return "paused" if paused else "goes on"


def delete_a_child(chaos: Chaos) -> str:
    kind, ending = chaos.chance.choice(CHILDREN)
    name = f"{chaos.cluster.name}{ending}"
    how = chaos.chance.choice(("Background", "Orphan"))
    try:
        chaos.cluster.kube.delete(kind, chaos.cluster.namespace, name, propagationPolicy=how)
    except ApiError as error:
        if error.status != 404:
            raise
        return f"{kind.kind} {name} is not there"
    return f"{kind.kind} {name} deleted ({how})"


def wipe_status(chaos: Chaos) -> str:
    kube, namespace = chaos.cluster.kube, chaos.cluster.namespace
    kube.patch(CLUSTERS, namespace, chaos.cluster.name, {"status": None}, "status")
    return "status wiped"


def delete_and_adopt(chaos: Chaos) -> str:
    """At any moment, also half-way through a change or an adoption. Data of several minors is
    adopted as the newest."""
    cluster, spec = chaos.cluster, chaos.cluster.body()["spec"]
    chaos.version = max([chaos.version, *map(etcd_version, cluster.pods().values())])
    chaos.deleted.add(cluster.uid)
    adopt = {"retainedClaims": {"adopt": owner} if (owner := chaos.owner()) else None}
    cluster.kube.delete(CLUSTERS, cluster.namespace, cluster.name, propagationPolicy="Background")
    eventually(f"{cluster.name} is gone", cluster.body, lambda body: body is None)
    cluster.declare(**(spec | adopt | {"version": chaos.version}))
    return f"deleted, and made again with its data as {chaos.version}"


# Failures of machines.


def kill_a_pod(chaos: Chaos) -> str:
    name, grace = chaos.any_name(), chaos.chance.choice((0, 30))
    return f"pod {name} killed, {grace} s of grace" if _kill(chaos, name, grace) else _absent(name)


def kill_all_pods(chaos: Chaos) -> str:
    names = [name for name in chaos.cluster.pods() if _kill(chaos, name, 0)]
    return f"pods {names} killed at once"


def kill_a_process(chaos: Chaos) -> str:
    name = chaos.any_name()
    pod = _running(chaos, name)
    if pod is None:
        return _absent(name)
    kill_container(pod, "etcd")
    return f"process of {name} killed"


def freeze_a_process(chaos: Chaos) -> str:
    name, seconds = chaos.any_name(), chaos.chance.choice((1.0, 5.0, 15.0))
    pod = _running(chaos, name)
    if pod is None:
        return _absent(name)
    freeze_container(pod, "etcd", seconds)
    return f"process of {name} frozen for {seconds:g} s"


def cut_power_or_restore_it(chaos: Chaos) -> str:
    """Never of the first node, through which this machine reaches Services."""
    if not machines.all_on():
        machines.power_on(chaos.cluster.kube)
        return "power restored"
    node = chaos.chance.choice(("node-2", "node-3"))
    machines.power_off(node)
    return f"power of {node} cut"


def kill_operator(chaos: Chaos) -> str:
    chaos.operator.kill()
    return "operator killed"


# Losses of a member's data, or of its membership.


def losing(harm: Callable[[Cluster, int], None], what: str) -> Callable[[Chaos], str]:
    def action(chaos: Chaos) -> str:
        name = chaos.any_name()
        chaos.note_loss(name)
        harm(chaos.cluster, int(name.rpartition("-")[2]))
        return f"{name} lost: {what}"

    return action


LOSSES: dict[Callable[[Chaos], str], int] = {
    losing(delete_claim, "its claim is deleted"): 2,
    losing(empty_volume, "its volume is emptied and its pod killed"): 2,
    losing(damage_log, "its log is damaged and its pod killed"): 1,
    losing(remove_by_hand, "it is removed by hand"): 2,
}

ACTIONS: dict[Callable[[Chaos], str], int] = {
    scale: 6,
    edit_template: 2,
    change_version: 2,
    switch_peer_tls: 1,
    renew_authorities: 1,
    pause_or_go_on: 2,
    delete_a_child: 3,
    wipe_status: 1,
    delete_and_adopt: 2,
    kill_a_pod: 4,
    kill_all_pods: 1,
    kill_a_process: 2,
    freeze_a_process: 2,
    cut_power_or_restore_it: 2,
    kill_operator: 3,
    **LOSSES,
}
"""All actions, with their weights."""


def _kill(chaos: Chaos, name: str, grace: int) -> bool:
    if chaos.cluster.get(PODS, name) is None:
        return False
    chaos.cluster.kube.delete(PODS, chaos.cluster.namespace, name, gracePeriodSeconds=grace)
    return True


def _running(chaos: Chaos, name: str) -> Json | None:
    """The pod, if its etcd runs. The API server does not know yet that a machine is off."""
    pod = chaos.cluster.get(PODS, name)
    runs = pod is not None and state_of(pod, "etcd") == "running" and is_on_a_node(pod, "etcd")
    return pod if runs else None


def _absent(name: str) -> str:
    return f"{name} is not there to be killed"
