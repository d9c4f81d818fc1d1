"""The list of claims that end-to-end tests keep, to notice one that is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest
from harness import waiting
from harness.api import Json, Kube
from harness.invariants import Ledger

RECORD = {"etcd.database.coreos.com/member-id": "1f"}


def claim(name: str, annotations: Json | None = None) -> Json:
    notes = RECORD if annotations is None else annotations
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes}
    return {"metadata": metadata}


class Claims:
    """What is there now, and what a watch has told."""

    def __init__(self, *there: Json) -> None:
        self.there = list(there)

    def list(self, *_: Any) -> list[Json]:
        return self.there


def ledger(there: list[Json], told: list[Json]) -> Ledger:
    made = Ledger(cast("Kube", Claims(*there)))
    for one in told:
        made._take(one)
    return made


def test_a_recorded_claim_that_is_gone_is_told():
    every = [claim("data-0"), claim("data-1"), claim("data-2"), claim("unused", {})]

    assert ledger(every[:1], every).lost("ns", {"data-2"}) == ["data-1"]


def test_a_watch_that_tells_nothing_is_not_taken_for_no_loss(monkeypatch: pytest.MonkeyPatch):
    """Without any claim in the list none was ever missed."""
    monkeypatch.setattr(waiting, "SLOW", 0)

    with pytest.raises(AssertionError, match=r"the watch tells of .*data-0"):
        ledger([claim("data-0"), claim("unused", {})], []).lost("ns", set())
