"""A fake cert-manager: it signs what Certificates request, when a test tells it to.

As documented by cert-manager, its Secrets have the keys `tls.crt`, `tls.key` and `ca.crt`,
annotations that name the Certificate and its issuer, the labels of the Certificate's template, and
no owner.
"""

from __future__ import annotations

import base64
from typing import Any

from fakes import FakeKube

from etcd_operator.credentials import signing
from etcd_operator.kube.api import CERTIFICATES, SECRETS, Json
from etcd_stateful.certificates import (
    APPLICATION_FILES,
    AUTHORITY_FILES,
    BACKDATED,
    CertificateSpec,
)

WAITS = "Issuing certificate as Secret does not exist"


class FakeCertManager:
    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.running = True
        self.spoils: dict[str, Any] = {}
        """By file: what it writes instead."""

        self.rotate()

    def rotate(self) -> None:
        """The issuer has another authority; what it has signed stays until it is renewed."""
        need = CertificateSpec(
            "authority", "", AUTHORITY_FILES, subject="issuer", seconds=3650 * 86400
        )
        self.authority = signing.make(need, {}, self.kube.clock.now)

    def turn(self) -> None:
        for (resource, _, name), live in list(self.kube.objects.items()):
            if resource != CERTIFICATES:
                continue
            if self.running and (SECRETS, "default", name) not in self.kube.objects:
                self.issue(name)
            ready = (SECRETS, "default", name) in self.kube.objects
            told = {"type": "Ready", "status": str(ready), "message": "" if ready else WAITS}
            if live.get("status") != {"conditions": [told]}:
                self.kube.put(CERTIFICATES, {**live, "status": {"conditions": [told]}})

    def issue(self, name: str) -> None:
        spec = self.kube.live(CERTIFICATES, name)["spec"]
        begins = self.kube.clock.now + BACKDATED  # ours begin earlier, its own at once
        files = signing.make(_need(spec), self.authority, begins)
        files = {key: one for key, one in (files | self.spoils).items() if one}
        issuer = spec["issuerRef"]
        notes = {"certificate-name": name}
        notes |= {f"issuer-{key}": issuer[key] for key in ("name", "kind", "group")}
        metadata = {
            "name": spec["secretName"],
            "namespace": "default",
            "labels": spec["secretTemplate"]["labels"],
            "annotations": {f"cert-manager.io/{key}": text for key, text in notes.items()},
        }
        data = {key: base64.b64encode(one).decode() for key, one in files.items()}
        secret: Json = {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        self.kube.put(SECRETS, secret)


def _need(spec: Json) -> CertificateSpec:
    return CertificateSpec(
        "application",
        spec["secretName"],
        APPLICATION_FILES,
        tuple(spec.get("dnsNames", ())),
        tuple(spec.get("ipAddresses", ())),
        serves="server auth" in spec["usages"],
        calls="client auth" in spec["usages"],
        subject=spec["commonName"],
        seconds=float(spec["duration"].partition("h")[0]) * 3600,
    )
