"""The operator's release, as helm has installed it and can again."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from harness.api import DEPLOYMENTS, KUBECONFIG, ROOT
from harness.operator import Operator
from harness.waiting import eventually

CHART = ROOT / "charts" / "etcd-operator"


@dataclass
class Release:
    operator: Operator
    values: str

    @classmethod
    def found(cls, operator: Operator) -> Release:
        where = f"--namespace={operator.namespace}"
        values = helm("get", "values", operator.release, where, "--output=json")
        return cls(operator, values)

    def uninstall(self) -> None:
        helm("uninstall", self.operator.release, *self._there, "--wait")
        eventually("the operator's pods are gone", lambda: not self.operator.pods(), seconds=60)

    def install(self) -> None:
        self._bring("install")

    def upgrade(self, **changed: str) -> None:
        self._bring("upgrade", *(f"--set={key}={value}" for key, value in changed.items()))

    def restore(self) -> None:
        """As it was found."""
        if self.is_there:
            self.upgrade()
        else:
            self.install()

    @property
    def is_there(self) -> bool:
        where = (self.operator.namespace, self.operator.name)
        return self.operator.kube.get(DEPLOYMENTS, *where) is not None

    @property
    def _there(self) -> tuple[str, ...]:
        return (f"--namespace={self.operator.namespace}",)

    def _bring(self, verb: str, *words: str) -> None:
        ways = ("--values=-", "--wait", "--timeout=90s", *self._there)
        helm(verb, self.operator.release, str(CHART), *ways, *words, stdin=self.values)


def helm(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["helm", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "KUBECONFIG": str(KUBECONFIG)},
    )
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
    return done.stdout
