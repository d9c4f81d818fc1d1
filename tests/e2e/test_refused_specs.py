"""Specs that only the operator can judge: each gets a condition soon, and no cluster.

The table is that of the CRD tests, `tests/integration/crds/operator_cases.yaml`; here all of it
meets a real operator at once.
"""

from __future__ import annotations

import time

import pytest
import yaml
from harness.api import CLUSTERS, PODS, ROOT, SECRETS, SERVICES, STATEFUL_SETS, Json
from harness.conditions import condition
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import eventually

TABLE = ROOT / "tests" / "integration" / "crds" / "operator_cases.yaml"
CASES: list[Json] = yaml.safe_load(TABLE.read_text())
SOON = 5


@pytest.mark.alone
@pytest.mark.timeout(60)
def test_every_invalid_spec_is_reported_soon_and_creates_nothing(place: Place):
    """Runs alone, as the delay would otherwise depend on what else the operator does."""
    for number, case in enumerate(CASES):
        place.declare(name=f"case-{number}", size=3, **case["spec"])
    declared = time.monotonic()

    eventually(
        "every case has its answer", lambda: unanswered(place), lambda left: not left, seconds=30
    )

    took = time.monotonic() - declared
    late = f"the last of {len(CASES)} answers came {took:.1f} s after the last spec"
    assert took < SLOW * SOON, late
    for kind in (STATEFUL_SETS, PODS, SERVICES, SECRETS):
        assert not place.kube.list(kind, place.namespace), kind


def unanswered(place: Place) -> dict[str, Json]:
    """The conditions of those whose answer is not the one of the table, by case."""
    stored = {one["metadata"]["name"]: one for one in place.kube.list(CLUSTERS, place.namespace)}
    said = {
        case["case"]: condition(stored[f"case-{number}"], "Accepted")
        for number, case in enumerate(CASES)
    }
    return {
        case["case"]: said[case["case"]] for case in CASES if not answers(case, said[case["case"]])
    }


def answers(case: Json, accepted: Json) -> bool:
    message = accepted.get("message", "")
    return (
        accepted.get("status") == "False"
        and accepted.get("reason") == case["reason"]
        and all(str(word) in message for word in case["says"])
    )
