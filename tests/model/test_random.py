"""Long random runs: any faults, any edits and two operators, in any order. Hypothesis shrinks them.

They have more faults than the searches can afford, so a cluster may lose its quorum. No rule may
break, and once the faults are over the cluster comes to rest as declared, or is held for a true
reason.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from model.trace import Trace
from model.world import faults, faults_recovery
from model.world.actions import beginning, perform, to_rest
from model.world.moves import Broken
from model.world.seen import Planner

WIDTH = 5
EDITS = (
    *(f'{{"size": {size}}}' for size in (1, 2, 3, 4, 5)),
    '{"etcd": {"snapshotCount": 5000}}',
    '{"etcd": null}',
    '{"version": "3.6.16"}',
    '{"version": "3.6.17"}',
    '{"version": "3.7.3"}',
    '{"paused": true}',
    '{"paused": null}',
    '{"recovery": null}',
)
NAMES = {**faults.FAULTS, **faults_recovery.FAULTS}
ORDINALS = st.integers(0, WIDTH - 1)


class Lives(RuleBasedStateMachine):
    planner = Planner()

    @initialize(size=st.sampled_from((1, 3, 5)), durable=st.booleans(), settled=st.booleans())
    def declared(self, size: int, durable: bool, settled: bool) -> None:
        spec: dict[str, Any] = {"size": size, "version": "3.6.16"}
        self.spec = spec if durable else spec | {"pod": {"emptyDir": {}}}
        self.state = beginning(WIDTH, **self.spec)
        self.actions: list[str] = []
        if settled:
            self._do("rest")

    def _do(self, action: str) -> None:
        self.actions.append(action)
        try:
            self.state = perform(self.state, action, self.planner) or self.state
        except Broken as broken:
            self._tell(broken)

    def _tell(self, broken: Broken) -> None:
        path = Trace(WIDTH, self.spec, self.actions, str(broken)).write()
        raise AssertionError(f"{broken}: replay {path}") from broken

    @rule(times=st.integers(1, 6))
    def operator(self, times: int) -> None:
        for _ in range(times):
            self._do("operator")

    @rule(times=st.integers(1, 12))
    def world(self, times: int) -> None:
        for _ in range(times):
            self._do("world")

    @rule()
    def hold(self) -> None:
        self._do("hold")

    @rule()
    def late(self) -> None:
        self._do("late")

    @rule(name=st.sampled_from(sorted(NAMES)), ordinal=ORDINALS)
    def fault(self, name: str, ordinal: int) -> None:
        self._do(f"fault {name} {ordinal}")

    @rule(name=st.sampled_from(sorted(faults.FREE)), ordinal=ORDINALS)
    def end_of_a_fault(self, name: str, ordinal: int) -> None:
        self._do(f"fault {name} {ordinal}")

    @rule(fields=st.sampled_from(EDITS))
    def edit(self, fields: str) -> None:
        self._do(f"edit {fields}")

    @rule(words=st.sampled_from(("told", "0", "1", "2 fenced 1")))
    def recover(self, words: str) -> None:
        self._do(f"recover {words}")

    @rule(ordinal=ORDINALS)
    def elect(self, ordinal: int) -> None:
        self._do(f"elect {ordinal}")

    @invariant()
    def comes_to_rest(self) -> None:
        if not hasattr(self, "state"):
            return
        try:
            to_rest(self.state, self.planner)
        except Broken as broken:
            self.actions.append("rest")
            self._tell(broken)


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
