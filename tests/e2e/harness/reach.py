"""Addresses of pods and Services: their own if this machine has a route, else port-forwards."""

from __future__ import annotations

import re
import socket
import subprocess

from harness.address import Address
from harness.api import PODS, SERVICES, ApiError, Kube


class Reach:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._forwards: dict[tuple[str, str, int], tuple[subprocess.Popen[str], int]] = {}
        self.direct = self._has_route()

    def service(self, namespace: str, name: str, port: int) -> Address:
        """The address of a Service, behind which kube-proxy chooses a pod. With a port-forward,
        kubectl chooses one pod."""
        if not self.direct:
            return self._forwarded(namespace, f"service/{name}", port)
        found = self._kube.get(SERVICES, namespace, name)
        if found is None:
            raise ApiError(404, f"there is no Service {name}")
        return found["spec"]["clusterIP"], port

    def pod(self, namespace: str, name: str, port: int) -> Address:
        if not self.direct:
            return self._forwarded(namespace, f"pod/{name}", port)
        found = self._kube.get(PODS, namespace, name)
        address = (found or {}).get("status", {}).get("podIP")
        if not address:
            raise ApiError(404, f"pod {name} has no address")
        return address, port

    def close(self) -> None:
        for process, _ in self._forwards.values():
            process.terminate()
            process.communicate()
        self._forwards.clear()

    def _has_route(self) -> bool:
        found = self._kube.get(SERVICES, "default", "kubernetes")
        address = (found or {}).get("spec", {}).get("clusterIP", "")
        try:
            with socket.create_connection((address, 443), timeout=2):
                return True
        except OSError:
            return False

    def _forwarded(self, namespace: str, target: str, port: int) -> Address:
        key = (namespace, target, port)
        known = self._forwards.get(key)
        if known is None or known[0].poll() is not None:
            self._forwards[key] = known = self._forward(namespace, target, port)
        return "127.0.0.1", known[1]

    def _forward(self, namespace: str, target: str, port: int) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [
                "kubectl",
                f"--kubeconfig={self._kube.kubeconfig}",
                f"--namespace={namespace}",
                "port-forward",
                target,
                f":{port}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found is None:
            process.terminate()
            process.communicate()
            raise ApiError(0, f"cannot forward to {target}: {line.strip()}")
        return process, int(found[1])
