"""`spec.TLS`: how members talk to each other, and how clients talk to them.

Two links, each in one of four modes. What the spec says is a wish: once a cluster has begun, its
links are those on record, whatever the spec or another version of the operator would choose.
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
"""Ends a mode on record that TLS is only half of. A version of the operator that knows nothing of
such links cannot read it, and holds the cluster rather than taking it for one or the other."""


class Level(IntEnum):
    """How far a link has come from plaintext to TLS. A change goes through all three."""

    PLAINTEXT = 0
    BETWEEN = 1
    """Members have their certificates, and listen for each other in plaintext; clients are served
    with TLS and without it."""

    TLS = 2


@dataclass(frozen=True, slots=True)
class Levels:
    """How far each of the two links is from plaintext to TLS."""

    peer: Level
    client: Level

    @property
    def peer_scheme(self) -> str:
        """Of the URLs that members listen for each other on."""
        return "https" if self.peer is Level.TLS else "http"

    @property
    def client_schemes(self) -> frozenset[str]:
        """That clients are served with."""
        plain = {"http"} if self.client is not Level.TLS else set()
        return frozenset(plain | ({"https"} if self.client is not Level.PLAINTEXT else set()))


@dataclass(frozen=True, slots=True)
class Link:
    """One link. The Secrets are named for `Static` alone; others have names of ours."""

    mode: Mode = "Plaintext"
    secret: str = ""
    """With the members' certificate."""

    operator: str = ""
    """With the certificate that the operator shows as a client."""

    issuer: Issuer | None = None
    """Of cert-manager, who makes the certificates of an `Issued` link, and of no other."""

    between: bool = False
    """It is half-way from plaintext to TLS, or back (`Level.BETWEEN`)."""

    @property
    def is_encrypted(self) -> bool:
        """Whether it has certificates."""
        return self.mode != "Plaintext"

    @property
    def level(self) -> Level:
        if not self.is_encrypted:
            return Level.PLAINTEXT
        return Level.BETWEEN if self.between else Level.TLS

    def towards(self, wished: Link) -> Link | None:
        """The link that comes next on the way; None at its end, and where there is no way: from
        certificates to others, and to those of an issuer or from them."""
        if "Issued" in (self.mode, wished.mode):
            return None
        if self.is_encrypted and wished.is_encrypted:
            other_end = replace(self, between=not self.between)
            return wished if wished == other_end else None
        if self.is_encrypted:
            return wished if self.between else replace(self, between=True)
        return replace(wished, between=True) if wished.is_encrypted else None


PLAINTEXT: Final = Link("Plaintext")
MANAGED: Final = Link("Managed")


@dataclass(frozen=True, slots=True)
class Links:
    """How members talk to each other, and how clients talk to them."""

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
    """Which managed authorities members are started to trust: a digest of them all for each link.

    Empty for a link none of whose authorities was ever rotated: its pods mount what there is.
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
        """What `str` made of one."""
        peer, _, client = text.partition("-")
        return cls(peer, client)


AS_MADE: Final = Trust()

DEFAULT: Final = Links(MANAGED, MANAGED)
"""What a new cluster gets for a link that its spec does not speak of. The one place to change it:
a cluster that has begun keeps the links that are on record."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the spec says; None for a link that it does not speak of."""

    peer: Link | None = None
    client: Link | None = None

    def over(self, links: Links) -> Links:
        """The links with what is wished for in place of what is there."""
        return Links(self.peer or links.peer, self.client or links.client)


UNSAID: Final = Wishes()


def read_tls(tls: Reader) -> Wishes:
    """`spec.TLS`, as far as it says anything."""
    static = tls.object("static")
    member = static.object("member")
    peer_secret = member.name("peerSecret", "a Secret")
    server_secret = member.name("serverSecret", "a Secret")
    operator_secret = static.name("operatorSecret", "a Secret")
    if bool(server_secret) != bool(operator_secret):
        static.problem(
            "",
            "member.serverSecret and operatorSecret come together: with one of them alone the "
            "operator could not talk to the members; set both or neither",
        )
    if tls.has("static") and not (peer_secret or server_secret or operator_secret):
        static.problem(
            "",
            "names no Secret; set member.peerSecret, or member.serverSecret and "
            "operatorSecret, or leave it out",
        )
    peer, client = _choice(tls, "peer"), _choice(tls, "client")
    both = tls.flag("allowPlaintextClients")
    for key, chosen, secret in (("peer", peer, peer_secret), ("client", client, server_secret)):
        if chosen and secret:
            tls.problem(key, f"TLS.static names Secret {secret} for this link; say one of the two")
    if peer_secret:
        peer = Link("Static", peer_secret)
    if server_secret:
        client = Link("Static", server_secret, operator_secret)
    if both and (client is None or not client.is_encrypted):
        tls.problem(
            "allowPlaintextClients",
            "serves clients without TLS beside those with it: set TLS.client to Managed, or "
            "TLS.static.member.serverSecret, or leave it out",
        )
    return _with_issuer(tls, Wishes(peer, replace(client, between=both) if client else None))


def _with_issuer(tls: Reader, said: Wishes) -> Wishes:
    """An issuer is for each link that nothing else is said of."""
    issuer = read_issuer(tls)
    if issuer is None:
        return said
    if said.peer and said.client:
        tls.problem(
            "issuerRef",
            "is for the links that TLS says nothing else of, and it does of both; leave out "
            "issuerRef, or what is said of the link that the issuer is meant for",
        )
    link = Link("Issued", issuer=issuer)
    return Wishes(said.peer or link, said.client or link)


def _choice(tls: Reader, key: str) -> Link | None:
    text = tls.choice(key, _CHOICES)
    if not text:
        return None
    return MANAGED if text == "Managed" else PLAINTEXT


def dump_links(links: Links) -> str:
    """JSON, read back by `load_links`."""
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
    """Raises ValueError, KeyError or TypeError: a link that cannot be read must not pass for
    plaintext."""
    return Links(_load_link(raw["peer"]), _load_link(raw["client"]))


def _load_link(raw: Mapping[str, Any]) -> Link:
    said = str(raw["mode"])
    between = said.endswith(_BETWEEN)
    mode = _MODES.get(said.removesuffix(_BETWEEN))
    if mode is None or (between and mode not in ("Managed", "Static")):
        raise ValueError(f"{said!r:.60} is no mode of a link")
    if mode == "Issued":
        names = (str(raw[key]) for key in ("issuer", "issuerKind", "issuerGroup"))
        return Link(mode, issuer=Issuer(*names))
    secret, operator = str(raw.get("secret", "")), str(raw.get("operator", ""))
    return Link(mode, secret, operator, between=between)
