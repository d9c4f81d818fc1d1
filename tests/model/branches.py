"""Which of the planner's answers were reached: every place in its modules that constructs a step.

The places are found in the source. Which of them built a step is traced, for every answer of a new
kind and for some of the others.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final, get_args

from etcd_stateful.membership import planner, steps
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Step
from model.world import quick

FOLDER: Final = Path(planner.__file__).parent
OFTEN: Final = 200
"""One in so many answers of a known kind is traced."""

_STEPS: Final = frozenset(kind.__name__ for kind in get_args(steps.Step))
_MAKERS: Final = frozenset({"__init__", "of"})
"""Functions that build a step."""

_NUMBERS: Final = re.compile(r"[0-9a-f]{16}|\d+")

Site = tuple[str, int]


def sites() -> dict[Site, str]:
    """Every construction of a step, `Step(...)` or `Step.of(...)`, by module and line, with the
    function that it is in."""
    found: dict[Site, str] = {}
    for path in sorted(FOLDER.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if name := _made(node):
                    found[path.stem, node.lineno] = f"{path.stem}.{function.name}: {name}"  # type: ignore[attr-defined]
    return found


def _made(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    made = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    name = made.id if isinstance(made, ast.Name) else ""
    if name not in _STEPS:
        return ""
    reason = node.args[0] if name == "Hold" and node.args else None
    said = f" {reason.value}" if isinstance(reason, ast.Constant) else ""
    return f"{name}{said}"


class Watch:
    """Wraps `decide`, and records kinds of answers and the places that they come from."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.lines: set[Site] = set()
        self._count = 0
        self._files = {str(path): path.stem for path in FOLDER.rglob("*.py")}

    def __call__(self, seen: Observation) -> Step:
        self._count += 1
        if self._count % OFTEN == 0:
            return self._watched(seen)
        step = decide(seen)
        kind = kind_of(step)
        if kind not in self.kinds:
            self._watched(seen)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return step

    def _watched(self, seen: Observation) -> Step:
        before, quick.watched = sys.gettrace(), True
        sys.settrace(self._enter)
        try:
            return decide(seen)
        finally:
            sys.settrace(before)
            quick.watched = False

    def _enter(self, frame: FrameType, _event: str, _arg: Any) -> None:
        """Notes which line has built a step. That a line ran is not enough: it may build one of
        two."""
        caller = frame.f_back
        if caller is not None and frame.f_code.co_name in _MAKERS:
            stem = self._files.get(caller.f_code.co_filename)
            if stem is not None:
                self.lines.add((stem, caller.f_lineno))

    def reached(self) -> list[str]:
        return sorted(words for site, words in sites().items() if site in self.lines)


def kind_of(step: Step) -> str:
    """The step without numbers and IDs, which differ between ordinals and members."""
    if isinstance(step, steps.Hold):
        return f"Hold {step.reason}"
    reason = getattr(step, "reason", "")
    return _NUMBERS.sub("#", f"{type(step).__name__}: {reason}")[:80]


def unreached(lines: set[Site]) -> list[str]:
    """Places that built no step and are not excused."""
    return sorted(words for site, words in sites().items() if site not in lines and not why(words))


def why(place: str) -> str:
    """Why the model does not reach this place; empty if it should."""
    entry = next((one for one in (*OTHER_FEATURES, *OUT_OF_REACH) if place.startswith(one)), "")
    return OTHER_FEATURES.get(entry) or (f"out of reach: {OUT_OF_REACH[entry][0]}" if entry else "")


def needless(lines: set[Site]) -> list[str]:
    """Places that are excused and were reached."""
    return sorted(words for site, words in sites().items() if site in lines and why(words))


def dead() -> list[str]:
    """Entries below that no place belongs to any more."""
    places = sites().values()
    every = (*OTHER_FEATURES, *OUT_OF_REACH, *RARE)
    return [one for one in every if not any(words.startswith(one) for words in places)]


def counts(lines: set[Site]) -> dict[str, int]:
    """How many places there are, how many were reached, and why the others were not."""
    every = sites()
    reached = every.keys() & lines
    excused = [why(words) for site, words in every.items() if site not in reached]
    groups = Counter(one.partition(":")[0] or "not excused" for one in excused)
    return {"all": len(every), "reached": len(reached)} | dict(sorted(groups.items()))


_LINKS: Final = "TLS"
_RESTORES: Final = "restores"
_SPACE: Final = "space and its growth"

