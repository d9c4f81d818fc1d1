"""What befalls a cluster over the years, in whatever order: deeds of users and of machines.

Which come, and when, is drawn from a seed, so that a life can be lived again; what they meet is up
to the machine. Users ask for anything at any time. Data is only taken where etcd can give it back:
of one member of three or more, once all of them hold what is acknowledged.
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
    Json,
    Kind,
)
from harness.clusters import Cluster, state_of
from harness.losses import damage_log, delete_claim, empty_volume, remove_by_hand
from harness.membership import settles
from harness.node import freeze_container, is_on_a_node, kill_container
from harness.operator import Operator
from harness.waiting import eventually

LARGEST = 5
VERSIONS = ("3.6.16", "3.7.3")
PAUSES = (0.0, 0.2, 1.0, 3.0, 8.0)
"""Seconds between two deeds: in the middle of a step, between two of them, and after some."""

SETTLES_SECONDS = 240
"""The longest chain, a downgrade of five, after a container that the kubelet makes wait."""

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
class Life:
    """Of one cluster that has come up with `size` members of `version`."""

    cluster: Cluster
    operator: Operator
    chance: random.Random
    size: int
    version: str
    peers: str = "Managed"
    generation: int = 1
    _lost: dict[str, str] = field(default_factory=dict)
    """IDs of members without their data, by name: none of them may be counted on."""

    def live(self, deeds: int) -> None:
        for _ in range(deeds):
            self._one()
            time.sleep(self.chance.choice(PAUSES))
        self.comes_to_rest()

    def comes_to_rest(self) -> None:
        """As declared last, whatever was declared and done before."""
        self.cluster.change(paused=False)
        machines.power_on(self.cluster.kube)
        eventually(
            "the lost are replaced", self._unreplaced, lambda left: not left, SETTLES_SECONDS
        )
        settles(self.cluster, self.size, SETTLES_SECONDS)
        for ordinal in range(self.size):
            assert self.cluster.member(ordinal).status()["version"] == self.version

    def _one(self) -> None:
        deed = self.chance.choices(list(DEEDS), list(DEEDS.values()))[0]
        if deed in LOSSES:
            if self.size < 3:
                return
            self.comes_to_rest()
        began = time.strftime("%H:%M:%S", time.gmtime())
        print(f"{began} {deed(self)}", flush=True)

    def any_name(self) -> str:
        return f"{self.cluster.name}-{self.chance.randrange(self.size)}"

    def loses(self, name: str) -> None:
        self._lost[name] = self.cluster.client.members().ids[name]

    def _unreplaced(self) -> dict[str, str]:
        """Those whose ordinal is still declared, and held by the member without data or nobody."""
        declared = {f"{self.cluster.name}-{ordinal}" for ordinal in range(self.size)}
        ids = self.cluster.client.members().ids
        self._lost = {
            name: lost
            for name, lost in self._lost.items()
            if name in declared and ids.get(name) in (None, "", lost)
        }
        return self._lost


# What users do.


def scale(life: Life) -> str:
    life.size = life.chance.randint(1, LARGEST)
    life.cluster.scale(life.size)
    return f"scaled to {life.size}"


def edit_template(life: Life) -> str:
    team = f"team-{life.chance.randrange(1000)}"
    life.cluster.change(pod={"labels": {"team": team}})
    return f"labelled {team}"


def change_version(life: Life) -> str:
    life.version = next(one for one in VERSIONS if one != life.version)
    life.cluster.change(version=life.version)
    return f"version {life.version}"


def switch_peer_tls(life: Life) -> str:
    life.peers = "Plaintext" if life.peers == "Managed" else "Managed"
    life.cluster.change(TLS={"peer": life.peers})
    return f"{life.peers} between members"


def renew_authorities(life: Life) -> str:
    life.generation += 1
    every = {"peer": life.generation, "client": life.generation, "overlapSeconds": 60}
    life.cluster.change(TLS={"rotation": every})
    return f"authorities of generation {life.generation}"


def pause_or_go_on(life: Life) -> str:
    paused = not life.cluster.body()["spec"].get("paused", False)
    life.cluster.change(paused=paused)
    return "paused" if paused else "goes on"


def delete_a_child(life: Life) -> str:
    kind, ending = life.chance.choice(CHILDREN)
    name = f"{life.cluster.name}{ending}"
    how = life.chance.choice(("Background", "Orphan"))
    if life.cluster.get(kind, name) is None:
        return f"{kind.kind} {name} is not there"
    life.cluster.kube.delete(kind, life.cluster.namespace, name, propagationPolicy=how)
    return f"{kind.kind} {name} deleted ({how})"


def wipe_status(life: Life) -> str:
    kube, namespace = life.cluster.kube, life.cluster.namespace
    kube.patch(CLUSTERS, namespace, life.cluster.name, {"status": None}, "status")
    return "status wiped"


# What machines do.


def kill_a_pod(life: Life) -> str:
    name, grace = life.any_name(), life.chance.choice((0, 30))
    return f"pod {name} killed, {grace} s of grace" if _kill(life, name, grace) else _absent(name)


def kill_all_pods(life: Life) -> str:
    names = [name for name in life.cluster.pods() if _kill(life, name, 0)]
    return f"pods {names} killed at once"


def kill_a_process(life: Life) -> str:
    name = life.any_name()
    pod = _running(life, name)
    if pod is None:
        return _absent(name)
    kill_container(pod, "etcd")
    return f"process of {name} killed"


def freeze_a_process(life: Life) -> str:
    name, seconds = life.any_name(), life.chance.choice((1.0, 5.0, 15.0))
    pod = _running(life, name)
    if pod is None:
        return _absent(name)
    freeze_container(pod, "etcd", seconds)
    return f"process of {name} frozen for {seconds:g} s"


def cut_power_or_restore_it(life: Life) -> str:
    """Not of the node by way of which this machine reaches Services."""
    if not machines.all_on():
        machines.power_on(life.cluster.kube)
        return "power restored"
    node = life.chance.choice(("node-2", "node-3"))
    machines.power_off(node)
    return f"power of {node} cut"


def kill_operator(life: Life) -> str:
    life.operator.kill()
    return "operator killed"


# What takes a member's data, or its place.


def losing(harm: Callable[[Cluster, int], None], what: str) -> Callable[[Life], str]:
    def deed(life: Life) -> str:
        name = life.any_name()
        life.loses(name)
        harm(life.cluster, int(name.rpartition("-")[2]))
        return f"{name} lost: {what}"

    return deed


LOSSES: dict[Callable[[Life], str], int] = {
    losing(delete_claim, "its claim is deleted"): 2,
    losing(empty_volume, "its volume is emptied and its pod killed"): 2,
    losing(damage_log, "its log is damaged and its pod killed"): 1,
    losing(remove_by_hand, "it is removed by hand"): 2,
}

DEEDS: dict[Callable[[Life], str], int] = {
    scale: 6,
    edit_template: 2,
    change_version: 2,
    switch_peer_tls: 1,
    renew_authorities: 1,
    pause_or_go_on: 2,
    delete_a_child: 3,
    wipe_status: 1,
    kill_a_pod: 4,
    kill_all_pods: 1,
    kill_a_process: 2,
    freeze_a_process: 2,
    cut_power_or_restore_it: 2,
    kill_operator: 3,
    **LOSSES,
}
"""With the weights by which they are drawn."""


def _kill(life: Life, name: str, grace: int) -> bool:
    if life.cluster.get(PODS, name) is None:
        return False
    life.cluster.kube.delete(PODS, life.cluster.namespace, name, gracePeriodSeconds=grace)
    return True


def _running(life: Life, name: str) -> Json | None:
    """Its etcd runs; of a pod whose machine is off, the API server does not know yet."""
    pod = life.cluster.get(PODS, name)
    runs = pod is not None and state_of(pod, "etcd") == "running" and is_on_a_node(pod, "etcd")
    return pod if runs else None


def _absent(name: str) -> str:
    return f"{name} is not there to be killed"
