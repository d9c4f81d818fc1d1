"""Credentials of a client of a cluster with TLS: certificate, key and trusted authorities."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import grpc
from cryptography import x509

from harness.address import Address, unconnected
from harness.api import Json


@dataclass(frozen=True)
class Credentials:
    """PEM files. `host` is the name that members' certificates must have, because they are reached
    by address. `certificate` is empty for a client without a certificate."""

    authority: bytes
    certificate: bytes
    key: bytes
    host: str

    @classmethod
    def of(cls, secret: Json, host: str) -> Credentials:
        """The credentials in a Secret that an application would mount."""
        data = {key: base64.b64decode(text) for key, text in secret["data"].items()}
        return cls(data["ca.crt"], data["tls.crt"], data["tls.key"], host)

    @cached_property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode())
        if self.certificate:
            with tempfile.NamedTemporaryFile() as file:  # the ssl module reads files only
                file.write(self.key + self.certificate)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def unconnected(self, where: Address) -> ssl.SSLSocket:
        """A socket to connect later. If a connected socket is reset before it is wrapped, Python
        leaks the wrapper (`SSLSocket._create` reads from it, and closes nothing if that fails)."""
        return self.context.wrap_socket(
            unconnected(where), server_hostname=self.host, do_handshake_on_connect=False
        )

    def shown_at(self, where: Address) -> x509.Certificate:
        """The certificate that a member presents at this address."""
        with self.unconnected(where) as secured:
            secured.settimeout(2)
            secured.connect(where)
            secured.do_handshake()
            shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown)

    def channel(self, target: str, options: tuple[tuple[str, Any], ...]) -> Any:
        mine = (self.key, self.certificate) if self.certificate else (None, None)
        found = grpc.ssl_channel_credentials(self.authority, *mine)
        named = (("grpc.ssl_target_name_override", self.host),)
        return grpc.secure_channel(target, found, options=options + named)
