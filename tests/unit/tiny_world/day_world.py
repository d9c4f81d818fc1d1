"""The tiny world with everything that may happen to one cluster at once: a recovery, a restore in
place, TLS turned on and off, and all that the worlds below know."""

from __future__ import annotations

from typing import Any

from inplace_world import InPlaceWorld
from recovery_world import RecoveryWorld
from world_switch import OFF, SwitchWorld


class DayWorld(SwitchWorld, InPlaceWorld):
    def __init__(self, size: int = 3, **spec: Any) -> None:
        super().__init__(size, **({"TLS": OFF} | spec))

    def ask_for_recovery(self, ordinal: int, **fields: Any) -> None:
        RecoveryWorld.ask(self, ordinal, **fields)
