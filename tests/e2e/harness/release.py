"""The operator's Helm release: uninstall, install, upgrade and roll back."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.api import KUBECONFIG, ROOT
from harness.older import Version
from harness.operator import Operator
from harness.slow import SLOW
from harness.waiting import eventually

CHART = ROOT / "charts" / "etcd-operator"
WAITING = ("--wait", f"--timeout={SLOW * 90}s")


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

    def install_instead(self, version: Version) -> None:
        """Installs another version from scratch. It takes over fields of the CRDs that other tests
        may own."""
        self.uninstall()
        ways = ("--take-ownership", "--force-conflicts", _tag(version.image))
        self._bring("install", *ways, chart=version.chart)

    def upgrade(self, **changed: str) -> None:
        self._bring("upgrade", *(f"--set={key}={value}" for key, value in changed.items()))

    def upgrade_as_documented(self, image: str) -> None:
        """Upgrades with the command in docs/operator.md."""
        ways = ("--reset-then-reuse-values", _tag(image), *WAITING, *self._there)
        helm("upgrade", self.operator.release, str(CHART), *ways)

    def roll_back(self) -> None:
        """Rolls back the last upgrade."""
        helm("rollback", self.operator.release, *WAITING, *self._there)

    def restore(self) -> None:
        """Installs the release as it was found."""
        self._bring("upgrade", "--install")

    @property
    def _there(self) -> tuple[str, ...]:
        return (f"--namespace={self.operator.namespace}",)

    def _bring(self, verb: str, *words: str, chart: Path = CHART) -> None:
        ways = ("--values=-", *WAITING, *self._there)
        helm(verb, self.operator.release, str(chart), *ways, *words, stdin=self.values)


def _tag(image: str) -> str:
    """As a string, because Helm reads a tag of digits as a number."""
    return f"--set-string=image.tag={image.rpartition(':')[2]}"


def helm(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["helm", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SLOW * 150,
        check=False,
        env={**os.environ, "KUBECONFIG": str(KUBECONFIG)},
    )
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
    return done.stdout
