"""What the cluster is made of: chosen by a variable when it is made, and kept beside its data."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from localkube.paths import STATE
from localkube.shell import ClusterError


@dataclass(frozen=True)
class Choice:
    """`words` matches what the variable may be, and `allowed` says that to people."""

    variable: str
    default: str
    words: re.Pattern[str]
    allowed: str

    def made(self) -> str:
        return self._file.read_text() if self._file.exists() else self.default

    def asked(self) -> str:
        """Raises ClusterError if it cannot be."""
        asked = os.environ.get(self.variable) or self.made()
        if not self.words.fullmatch(asked):
            raise ClusterError(f"{self.variable}={asked}: must be {self.allowed}")
        if asked != self.made() and STATE.exists():
            raise ClusterError(
                f"{self.variable}={asked}: the cluster that is there is made of {self.made()}: "
                "make cluster-down"
            )
        return asked

    def write(self, asked: str) -> None:
        self._file.write_text(asked)

    @property
    def _file(self) -> Path:
        return STATE / self.variable.lower()


def keep(*choices: Choice) -> None:
    """Keeps what the environment asks for; raises ClusterError if the cluster is made otherwise."""
    asked = [(each, each.asked()) for each in choices]
    STATE.mkdir(parents=True, exist_ok=True)
    for each, word in asked:
        each.write(word)
