"""A user's own certificate authority, without any code of the operator."""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness.api import Json

PEM = serialization.Encoding.PEM


@dataclass
class Authority:
    name: str = "a user's authority"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        own = x509.BasicConstraints(ca=True, path_length=None)
        built = _builder(self.name, self.name, self.key, days=10).add_extension(own, critical=True)
        self.certificate = built.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(PEM)

    def sign(self, subject: str, *names: str, days: float = 10) -> tuple[bytes, bytes]:
        """A certificate that is valid for servers and clients, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        built = _builder(subject, self.name, key, days=days)
        built = built.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if names:
            found = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
            built = built.add_extension(found, critical=False)
        private = key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return built.sign(self.key, hashes.SHA256()).public_bytes(PEM), private

    def secret(self, name: str, prefix: str, *names: str, days: float = 10) -> Json:
        """A Secret with the coreos operator's keys: `<prefix>.crt`, `<prefix>.key` and
        `<prefix>-ca.crt`."""
        certificate, key = self.sign(name, *names, days=days)
        files = {f"{prefix}.crt": certificate, f"{prefix}.key": key, f"{prefix}-ca.crt": self.pem}
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        return {"metadata": {"name": name}, "data": data}


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, *, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    begins = now - datetime.timedelta(days=20)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
