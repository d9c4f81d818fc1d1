"""Which of the planner's answers were reached: every place in its modules that constructs a step.

The places are found in the source. Which of them ran is traced line by line, for every answer of a
new kind and for some of the others.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
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
_NUMBERS: Final = re.compile(r"[0-9a-f]{16}|\d+")

Site = tuple[str, int]


def sites() -> dict[Site, str]:
    """Every construction of a step, `Step(...)` or `Step.of(...)`, by module and line, with the
    function that it is in."""
    found: dict[Site, str] = {}
    for path in sorted(FOLDER.glob("*.py")):
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
        self._files = {str(path): path.stem for path in FOLDER.glob("*.py")}

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

    def _enter(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        stem = self._files.get(frame.f_code.co_filename)
        if stem is None:
            return None

        def line(inner: FrameType, _event: str, _arg: Any) -> Callable[..., Any]:
            self.lines.add((stem, inner.f_lineno))
            return line

        return line(frame, "", None)

    def reached(self) -> list[str]:
        return sorted(words for site, words in sites().items() if site in self.lines)


def kind_of(step: Step) -> str:
    """The step without numbers and IDs, which differ between ordinals and members."""
    if isinstance(step, steps.Hold):
        return f"Hold {step.reason}"
    reason = getattr(step, "reason", "")
    return _NUMBERS.sub("#", f"{type(step).__name__}: {reason}")[:80]


def unreached(lines: set[Site]) -> list[str]:
    """Places that no answer came from, without those in ELSEWHERE."""
    return sorted(
        words
        for site, words in sites().items()
        if site not in lines and not any(words.startswith(one) for one in ELSEWHERE)
    )


ELSEWHERE: Final[dict[str, str]] = {
    "planner._deleting": "the model's cluster is never deleted",
    "alarms.undecided: Wait": "a hash that is missing: tests/unit/membership/test_alarms.py",
    "planner._names_taken": "objects of other owners: tests/unit",
    "planner._name_taken": "objects of other owners: tests/unit",
    "planner._optional_name_taken": "objects of other owners: tests/unit",
    "planner._unknown_members": "members at other hosts: tests/unit",
    "children._to_be_gone": "foreground deletion of a child: tests/unit",
    "grow._held_by_budget": "a budget that is refused: tests/unit/membership/test_put_off.py",
    "learner._held_by_alarm": "a hash that is missing: tests/unit/membership/test_alarms.py",
    "learner._held_by_budget": "a budget that is refused: tests/unit/membership/test_put_off.py",
    "leftovers._discard": "claims of a deleted cluster: tests/unit",
    "leftovers._nothing_to_adopt": "claims of a deleted cluster: tests/unit",
    "leftovers._ways_on": "claims of a deleted cluster: tests/unit",
    "leftovers.damaged_record": "records edited by hand: tests/unit",
    "leftovers.damaged_claim": "records edited by hand: tests/unit",
    "grow._pause": "what fails for minutes: tests/unit/membership/test_retries.py",
    "claim_expansion": "an edit of the claims' size: tests/unit/membership/test_claim_expansion.py",
    "space": "files do not grow in the model: tests/unit/membership/test_space.py",
    "bootstrap.secret": "a Secret edited by hand: tests/unit",
    "blocked._foreign_data": "volumes of other clusters: tests/unit",
    "bootstrap._begin: Hold RecordsLost": "records edited by hand: tests/unit",
    "recovery._why_useless: Hold NameTaken": "a Job of another owner: tests/unit",
    "restore": "a cluster that is born from a backup: tests/unit",
    "filling": "a volume that is filled from a backup: tests/unit",
    "in_place": "a human's EtcdRestore in place: tests/unit",
    "attempts.late_backup": "a cluster that is to be born from a backup: tests/unit",
    "bootstrap_source": "a cluster that is born from a backup: tests/unit",
    "recovery._strangers_stopped": "no pods but its own in the model: tests/unit",
    "roll.unobserved_edit": "the model's StatefulSet controller sees edits at once: tests/unit",
    "upgrade.step_before_joining: Wait": "the model's StatefulSet controller sees edits at once: "
    "tests/unit",
    "upgrade._needs_volumes": "an emptyDir, and a version a minor below: tests/unit",
    "planner._without_starts": "the model's links are in plaintext: tests/unit",
    "certificates": "the model's links are in plaintext: tests/unit",
    "rotation": "the model's links are in plaintext: tests/unit",
    "authentication": "a human's spec.auth, and its links are in plaintext: tests/unit",
    "links": "the model's links are in plaintext: tests/unit",
    "issued": "the model's links are in plaintext: tests/unit/credentials/test_issued_passes.py",
    "tls_switch": "the model's links are in plaintext: tests/unit/membership/test_tls_switch.py",
    "blocked.cannot_form": "most volumes emptied while it forms, and not all: tests/unit",
    "bootstrap._begin: Hold SplitBrain": "claims of two etcd clusters: tests/unit",
    "roll._in_turn: Wait": "a guard; a vacancy is filled before anyone is restarted: tests/unit",
    "upgrade.replace_assumed": "all records lost but those on claims, of a version that none can "
    "run: tests/unit",
    "upgrade.advance: Wait": "a member that runs neither version: tests/unit",
    "upgrade._without_old_entries: WriteBootstrap": "logs with entries of etcd 3.5: tests/unit",
}
"""Places that this model cannot reach, with the reason and where they are tested."""
