"""Actions: one thing that happens, as a line of text. Traces are lists of actions.

operator            observes, decides and applies one step
hold                a second operator decides on a step, but does not apply it yet
late                the second operator applies that step now
world               controllers, kubelets and etcd make one move
elect 2             the voters elect ordinal 2
fault pod_deleted 2 a fault, or the end of a passing one; see `faults`
edit {"size": 5}    the spec is edited
recover told        spec.recovery is written by what the status tells, with its first candidate
recover 1 fenced 2  spec.recovery is written by a human, from other fields of the status
heal                passing faults end
rest                everything continues without faults until it is at rest
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.identity import to_hex
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.steps import Hold, Step, Write
from model.world import faults, rules, steps_held, tables
from model.world.etcd import Refused
from model.world.goal import goes_round_well, rests_well
from model.world.moves import Broken, candidates, elect, heal, next_move
from model.world.seen import Planner
from model.world.state import NONE, Member, State, content_of, up_voters
from model.world.told import recovery_in
from model.world.writes import apply, is_write

LONGEST = 400
"""Within this many steps a cluster must be at rest once faults are over. None needs as many."""


def beginning(width: int, **fields: object) -> State:
    """The state in which an EtcdCluster has just been created."""
    nothing = (None,) * width
    spec = tables.spec(**fields)
    return State(spec, 0, NONE, NONE, NONE, NONE, NONE, nothing, nothing, None, ())


def perform(state: State, action: str, planner: Planner) -> State | None:
    """The state after an action; None if it cannot happen or changes nothing. Raises Broken."""
    kind, _, rest = action.partition(" ")
    if kind == _RECOVER:
        return recover(state, rest, planner)
    if kind in _OPERATOR:
        return _OPERATOR[kind](state, planner)
    return _OTHERS[kind](state, rest)


def checked(state: State | None) -> State | None:
    if state is not None:
        rules.check_state(state)
    return state


def act(state: State, planner: Planner) -> State | None:
    """The state after the operator's next step; None if it writes nothing or changes nothing."""
    step = planner(state)
    return carry_out(state, step) if is_write(step) else None


def carry_out(state: State, step: Write | Step, *, late: bool = False) -> State | None:
    if not late:
        rules.check_step(state, step)
    try:
        after = apply(state, step)  # type: ignore[arg-type]
    except Refused:
        return None
    if late:  # A step that is refused does no harm.
        rules.check_step(state, step)
    rules.check_state(after)
    return after if after != state else None


def hold(state: State, planner: Planner) -> State | None:
    step = planner(state)
    if state.pending != NONE or not is_write(step):
        return None
    return state._replace(pending=steps_held.hold(step))


def late(state: State, planner: Planner) -> State | None:
    """Applies the held step. Before an irreversible step the shell decides again from fresh reads,
    and drops the step if it would choose another."""
    if state.pending == NONE:
        return None
    step, state = steps_held.step(state.pending), state._replace(pending=NONE)
    if is_final(step) and planner(state) != step:
        return state
    if tables.specs[state.spec].cluster.paused:
        return state  # docs/model.md: a pause is never observed late.
    return carry_out(state, step, late=True) or state


def edit(state: State, fields: str) -> State | None:
    spec = tables.edited(state.spec, fields)
    return None if spec == state.spec else state._replace(spec=spec)


def recover(state: State, words: str, planner: Planner) -> State | None:
    asked = _told(state, planner) if words == "told" else _made_up(state, words)
    return edit(state, json.dumps({"recovery": asked})) if asked else None


def _told(state: State, planner: Planner) -> dict[str, Any] | None:
    """What a human writes after reading the status. No member that answers may be a better survivor
    than the first candidate there."""
    step = planner(state)
    message = step.message if isinstance(step, Hold) else ""
    asked = recovery_in(message)
    if asked is None:
        return None
    content = content_of(state, tables.ordinal_of(asked["survivor"]))
    others = (content_of(state, one.ordinal) for one in up_voters(state) if _stays(state, one))
    if not (content and content.has) and any(one and one.has for one in others):
        raise Broken(f"told: {asked['survivor']} lacks what another member has")
    return asked


def _stays(state: State, member: Member) -> bool:
    claim = state.claims[member.ordinal]
    return claim is not None and not claim.deleting and not claim.lost


def _made_up(state: State, words: str) -> dict[str, Any] | None:
    """A recovery written by a human, who can always copy status.clusterID and status.epoch."""
    if state.secret == NONE or not tables.bootstraps[state.secret].latched:
        return None
    record = tables.bootstraps[state.secret]
    survivor, _, fenced = words.partition(" fenced ")
    asked: dict[str, Any] = {
        "survivor": naming.pod(tables.NAME, int(survivor)),
        "clusterID": to_hex(record.cluster_id),
        "epoch": record.epoch,
    }
    return asked | {"fenced": [naming.pod(tables.NAME, int(one)) for one in fenced.split()]}


def forward(state: State, planner: Planner) -> State | None:
    """The next state if nothing interferes; None at rest."""
    return act(state, planner) or checked(next_move(state)) or checked(heal(state))


def to_rest(state: State, planner: Planner) -> State:
    """The state at rest. Raises Broken if there is none, or if it must not rest there."""
    state, seen = state._replace(pending=NONE), dict[State, None]()
    while True:
        if state in seen:
            went_round(list(seen)[list(seen).index(state) :], planner)
            return state
        seen[state] = None
        after = forward(state, planner)
        if after is None:
            if words := rests_well(state, planner(state)):
                raise Broken(f"rest: {words}")
            return state
        if len(seen) > LONGEST:
            raise Broken(f"rest: not within {LONGEST} steps; now {planner(state)}")
        state = after


def went_round(states: list[State], planner: Planner) -> None:
    """Raises Broken unless the cycle of states is acceptable."""
    if words := goes_round_well(states, [planner(one) for one in states]):
        raise Broken(f"rest: {words}")


def _elect(state: State, ordinal: str) -> State | None:
    able = [one for one in candidates(state) if one.ordinal == int(ordinal)]
    return checked(elect(state, able[0])) if able else None


def _fault(state: State, words: str) -> State | None:
    name, _, ordinal = words.partition(" ")
    return checked(faults.happen(state, name, int(ordinal or 0)))


_OPERATOR: Final[dict[str, Callable[[State, Planner], State | None]]] = {
    "operator": act,
    "hold": hold,
    "late": late,
    "rest": to_rest,
}
_RECOVER: Final = "recover"
_OTHERS: Final[dict[str, Callable[[State, str], State | None]]] = {
    "world": lambda state, _: checked(next_move(state)),
    "heal": lambda state, _: checked(heal(state)),
    "elect": _elect,
    "fault": _fault,
    "edit": edit,
}