OTHER_FEATURES: Final[dict[str, str]] = {
    "planner._without_starts": _LINKS,
    "certificates.": _LINKS,
    "rotation.": _LINKS,
    "links.": _LINKS,
    "issued.": _LINKS,
    "tls_switch.": _LINKS,
    "authentication.": "authentication",
    "restore.": _RESTORES,
    "filling.": _RESTORES,
    "in_place.": _RESTORES,
    "attempts.late_backup": _RESTORES,
    "bootstrap_source.": _RESTORES,
    "bootstrap._rebuild: Hold SplitBrain": _RESTORES,
    "space.": _SPACE,
    "claim_expansion.": _SPACE,
}
"""Places of features that the model does not contain."""

RARE: Final = (
    "bootstrap._begin: Hold SplitBrain",
    "blocked.cannot_form: Hold QuorumLost",
    "upgrade.advance: Wait",
    "bootstrap.latch_again: WriteBootstrap",
    "bootstrap._old_copy: Hold SplitBrain",
    "bootstrap.note_begun: WriteBootstrap",
    "recovery._take_off_claim: RecordMember",
    "volume_jobs.to_be_gone: Wait",
    "volume_jobs.wait_for_old_claim: Wait",
)
"""Places that only the whole search reaches, and not the part of it in every test run."""

_U: Final = "membership/"
_M: Final = f"{_U}test_"
_AFTER: Final = f"{_U}recovery/test_after_the_epoch.py"
_OTHERS_CLAIMS: Final = ("claims of a deleted cluster", f"{_M}retained.py")
_BY_HAND: Final = ("a record that was edited by hand", f"{_U}rules/test_never_empty.py")
_PUT_BACK: Final = ("a Secret that was put back from an old copy", f"{_M}put_back.py")
_NO_BUDGET: Final = ("a budget that the API server refuses to change", f"{_M}put_off.py")

OUT_OF_REACH: Final[dict[str, tuple[str, str]]] = {
    "planner._deleting": ("the cluster itself is never deleted", f"{_U}rules/test_never_empty.py"),
    "unknown.hold": ("members at other hosts", f"{_M}roster.py"),
    "learner._held_by_alarm": ("a member whose data is not hashed yet", f"{_M}alarms.py"),
    "grow._held_by_budget": _NO_BUDGET,
    "learner._held_by_budget": _NO_BUDGET,
    "children._to_be_gone": (
        "a child that is deleted in the foreground",
        f"{_U}rules/test_never_empty.py",
    ),
    "grow._pause": ("what fails for minutes: there is no such time", f"{_M}retries.py"),
    "leftovers._discard": _OTHERS_CLAIMS,
    "leftovers._nothing_to_adopt": _OTHERS_CLAIMS,
    "leftovers._ways_on": _OTHERS_CLAIMS,
    "leftovers._not_for_empty_dirs": _OTHERS_CLAIMS,
    "leftovers.damaged_record": ("a record that was edited by hand", f"{_M}retained.py"),
    "leftovers._distrusted": ("a claim that was restored with its record", f"{_M}retained.py"),
    "bootstrap.secret": _BY_HAND,
    "recovery.correct_record": _PUT_BACK,
    "bootstrap._begin: Hold RecordsLost": _BY_HAND,
    "recovery._strangers_stopped": (
        "pods of others with the names of ours",
        f"{_U}recovery/test_chain.py",
    ),
    "awaited.pod_of_a_taken_name": ("pods that lose their labels", f"{_M}roster.py"),
    "replace._surplus": ("pods that a quota refuses", f"{_M}shrink.py"),
    "volume_jobs.name_taken": ("Jobs of others with the names of ours", _AFTER),
    "volume_jobs.not_deleted": (
        "a Job that the API server refuses to delete",
        "cluster/test_reconcile_put_off.py",
    ),
    "roll.unobserved_edit": (
        "a StatefulSet controller that is behind an edit",
        f"{_U}versions/test_upgrade.py",
    ),
    "roll.next_pod: Wait": ("a refused deletion of a pod that serves since", f"{_M}put_off.py"),
    "upgrade.step_before_joining: Wait": (
        "a StatefulSet controller that is behind an edit",
        f"{_U}versions/test_upgrade.py",
    ),
    "roll._in_turn: Wait": (
        "a guard: a vacancy is filled before anyone is restarted",
        f"{_U}rolling/test_order.py",
    ),
    "upgrade._end_another": (
        "versions of three minors, and a downgrade that etcd ends late",
        f"{_U}versions/test_upgrade.py",
    ),
    "upgrade._declared": (
        "all records lost but those on claims, of a version that none can run",
        f"{_M}remembered.py",
    ),
}
"""Places of the membership that the model cannot reach: why, and the test below `tests/unit`."""
