"""How far clocks and timers are trusted."""

from __future__ import annotations

from typing import Final

CLOCKS_DIFFER: Final = 300.0
"""The largest difference that is tolerated between the clocks of two successive operators, and of
the API server."""
LONGEST_WAIT: Final = 600.0
"""Timers use a monotonic clock. The wall clock may be set, and timers may stand still while the
machine sleeps, so no timer waits for longer than this."""
