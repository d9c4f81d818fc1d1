"""`spec.TLS`: TLS of the two links of a cluster, between peers and with clients.

Each link is in one of four modes. Once a cluster has begun, its links are those on record, whatever
the spec or another version of the operator would choose. The spec is only what the user wants.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, Literal, get_args

from etcd_stateful.api.issuer import Issuer, read_issuer
from etcd_stateful.api.reading import Reader

Mode = Literal["Plaintext", "Managed", "Static", "Issued"]

LinkName = Literal["peer", "client"]

_MODES: Final[Mapping[str, Mode]] = {mode: mode for mode in get_args(Mode)}

_CHOICES: Final = ("Managed", "Plaintext")
_BETWEEN: Final = "AndPlaintext"
"""Suffix of the recorded mode of a link that is halfway to TLS. An older operator cannot read such
a mode, and so it holds the cluster instead of treating it as plaintext or as TLS."""


class Level(IntEnum):
    """How far a link has come from plaintext to TLS. A change goes through all three levels."""

    PLAINTEXT = 0
    BETWEEN = 1
    """Members have certificates, but listen for peers in plaintext. They serve clients both with
    TLS and without it."""

    TLS = 2


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of each of the two links."""

    peer: Level
    client: Level

    @property
    def peer_scheme(self) -> str:
        """Scheme of the URLs on which members listen for peers."""
        return "https" if self.peer is Level.TLS else "http"

    @property
    def client_schemes(self) -> frozenset[str]:
        """Schemes with which members serve clients."""
        plain = {"http"} if self.client is not Level.TLS else set()
        return frozenset(plain | ({"https"} if self.client is not Level.PLAINTEXT else set()))

    def of(self, link: LinkName) -> Level:
        return self.peer if link == "peer" else self.client


@dataclass(frozen=True, slots=True)
class Link:
    """One link. Secrets are named in mode `Static` only; in other modes the operator names them."""

    mode: Mode = "Plaintext"
    secret: str = ""
    """The Secret with the members' certificate."""

    operator: str = ""
    """The Secret with the operator's client certificate."""

    issuer: Issuer | None = None
    """The cert-manager issuer, in mode `Issued` only."""

    between: bool = False
    """Whether the link is halfway between plaintext and TLS (`Level.BETWEEN`)."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the link has certificates."""
        return self.mode != "Plaintext"

    @property
    def level(self) -> Level:
        if not self.is_encrypted:
            return Level.PLAINTEXT
        return Level.BETWEEN if self.between else Level.TLS

    def towards(self, wanted: Link) -> Link | None:
        """The link after the next step towards the wanted one. None if it is reached, or cannot be:
        there is no way between two sets of certificates, nor to or from an issuer's."""
        if "Issued" in (self.mode, wanted.mode):
            return None
        if self.is_encrypted and wanted.is_encrypted:
            other_end = replace(self, between=not self.between)
            return wanted if wanted == other_end else None
        if self.is_encrypted:
            return wanted if self.between else replace(self, between=True)
        return replace(wanted, between=True) if wanted.is_encrypted else None


PLAINTEXT: Final = Link("Plaintext")
MANAGED: Final = Link("Managed")


@dataclass(frozen=True, slots=True)
class Links:
    """The two links of a cluster: between peers, and with clients."""

    peer: Link = PLAINTEXT
    client: Link = PLAINTEXT

    @property
    def are_plaintext(self) -> bool:
        return not (self.peer.is_encrypted or self.client.is_encrypted)

    @property
    def levels(self) -> Levels:
        return Levels(self.peer.level, self.client.level)

    def of(self, link: LinkName) -> Link:
        return self.peer if link == "peer" else self.client

    @property
    def digest(self) -> str:
        return hashlib.sha256(dump_links(self).encode()).hexdigest()[:8]


NO_TLS: Final = Links()


@dataclass(frozen=True, slots=True)
class Trust:
    """The authorities that members are started to trust: for each link a digest of them, or of a
    user's their names.

    Empty for a link whose authority was never rotated: its pods mount the bundle as it is.
    """

    peer: str = ""
    client: str = ""

    def __bool__(self) -> bool:
        return bool(self.peer or self.client)

    def __str__(self) -> str:
        return f"{self.peer}-{self.client}"

    def of(self, link: LinkName) -> str:
        return self.peer if link == "peer" else self.client

    @classmethod
    def read(cls, text: str) -> Trust:
        """The Trust in the text that `str` makes of one."""
        peer, _, client = text.partition("-")
        return cls(peer, client)


AS_MADE: Final = Trust()

