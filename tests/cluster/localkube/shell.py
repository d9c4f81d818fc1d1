"""Runs commands and prints progress: every step with what it does and how long it took."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class ClusterError(Exception):
    """An error with a message for the person at the terminal."""


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Prints the step before it runs, as some take minutes, and its duration afterwards."""
    say(f"==> {what}")
    start = time.monotonic()
    yield
    say(f"    {what}: {time.monotonic() - start:.1f} s")


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Runs a command; returns its output. If it fails, the error contains its error output."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=env, input=stdin, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise ClusterError(
            f"{' '.join(words)}: exit {done.returncode}\n{tail(done.stdout + done.stderr)}"
        )
    return done.stdout


def succeeds(*command: str | Path) -> bool:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.splitlines()[-lines:])


def wait_until(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(0.05)
