"""A gate: a label of nodes that pods select. While the gate is shut, they stay Pending.

So a test can hold a change half-way for as long as it needs, and nothing fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.api import NODES, PODS, Json, Kube
from harness.conditions import condition
from harness.waiting import eventually


@dataclass
class Gate:
    kube: Kube

    WANTED: ClassVar[Json] = {"nodeSelector": {"example.com/gate": "open"}}
    """Fields of `spec.pod` for objects whose pods should wait at the gate."""

    def open(self) -> None:
        self._label("open")

    def shut(self) -> None:
        """Shuts the gate. Pods that run already keep running."""
        self._label(None)

    def holds(self, namespace: str, prefix: str, count: int = 1) -> None:
        """Waits until `count` pods whose names have this prefix are Pending at the gate."""

        def waiting() -> list[str]:
            found = [one for one in self.kube.list(PODS, namespace) if is_unschedulable(one)]
            names = (str(one["metadata"]["name"]) for one in found)
            return [name for name in names if name.startswith(f"{prefix}-")]

        what = f"{count} pods of {prefix} find no node"
        eventually(what, waiting, lambda names: len(names) == count, seconds=60)

    def _label(self, value: str | None) -> None:
        labels = dict.fromkeys(self.WANTED["nodeSelector"], value)
        for node in self.kube.list(NODES):
            name = node["metadata"]["name"]
            self.kube.patch(NODES, None, name, {"metadata": {"labels": labels}})


def is_unschedulable(pod: Json) -> bool:
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"
