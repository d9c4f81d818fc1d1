"""Back-off between retries: the longer something has been failing, the longer the pause.

A recreated pod starts the kubelet's back-off from zero, so the operator needs its own. How long
members have been missing or down is read from the status conditions; if somebody wipes those, the
back-off starts again.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership.observation import Observation

AT_ONCE_SECONDS: Final = 120.0
"""For this long there is no pause between retries: most failures happen once."""

SHARE: Final = 8
"""After that, the pause is the time that the failure has lasted, divided by this."""

LONGEST: Final = 120.0
"""The longest pause, which is how long a fixed problem may still go unnoticed."""


def pause(seen: Observation, *conditions: str) -> float:
    """The pause in seconds, from how long the longest-lasting of these conditions has been true."""
    lasted = max((seen.true_for.get(one, 0.0) for one in conditions), default=0.0)
    return min(lasted / SHARE, LONGEST) if lasted >= AT_ONCE_SECONDS else 0.0
