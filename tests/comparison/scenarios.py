"""The scenarios: what is done to a cluster of either side, and what is measured.

Every run begins with a new namespace, a cluster of a new name and its data. Then nothing happens
for longer than the five seconds after which etcd considers a member connected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from counters import fetched
from harness.api import PODS, Json
from harness.history import back_in_time
from harness.linearizability import violations
from harness.load import Load
from harness.machines import cordon, node_of, power_off, power_on
from harness.waiting import PASSING, eventually
from sides import Side
from writes import Early, found, preload

OLD, NEW = "3.7.2", "3.7.3"
SIZE, LARGER = 3, 5
SETTLE_SECONDS = 6.0
CREATE_SECONDS = 90
LONGEST_SECONDS = 90
HOPELESS_SECONDS = 40
"""How long to wait where the other approach does nothing: five of its passes."""

MAINTENANCE_SECONDS = 20
DARK_SECONDS = 100
GATEWAY = "node-1"
"""The node through which this machine reaches Services (README of the local cluster)."""

OPERATOR = "app.kubernetes.io/name=etcd-operator"
LOOK_SECONDS = 0.1
EDGE_SECONDS = 1.0
RATE = 50
"""Operations per second and client, as in docs/comparison.md: many, to measure gaps."""


@dataclass
class Life:
    """One run with one cluster, and its results so far."""

    side: Side
    run: int
    before: set[str] = field(default_factory=set)
    measured: dict[str, Json] = field(default_factory=dict)

    def create(self) -> None:
        start, early = time.monotonic(), Early(self.side)
        self.side.create(SIZE, OLD)
        took = self.until(start, CREATE_SECONDS, SIZE, OLD)
        known, measured = early.stop()
        assert took is not None, f"{self.side.name} did not come up"
        self.measured["create"] = {"seconds": took, **measured}
        self.before = known | preload(self.side)
        time.sleep(SETTLE_SECONDS)

    def order(self) -> list[str]:
        """The order in which pods are killed: over the runs, the leader has every position."""
        leader = eventually("a leader", self.side.leader)
        others = sorted(set(self.side.pods()) - {leader})
        place = self.run % (len(others) + 1)
        return [*others[:place], leader, *others[place:]]

    def kill(self, names: list[str]) -> set[str]:
        """Deletes these pods at once. Returns their UIDs, which must be gone in the end."""
        uids = {self.side.pods()[name]["metadata"]["uid"] for name in names}
        for name in names:
            self.side.kube.delete(PODS, self.side.namespace, name, gracePeriodSeconds=0)
        return uids

    @contextmanager
    def measure(
        self, what: str, size: int = SIZE, version: str = OLD, seconds: float = LONGEST_SECONDS
    ) -> Iterator[set[str]]:
        """Measures an operation under load. The clock starts with the operation.

        The operation returns the UIDs of pods that have to be gone in the end.
        """
        load = Load(self.side, rate=RATE).start()
        time.sleep(EDGE_SECONDS)
        gone: set[str] = set()
        start, wall = time.monotonic(), time.time()
        try:
            yield gone
            took = self.until(start, seconds, size, version, gone)
            time.sleep(EDGE_SECONDS)
        finally:
            load.stop()
        puts = [one for one in load.history if one.kind == "put" and one.asked >= start]
        self.measured[what] = {
            "seconds": took,
            "looked_for": None if took is not None else seconds,
            "longest_gap": load.gap(start).seconds,
            "refused": sum(one.answered is None for one in puts),
            "puts": len(puts),
            "contradictions": len(violations(load.history)) + len(back_in_time(load.history)),
            **asdict(fetched(self.side, wall)),
            **asdict(found(self.side, self.before, load)),
        }

    def until(
        self, start: float, seconds: float, size: int, version: str, gone: Any = ()
    ) -> float | None:
        """Seconds from `start` until the cluster is as declared; None if that takes too long."""
        while time.monotonic() - start < seconds:
            try:
                if self.side.is_as_declared(size, version, gone):
                    return time.monotonic() - start
            except PASSING:
                pass  # A pod or an address has just disappeared.
            time.sleep(LOOK_SECONDS)
        return None


def kill_one(life: Life) -> None:
    victims = life.order()[:1]
    with life.measure("kill one") as gone:
        gone.update(life.kill(victims))


def kill_majority(life: Life) -> None:
    victims = life.order()[: SIZE // 2 + 1]
    with life.measure("kill the majority", seconds=HOPELESS_SECONDS) as gone:
        gone.update(life.kill(victims))


def kill_all(life: Life) -> None:
    victims = life.order()
    with life.measure("kill all", seconds=HOPELESS_SECONDS) as gone:
        gone.update(life.kill(victims))


def drain(life: Life) -> None:
    """A node is drained for maintenance, and uncordoned."""
    node = node_of(life.side.pods()[life.order()[0]])
    _absence(
        life,
        Absence(
            "drain",
            node,
            MAINTENANCE_SECONDS,
            take=lambda: _drain(life.side, node),
            give_back=lambda: cordon(life.side.kube, node, on=False),
        ),
    )


def power_cut(life: Life) -> None:
    """A node loses power, and comes back long after its pods were evicted."""
    pods = life.side.pods()
    needed = {GATEWAY, *(node_of(pod) for pod in life.side.kube.list(PODS, None, OPERATOR))}
    found = [node_of(pods[name]) for name in life.order() if node_of(pods[name]) not in needed]
    assert found, "no member is on a node that can be spared"
    _absence(
        life,
        Absence(
            "power cut of a node",
            found[0],
            DARK_SECONDS,
            take=lambda: power_off(found[0]),
            give_back=lambda: power_on(life.side.kube),
        ),
    )


@dataclass(frozen=True)
class Absence:
    what: str
    node: str
    seconds: float
    take: Callable[[], None]
    give_back: Callable[[], None]


def _absence(life: Life, absence: Absence) -> None:
    there = [one for one in life.side.pods().values() if node_of(one) == absence.node]
    whole: float | None = None
    taken = 0.0
    try:
        with life.measure(absence.what, seconds=absence.seconds + LONGEST_SECONDS) as gone:
            began = time.monotonic()
            gone.update(one["metadata"]["uid"] for one in there)
            absence.take()
            taken = time.monotonic() - began
            whole = life.until(began, absence.seconds, SIZE, OLD, gone)
            time.sleep(max(0.0, began + absence.seconds - time.monotonic()))
            absence.give_back()
    finally:
        absence.give_back()
    measured = life.measured[absence.what]
    measured |= {"taken": taken, "members_on_node": len(there), "waited_for_node": whole is None}
    measured["seconds"] = whole if whole is not None else measured["seconds"]


def resize(life: Life) -> None:
    with life.measure("grow 3 to 5", size=LARGER):
        life.side.edit(size=LARGER)
    time.sleep(SETTLE_SECONDS)
    with life.measure("shrink 5 to 3"):
        life.side.edit(size=SIZE)


def upgrade(life: Life) -> None:
    with life.measure(f"upgrade {OLD} to {NEW}", version=NEW):
        life.side.edit(version=NEW)


SCENARIOS: dict[str, Callable[[Life], None]] = {
    "kill-one": kill_one,
    "kill-majority": kill_majority,
    "kill-all": kill_all,
    "drain": drain,
    "power-cut": power_cut,
    "resize": resize,
    "upgrade": upgrade,
}
WITHOUT_VOLUMES = ("kill-one", "drain")
"""Scenarios that also run our clusters with an emptyDir, as it makes a difference there."""


def _drain(side: Side, node: str) -> None:
    side.kube.kubectl(
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        f"--pod-selector=etcd_cluster={side.name}",
        "--timeout=60s",
        seconds=70,
    )
