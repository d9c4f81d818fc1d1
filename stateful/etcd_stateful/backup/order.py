"""What the Job's pod is told, in its environment: one JSON text without any secret in it.

Linux runs nothing with a variable of more than 128 KiB, and the spec of a cluster with many roles
is longer. So a long text is packed, as `base64 --decode | gunzip` unpacks it. A spec that is still
too long, as nobody writes one by hand, is left out and said to be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from etcd_stateful.api import stores
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import packing
from etcd_stateful.untrusted import loads, whole

VARIABLE: Final = "BACKUP"

STORE_FOLDER: Final = "/etc/etcd-backup/store"
CA_FOLDER: Final = "/etc/etcd-backup/ca"
CLIENT_FOLDER: Final = "/etc/etcd-backup/client"
VOLUME: Final = "/var/etcd-backup"
"""Where the pod finds the Secrets, and the claim of a store of the kind Volume."""

CA_FILE: Final = "ca.crt"
"""The one key of a store's `caSecret` that its pods get."""

ENDPOINTS_FIELD: Final = "spec.etcdEndpoints"
CLUSTER_FIELD: Final = "spec.clusterRef.name"
CERTIFICATE_FIELD: Final = "spec.clientTLSSecret"

Action = Literal["store", "delete", "describe", "bring", "prove"]
_ACTIONS: Final[Mapping[str, Action]] = {
    "store": "store",
    "delete": "delete",
    "describe": "describe",
    "bring": "bring",
    "prove": "prove",
}

PROGRESS_PORT: Final = 2377

_MOST_PLAIN: Final = 20_000
"""Of characters that may all become six, where the kubelet is kept from expanding them."""

_MOST_PACKED: Final = 100_000


class BadOrder(ValueError):
    """Not an order that the operator wrote."""


@dataclass(frozen=True, slots=True)
class Order:
    owner: str
    """Namespace and name of the EtcdBackup, as `namespace/name`."""
    owner_uid: str
    endpoints: tuple[str, ...]
    endpoints_field: str
    """The field that named them, for messages."""
    store: Store
    cluster_id: int = 0
    """The etcd cluster that is meant; 0 where any will do."""
    client_secret: str = ""
    client_secret_field: str = CERTIFICATE_FIELD
    """What it follows from, for messages."""
    stamped: bool = False
    """Whether revision and time are appended to the key."""
    keep: int = 0
    spare: str = ""
    """Key of the last backup that has succeeded, which is not to be deleted as an old one."""
    also: tuple[str, ...] = ()
    """Locations of what else this owner has stored, for its deletion."""
    timeout: int = 60
    run: str = ""
    """Of a single backup, which of its runs: another try of one that has stored takes that."""
    action: Action = "store"
    """Store a backup; delete what this owner has stored; describe the cluster of what is there;
    bring a backup for its trial restore, and prove what came of it."""
    verify: bool = False
    """Read it back once it is stored, and compare."""
    scheduled: bool = False
    """Made by a schedule: it says what else lies below that one's path."""
    brought_back: bool = False
    """It is the copy of an object that had begun before: what that one has stored stays."""
    measure: bool = False
    """Count the keys and take etcd's hash, for a trial restore to be compared with."""
    expected: str = ""
    """SHA-256 of the backup that is to be tried."""
    size: int = 0
    """Its bytes; 0 where they are not known."""
    cluster: Mapping[str, Any] | None = None
    """Name and spec of the EtcdCluster that is backed up, for the manifest."""
    left_out: bool = False
    """That cluster is known, and its spec too long to be handed over."""

    @property
    def tls(self) -> bool:
        return bool(self.client_secret)


def serialise(order: Order) -> str:
    text = json.dumps(_content(order), sort_keys=True)
    if len(text) <= _MOST_PLAIN:
        return text
    packed = packing.pack(text)
    fits = len(packed) <= _MOST_PACKED and len(text) <= packing.LONGEST
    if fits or order.cluster is None:
        return packed
    return serialise(replace(order, cluster=None, left_out=True))


def _content(order: Order) -> dict[str, Any]:
    content: dict[str, Any] = {
        "owner": order.owner,
        "ownerUID": order.owner_uid,
        "endpoints": list(order.endpoints),
        "endpointsField": order.endpoints_field,
        "store": stores.to_json(order.store),
        "clusterID": order.cluster_id,
        "clientSecret": order.client_secret,
        "clientSecretField": order.client_secret_field,
        "stamped": order.stamped,
        "keep": order.keep,
        "timeout": order.timeout,
        "action": order.action,
        "verify": order.verify,
        "measure": order.measure,
        "expected": order.expected,
    }
    if order.spare:
        content["spare"] = order.spare
    if order.size:
        content["size"] = order.size
    if order.run:
        content["run"] = order.run
    if order.also:
        content["also"] = list(order.also)
    if order.scheduled:
        content["scheduled"] = True
    if order.brought_back:
        content["broughtBack"] = True
    if order.cluster is not None:
        content["cluster"] = dict(order.cluster)
    if order.left_out:
        content["leftOut"] = True
    return content


def parse(text: str) -> Order:
    """Raises BadOrder."""
    try:
        given = loads(packing.unpack(text) if packing.is_packed(text) else text)
        return Order(
            owner=str(given["owner"]),
            owner_uid=str(given["ownerUID"]),
            endpoints=tuple(str(one) for one in given["endpoints"]),
            endpoints_field=str(given["endpointsField"]),
            store=stores.from_json(given["store"]),
            cluster_id=whole(given["clusterID"]),
            client_secret=str(given["clientSecret"]),
            client_secret_field=str(given["clientSecretField"]),
            stamped=given["stamped"] is True,
            keep=whole(given["keep"]),
            spare=str(given.get("spare", "")),
            also=tuple(str(one) for one in given.get("also", ())),
            timeout=whole(given["timeout"]),
            run=str(given.get("run", "")),
            action=_ACTIONS[given["action"]],
            verify=given["verify"] is True,
            scheduled=given.get("scheduled") is True,
            brought_back=given.get("broughtBack") is True,
            measure=given["measure"] is True,
            expected=str(given["expected"]),
            size=whole(given.get("size", 0)),
            cluster=given.get("cluster"),
            left_out=given.get("leftOut") is True,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadOrder(f"{VARIABLE} is not an order of this version: {error!r}") from error
