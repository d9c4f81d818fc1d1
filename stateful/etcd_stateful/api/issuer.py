"""`spec.TLS.issuerRef`: the cert-manager issuer that makes a cluster's certificates.

The fields are cert-manager's own. The issuer is in the cluster's namespace or cluster-scoped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from etcd_stateful.api.reading import Reader, is_object_name

CERT_MANAGER: Final = "cert-manager.io"
KINDS: Final = ("Issuer", "ClusterIssuer")
"""The kinds in cert-manager's own group. External issuers in other groups have other kinds."""

_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")


@dataclass(frozen=True, slots=True)
class Issuer:
    """An Issuer, a ClusterIssuer, or an external issuer of another API group."""

    name: str
    kind: str = "Issuer"
    group: str = CERT_MANAGER

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def read_issuer(tls: Reader) -> Issuer | None:
    """Reads `issuerRef`; None where the spec has none."""
    if not tls.has("issuerRef"):
        return None
    ref = tls.object("issuerRef")
    name = ref.text("name")
    kind, group = ref.text("kind") or KINDS[0], ref.text("group") or CERT_MANAGER
    if not is_object_name(name):
        ref.problem("name", f"must be the name of an issuer, found {name[:60]!r}")
    if not is_object_name(group):
        ref.problem("group", f"must be the name of an API group, found {group[:60]!r}")
    if not _KIND.fullmatch(kind) or (group == CERT_MANAGER and kind not in KINDS):
        allowed = f"{' or '.join(KINDS)}, or a kind of another issuerRef.group"
        ref.problem("kind", f"must be {allowed}, found {kind[:60]!r}")
    return Issuer(name, kind, group)