DEFAULT: Final = Links(MANAGED, MANAGED)
"""The links of a new cluster that its spec does not set. A later change of this default affects
new clusters only: a cluster that has begun keeps its recorded links."""


@dataclass(frozen=True, slots=True)
class RequestedLinks:
    """The links that the spec asks for; None for a link that it does not set."""

    peer: Link | None = None
    client: Link | None = None

    def over(self, links: Links) -> Links:
        """The given links, replaced by those that the spec sets."""
        return Links(self.peer or links.peer, self.client or links.client)


NOTHING_REQUESTED: Final = RequestedLinks()


def read_tls(tls: Reader) -> RequestedLinks:
    """Reads `spec.TLS`."""
    static = tls.object("static")
    member = static.object("member")
    peer_secret = member.name("peerSecret", "a Secret")
    server_secret = member.name("serverSecret", "a Secret")
    operator_secret = static.name("operatorSecret", "a Secret")
    if bool(server_secret) != bool(operator_secret):
        static.problem(
            "",
            "must set both member.serverSecret and operatorSecret, or neither: with one alone the "
            "operator cannot connect to the members",
        )
    if tls.has("static") and not (peer_secret or server_secret or operator_secret):
        static.problem(
            "",
            "names no Secret; set member.peerSecret, or member.serverSecret and "
            "operatorSecret, or remove it",
        )
    peer, client = _choice(tls, "peer"), _choice(tls, "client")
    both = tls.flag("allowPlaintextClients")
    for key, chosen, secret in (("peer", peer, peer_secret), ("client", client, server_secret)):
        if chosen and secret:
            words = f"is also set by TLS.static, with Secret {secret}; remove one of the two"
            tls.problem(key, words)
    if peer_secret:
        peer = Link("Static", peer_secret)
    if server_secret:
        client = Link("Static", server_secret, operator_secret)
    if both and (client is None or not client.is_encrypted):
        tls.problem(
            "allowPlaintextClients",
            "has no effect unless clients are served with TLS: set TLS.client to Managed, or set "
            "TLS.static.member.serverSecret, or remove it",
        )
    return _with_issuer(
        tls, RequestedLinks(peer, replace(client, between=both) if client else None)
    )


def _with_issuer(tls: Reader, said: RequestedLinks) -> RequestedLinks:
    """The requested links, with the issuer for each link that the spec sets in no other way."""
    issuer = read_issuer(tls)
    if issuer is None:
        return said
    if said.peer and said.client:
        tls.problem(
            "issuerRef",
            "has no effect, as spec.TLS sets both links in other ways; remove issuerRef, or the "
            "setting of the link that the issuer is meant for",
        )
    link = Link("Issued", issuer=issuer)
    return RequestedLinks(said.peer or link, said.client or link)


def _choice(tls: Reader, key: str) -> Link | None:
    text = tls.choice(key, _CHOICES)
    if not text:
        return None
    return MANAGED if text == "Managed" else PLAINTEXT


def dump_links(links: Links) -> str:
    """The links as JSON, which `load_links` reads."""
    return json.dumps(links_as_json(links), sort_keys=True)


def links_as_json(links: Links) -> dict[str, dict[str, str]]:
    return {"peer": _link_as_json(links.peer), "client": _link_as_json(links.client)}


def _link_as_json(link: Link) -> dict[str, str]:
    mode = f"{link.mode}{_BETWEEN}" if link.between else link.mode
    said = {"mode": mode, "secret": link.secret, "operator": link.operator}
    if one := link.issuer:
        said |= {"issuer": one.name, "issuerKind": one.kind, "issuerGroup": one.group}
    return {key: text for key, text in said.items() if text}


def load_links(raw: Mapping[str, Any]) -> Links:
    """The links in parsed JSON. Raises ValueError, KeyError or TypeError: a link that cannot be
    read must not pass for plaintext."""
    return Links(_load_link(raw["peer"]), _load_link(raw["client"]))


def _load_link(raw: Mapping[str, Any]) -> Link:
    said = str(raw["mode"])
    between = said.endswith(_BETWEEN)
    mode = _MODES.get(said.removesuffix(_BETWEEN))
    if mode is None or (between and mode not in ("Managed", "Static")):
        raise ValueError(f"{said!r:.60} is not a mode of a link")
    if mode == "Issued":
        names = (str(raw[key]) for key in ("issuer", "issuerKind", "issuerGroup"))
        return Link(mode, issuer=Issuer(*names))
    secret, operator = str(raw.get("secret", "")), str(raw.get("operator", ""))
    return Link(mode, secret, operator, between=between)
