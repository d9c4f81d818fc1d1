"""cert-manager for tests: its CRDs in the cluster, its controllers as a process of this machine."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from harness.api import CERTIFICATES, ISSUERS, REQUESTS, ROOT, SECRETS, ApiError, Kube
from harness.authority import PEM, Authority
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import eventually

PROGRAM = ROOT / "build" / "bin" / "cert-manager"
FILES = (ROOT / "build" / "cert-manager-crds").resolve()  # kubectl follows no link


class CertManager:
    """cert-manager without its webhook, which sets defaults and validates."""

    def __init__(self, kube: Kube, log: Path) -> None:
        if not PROGRAM.exists():
            pytest.skip(f"NOT RUN: {PROGRAM.relative_to(ROOT)} is made by `make test-tools`")
        self._kube = kube
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        """Installs the CRDs only."""
        self._kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(FILES))
        eventually("the CRDs of cert-manager are served", self._is_served)

    def start(self) -> None:
        environment = {**os.environ, "KUBECONFIG": str(self._kube.kubeconfig)}
        with self._log.open("ab") as out:
            self._process = subprocess.Popen([PROGRAM], env=environment, stdout=out, stderr=out)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(SLOW * 20)
            self._process = None

    def uninstall(self) -> None:
        self.stop()
        command = ("delete", "--ignore-not-found", "--wait=true", "-f", str(FILES))
        self._kube.kubectl(*command, seconds=120)

    def _is_served(self) -> bool:
        for kind in (CERTIFICATES, REQUESTS, ISSUERS):
            self._kube.list(kind)
        return True


def bring_issuer(place: Place, authority: Authority, name: str = "ca") -> None:
    """Creates an Issuer with this authority, or gives it to the existing Issuer."""
    key = authority.key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = {"tls.crt": authority.pem, "tls.key": key}
    data = {key: base64.b64encode(one).decode() for key, one in files.items()}
    secret = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": data}
    if place.kube.get(SECRETS, place.namespace, name):
        place.kube.patch(SECRETS, place.namespace, name, secret)
        return
    place.kube.create(SECRETS, secret, place.namespace)
    issuer = {"metadata": {"name": name}, "spec": {"ca": {"secretName": name}}}
    place.kube.create(ISSUERS, issuer, place.namespace)


def renew(place: Place, name: str) -> None:
    """Renews a Certificate as `cmctl renew` does."""
    live = place.kube.get(CERTIFICATES, place.namespace, name)
    if live is None:
        raise ApiError(404, f"there is no Certificate {name}")
    asked = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "asked for by a test",
        "observedGeneration": live["metadata"]["generation"],
        "lastTransitionTime": live["metadata"]["creationTimestamp"],
    }
    others = [one for one in live["status"]["conditions"] if one["type"] != "Issuing"]
    status = {"status": {"conditions": [*others, asked]}}
    place.kube.patch(CERTIFICATES, place.namespace, name, status, "status")
