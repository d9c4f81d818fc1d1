"""An operator as a separate process, and the times of its log lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet_plane import HOST, ROOT, free_ports

LEADS = "this is the leader"
LAST_LINES = 20


class OperatorProcess:
    """A process that restarts as a container does: in the same pod, so it keeps its Lease."""

    def __init__(self, kubeconfig: Path) -> None:
        health, self.metrics = free_ports(2)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'stateful'}",
            "PYTHONSAFEPATH": "1",
            "KUBECONFIG": str(kubeconfig),
            "WATCH_NAMESPACES": "*",
            "POD_NAME": "operator",
            "POD_UID": "fleet",
            "OPERATOR_IMAGE": "fleet.invalid/etcd-operator",
            "LOG_FORMAT": "json",
            "HEALTH_PORT": str(health),
            "METRICS_PORT": str(self.metrics),
        }
        self.leading: float | None = None
        self.looked_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._last: list[str] = []
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            (sys.executable, "-m", "etcd_operator", "run"),
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._follow, daemon=True).start()

    def kill(self) -> None:
        """Kills it with SIGKILL, so that its Lease stays held."""
        self._process.kill()
        self._process.wait()

    def until(self, what: str, good: Callable[[OperatorProcess], Any], seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: good(self), seconds):
                last = "\n".join(self._last)
                raise TimeoutError(f"{what}: not so after {seconds:g} s; its last lines:\n{last}")

    def page(self) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics}/metrics", timeout=10) as page:
            return str(page.read().decode())

    def _follow(self) -> None:
        for text in self._process.stderr or ():
            now = time.monotonic()
            with self._changed:
                self._last = [*self._last[1 - LAST_LINES :], text.rstrip()]
                self._take(json.loads(text), now)
                self._changed.notify_all()

    def _take(self, line: dict[str, Any], now: float) -> None:
        if line["message"].startswith(LEADS):
            self.leading = now
        if "step" in line:
            self.looked_at.setdefault(line["cluster"], now)
