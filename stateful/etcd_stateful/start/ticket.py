"""The protocol between `start` and the operator, and how messages are authenticated.

The operator connects to port 2378 of a pod and sends a nonce. `start` answers with the challenge of
this one run, the pod's UID and what it found on the volume. The operator may then send a ticket
for that challenge. Each message is one line of JSON, `{"body": {...}, "mac": "<hex>"}`. The MAC is
an HMAC-SHA256 with the cluster's key over a domain and the body; with the domain, an answer cannot
be passed off as a ticket.

It imports the standard library only, because `start` loads it on every pod start.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, TypeVar, get_args

MAX_LINE: Final = 16 * 1024
"""The longest line that either side reads, in bytes."""

Domain = Literal["answer", "ticket", "receipt"]
Found = Literal["no-data", "foreign-data", "unreadable", "damaged", "ticketed"]
ClusterState = Literal["new", "existing", "adopt"]


class NotGenuine(ValueError):
    """The message is malformed, or not signed with the cluster's key."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What `start` found on the volume, if it could not run etcd at once.

    - `no-data`: there is no WAL.
    - `foreign-data`: a WAL of another cluster, member or epoch, with what is known of it.
    - `unreadable`: the volume could not be read; `detail` says why.
    - `damaged`: the marker is this member's, but the WAL was read and is not one.
    - `ticketed`: this run has taken its ticket, and waits until DNS resolves the pod's name. The
      same ticket gets the same receipt.
    """

    found: Found
    detail: str = ""
    cluster_uid: str | None = None
    epoch: int | None = None
    member: str | None = None
    member_id: int | None = None
    cluster_id: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of `start`, bound to the operator's nonce, to this pod and to this run."""

    nonce: str
    challenge: str
    pod_uid: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Ticket:
    """Permission to start etcd once, as this member, on the volume of the run that sent
    `challenge`."""

    challenge: str
    cluster_uid: str
    epoch: int
    member: str
    member_id: int
    cluster_id: int
    state: ClusterState
    initial_cluster: str
    token: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The reply of `start` to the ticket for `challenge`."""

    challenge: str
    refusal: str = ""
    """Why it refused the ticket; empty once it has written marker and configuration."""


Message = TypeVar("Message", Finding, Answer, Ticket, Receipt)

_CHOICES: Final = {"Found": get_args(Found), "ClusterState": get_args(ClusterState)}
_TYPES: Final = {
    "str": (str,),
    "int": (int,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "Finding": (Finding,),
}


def seal(key: bytes, domain: Domain, message: Answer | Ticket | Receipt) -> bytes:
    """The message as one signed line."""
    body = asdict(message)
    return _line({"body": body, "mac": _mac(key, domain, body)})


def greeting(nonce: str) -> bytes:
    """The operator's first line. It carries no secret and needs no proof."""
    return _line({"nonce": nonce})


def read_greeting(line: bytes) -> str:
    """The nonce of a greeting; raises NotGenuine for anything else."""
    nonce = _parse(line).get("nonce")
    if not isinstance(nonce, str) or not 16 <= len(nonce) <= 128:
        raise NotGenuine("no nonce in the greeting")
    return nonce


def open_answer(key: bytes, line: bytes) -> Answer:
    """The answer in a signed line; raises NotGenuine."""
    body = _open(key, "answer", line)
    try:
        finding = _checked(Finding(**body.pop("finding")))
        return _checked(Answer(**body, finding=finding))
    except (TypeError, KeyError) as error:
        raise NotGenuine(f"answer of another shape: {error}") from error


def open_ticket(key: bytes, line: bytes) -> Ticket:
    """The ticket in a signed line; raises NotGenuine."""
    try:
        return _checked(Ticket(**_open(key, "ticket", line)))
    except TypeError as error:
        raise NotGenuine(f"ticket of another shape: {error}") from error


def open_receipt(key: bytes, line: bytes) -> Receipt:
    """The receipt in a signed line; raises NotGenuine."""
    try:
        return _checked(Receipt(**_open(key, "receipt", line)))
    except TypeError as error:
        raise NotGenuine(f"receipt of another shape: {error}") from error


def _checked(message: Message) -> Message:
    """The message, if every field has its declared type; else raises TypeError.

    Another version of the operator may sign values that this version does not understand, and a
    dataclass accepts any value. It compares `type`, because a bool is an int too.
    """
    for field in fields(message):
        value, declared = getattr(message, field.name), str(field.type)
        if declared in _CHOICES:
            right = value in _CHOICES[declared]
        else:
            right = type(value) in _TYPES[declared]
        if not right:
            raise TypeError(f"{field.name} is not a {declared}")
    return message


def _open(key: bytes, domain: Domain, line: bytes) -> dict[str, Any]:
    envelope = _parse(line)
    body, mac = envelope.get("body"), envelope.get("mac")
    if not isinstance(body, dict) or not isinstance(mac, str) or not mac.isascii():
        raise NotGenuine("no body or no signature")
    if not hmac.compare_digest(mac, _mac(key, domain, body)):
        raise NotGenuine("not signed with this cluster's key")
    return body


def _mac(key: bytes, domain: Domain, body: dict[str, Any]) -> str:
    if len(key) < 32:
        raise NotGenuine("the cluster's key is missing or too short")
    try:
        plain = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except RecursionError as error:  # The body could just be parsed, but is too deep to write.
        raise NotGenuine("nested too deeply") from error
    text = f"etcd-start/v1/{domain}\0{plain}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotGenuine("not a line of JSON") from error
    if not isinstance(message, dict):
        raise NotGenuine("not a JSON object")
    return message


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, sort_keys=True, separators=(",", ":")).encode() + b"\n"
