"""What the searches cover together and what they leave out, as text for the report."""

from __future__ import annotations

from typing import Any, Final

from model.search import Scenario

COVERED: Final = """
From creation: size 1 with any two faults, size 3 with any two, size 5 with any one.
At rest: sizes 1, 3 and 5 with any two faults.
Two edits of the size, among 1, 3 and 5 and from each of them, with two losses: any two at size 1,
and at 3 and 5 any two of a deleted claim, an emptied volume, a removed node, a removal by hand.
Two edits of the size with one fault of any other kind, passing or a damage.
Two edits of the version (patch, minor up and down, an image that is not there), or of the template
of the pods, with any one fault.
A step that is applied late, by a slow operator or a second one: with two faults at size 1, with one
at size 3, with a loss and an edit of the size up to size 5, with two edits and no fault.
From 3.5 to 3.7 in two edits, with a node that is reimaged; with an emptyDir, the minor up and down.
Objects of other owners, for good or passing, in the place of the Services and the disruption
budget: any two, with an edit of the size.
With an emptyDir: two faults at size 3; two edits of the size with a passing fault.
The recovery of 3 members from a lost quorum: with two faults before, while and after it is carried
out; with a late step; with edits of the size, the version or the template; asked for in other
words, anew, or taken back; with a node that a human calls off for good, and that comes back.
"""
LEFT_OUT: Final = """
More faults, edits and late steps at once than a search says: `test_random.py` draws some.
Faults at ordinals that a search does not name; most name the first and the last.
In eager searches: that the world moves while the operator has something to write.
Claims of a deleted cluster, other owners of anything else, records edited by hand: tests/unit.
That the Secret is lost in the middle of a recovery, while volumes of before still have data, and
something else beside it: a human may be called to `ForeignData`, or a learner waited for.
In a recovery: pods without their labels, etcd that leaves others on the list, a process on a node
that was called off for good and runs on without its pod: tests/unit, tests/integration.
Time, but for two bits of a pod; data, but for whether a volume has every acknowledged write.
"""


def sentences(text: str) -> list[str]:
    return [f"{' '.join(one.split())}." for one in text.split(".\n") if one.strip()]


def of(scenario: Scenario) -> dict[str, Any]:
    """What may happen in a search, for the report."""
    faults, edits, late = scenario.left
    return {
        "begins": {"spec": scenario.spec, "then": list(scenario.before)},
        "at_most": {"faults": faults, "edits": edits, "late_steps": late},
        "faults": {name: list(ordinals) for name, ordinals in scenario.faults},
        "edits": list(scenario.edits),
        "world": "waits for the operator" if scenario.eager else "moves at any speed",
    }
