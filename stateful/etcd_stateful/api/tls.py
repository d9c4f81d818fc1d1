"""`spec.TLS`: how members talk to each other, and how clients talk to them.

Two links, each in one of three modes. What the spec says is a wish: once a cluster has begun, its
links are those on record, whatever the spec or another version of the operator would choose.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from etcd_stateful.api.reading import Reader, is_object_name

Mode = Literal["Plaintext", "Managed", "Static"]

_CHOICES: Final = ("Managed", "Plaintext")


@dataclass(frozen=True, slots=True)
class Link:
    """One link. The Secrets are named for `Static` alone; `Managed` ones have names of ours."""

    mode: Mode = "Plaintext"
    secret: str = ""
    """With the members' certificate."""

    operator: str = ""
    """With the certificate that the operator shows as a client."""

    @property
    def is_encrypted(self) -> bool:
        return self.mode != "Plaintext"

    @property
    def scheme(self) -> str:
        return "https" if self.is_encrypted else "http"


PLAINTEXT: Final = Link("Plaintext")
MANAGED: Final = Link("Managed")


@dataclass(frozen=True, slots=True)
class Links:
    peer: Link = PLAINTEXT
    client: Link = PLAINTEXT

    @property
    def are_plaintext(self) -> bool:
        return not (self.peer.is_encrypted or self.client.is_encrypted)

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
    static = tls.object("static")
    member = static.object("member")
    peer_secret = _secret(member, "peerSecret")
    server_secret = _secret(member, "serverSecret")
    operator_secret = _secret(static, "operatorSecret")
    if bool(server_secret) != bool(operator_secret):
        static.problem(
            "",
            "member.serverSecret and operatorSecret come together: with one of them alone the "
            "operator could not talk to the members; set both or neither",
        )
    if tls.has("static") and not (peer_secret or server_secret or operator_secret):
        static.problem("", "names no Secret; set member.peerSecret, or member.serverSecret and "
                           "operatorSecret, or leave it out")  # fmt: skip
    peer, client = _choice(tls, "peer"), _choice(tls, "client")
    for key, chosen, secret in (("peer", peer, peer_secret), ("client", client, server_secret)):
        if chosen and secret:
            tls.problem(key, f"TLS.static names Secret {secret} for this link; say one of the two")
    if peer_secret:
        peer = Link("Static", peer_secret)
    if server_secret:
        client = Link("Static", server_secret, operator_secret)
    return Wishes(peer, client)


def _choice(tls: Reader, key: str) -> Link | None:
    text = tls.text(key)
    if not text:
        return None
    if text not in _CHOICES:
        tls.problem(key, f"must be one of {', '.join(_CHOICES)}, found {text[:60]!r}")
        return None
    return MANAGED if text == "Managed" else PLAINTEXT


def _secret(reader: Reader, key: str) -> str:
    name = reader.text(key)
    if name and not is_object_name(name):
        reader.problem(key, f"must be the name of a Secret of this namespace, found {name[:60]!r}")
        return ""
    return name


def dump_links(links: Links) -> str:
    """JSON, read back by `load_links`."""
    return json.dumps(links_as_json(links), sort_keys=True)


def links_as_json(links: Links) -> dict[str, dict[str, str]]:
    return {"peer": _link_as_json(links.peer), "client": _link_as_json(links.client)}


def _link_as_json(link: Link) -> dict[str, str]:
    said = {"mode": link.mode, "secret": link.secret, "operator": link.operator}
    return {key: text for key, text in said.items() if text}


def load_links(raw: Mapping[str, Any]) -> Links:
    """Raises ValueError, KeyError or TypeError: a link that cannot be read must not pass for
    plaintext."""
    return Links(_load_link(raw["peer"]), _load_link(raw["client"]))


def _load_link(raw: Mapping[str, Any]) -> Link:
    mode = raw["mode"]
    if mode not in get_args(Mode):
        raise ValueError(f"{mode!r:.60} is no mode of a link")
    return Link(mode, str(raw.get("secret", "")), str(raw.get("operator", "")))
