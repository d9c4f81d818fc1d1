"""What the comparison, the load and the benchmarks need of each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "comparison"))

import compare
import page
from aetcd import rpc
from harness.load import Addresses, Client
from sides import Side

RUNNING = {"status": {"containerStatuses": [{"name": "etcd", "state": {"running": {}}}]}}


class Elsewhere:
    def pod(self, *_: Any) -> tuple[str, int]:
        return "127.0.0.1", 1


class OnePod(Side):
    def pods(self) -> dict[str, Any]:
        return {"a": RUNNING}


def test_a_member_that_does_not_answer_is_not_an_error_of_the_load() -> None:
    """Sides had no channels for it, so the comparison ended with the first put."""
    client = Client(Addresses(OnePod(None, Elsewhere(), "ns", "c")), 0)  # type: ignore[arg-type]

    assert client.ask(lambda stub: stub.Put(rpc.PutRequest(key=b"k"), timeout=1)) is None
    client.close()


class Versions:
    def request(self, _: str, path: str) -> dict[str, Any]:
        return {"gitVersion": "v1.36.3"} if path == "/version" else {"items": [{}] * 3}


def test_the_page_finds_the_description_of_the_machine() -> None:
    """Dates had been removed from what the benchmarks record of the machine, and the page ended
    with a KeyError after half an hour of measuring."""
    at = compare.circumstances(Versions(), wait=0)  # type: ignore[arg-type]
    report = {"lives": [{"at": at}, {"at": {**at, "date": "2026-01-02"}}]}

    told = page._place(report)

    assert told.startswith(f"2026-01-02 to {at['date']}, newest commit {at['commit']}, ")
    assert "3 nodes and everything else, Kubernetes v1.36.3" in told.replace("\n", " ")
