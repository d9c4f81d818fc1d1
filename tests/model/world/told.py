"""What a user writes who reads the status. The small worlds of the unit tests use it too."""

from __future__ import annotations

import re
from typing import Any


def recovery_in(message: str) -> dict[str, Any] | None:
    """The `spec.recovery` that a user writes after reading the condition: with its first candidate,
    which is the one with the highest index. None if it tells of no recovery."""
    needs = r'clusterID "(\w+)", epoch (\d+) and the survivor that you choose: (\S+)'
    found = re.search(needs, message)
    if found is None:
        return None
    return {"survivor": found[3], "clusterID": found[1], "epoch": int(found[2])}
