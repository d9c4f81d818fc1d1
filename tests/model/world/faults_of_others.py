"""Objects of other owners that have a name which the cluster needs (I10).

One that is on its way out goes in the end, the others stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from model.world import tables
from model.world.state import NONE, State
from model.world.world import World

_PLACES: Final = {
    "headless": ("Service", tables.NAME),
    "client": ("Service", f"{tables.NAME}-client"),
    "budget": ("PodDisruptionBudget", tables.NAME),
}


def _taken(field: str, *, passing: bool) -> Callable[[World, int], bool]:
    """Ours was deleted, and another has come in its place."""
    kind, name = _PLACES[field]

    def fault(world: World, _ordinal: int) -> bool:
        number = tables.of_another(kind, name, passing=passing)
        if getattr(world, field) == number:
            return False
        setattr(world, field, number)
        world.touch(kind, name)
        return True

    return fault


def passing(state: State | World) -> list[str]:
    """Fields with an object of another that is on its way out."""
    numbers = {field: getattr(state, field) for field in _PLACES}
    return [
        field
        for field, number in numbers.items()
        if number != NONE and tables.objects[number].passing
    ]


def gone(world: World, fields: list[str]) -> None:
    for field in fields:
        setattr(world, field, NONE)
        world.touch(*_PLACES[field])


FAULTS: Final[dict[str, Callable[[World, int], bool]]] = {
    f"{field}_taken{'_for_now' if passing else ''}": _taken(field, passing=passing)
    for field in _PLACES
    for passing in (False, True)
}
