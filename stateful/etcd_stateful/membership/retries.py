"""How far apart tries are of what fails again and again: the further, the longer that goes on.

A pod that is made again fails as the one before, and its kubelet begins anew with its pauses. For
how long members have been missing or down is in the status' conditions. Should that be wiped, tries
are close together once more.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership.observation import Observation

AT_ONCE_SECONDS: Final = 120.0
"""For which what fails is tried again without a pause: mostly it fails once."""

SHARE: Final = 8
LONGEST: Final = 120.0
"""Whoever has mended the cause waits no longer than this."""


def apart(seen: Observation, *conditions: str) -> float:
    """In seconds, by how long the longest of these conditions has been true."""
    lasted = max((seen.true_for.get(one, 0.0) for one in conditions), default=0.0)
    return min(lasted / SHARE, LONGEST) if lasted >= AT_ONCE_SECONDS else 0.0
