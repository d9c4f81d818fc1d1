"""The order: what a Job's pod has to do, as JSON without any secrets in its environment.

Linux starts no process with a variable of more than 128 KiB, and the spec of a cluster with many
roles may be longer. So a long text is compressed; `base64 --decode | gunzip` shows it. A spec that
is too long even then is left out, and the order says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from etcd_stateful.api import stores
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import packing
from etcd_stateful.untrusted import loads, whole

VARIABLE: Final = "BACKUP"

STORE_FOLDER: Final = "/etc/etcd-backup/store"
CA_FOLDER: Final = "/etc/etcd-backup/ca"
CLIENT_FOLDER: Final = "/etc/etcd-backup/client"
VOLUME: Final = "/var/etcd-backup"
"""Mount paths of the Secrets, and of the claim of a store of kind Volume."""

CA_FILE: Final = "ca.crt"
"""The only key of a store's `caSecret` that pods mount."""

ENDPOINTS_FIELD: Final = "spec.etcdEndpoints"
CLUSTER_FIELD: Final = "spec.clusterRef.name"
CERTIFICATE_FIELD: Final = "spec.clientTLSSecret"

Action = Literal["store", "delete", "describe", "bring", "prove"]
_ACTIONS: Final[Mapping[str, Action]] = {action: action for action in get_args(Action)}

PROGRESS_PORT: Final = 2377

_MOST_PLAIN: Final = 20_000
"""Characters. Each may become six, as the text is escaped so that the kubelet expands no `$`."""

_MOST_PACKED: Final = 100_000


class BadOrder(ValueError):
    """Not an order of this version of the operator."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a Job's pod has to do."""

    owner: str
    """Namespace and name of the EtcdBackup, as `namespace/name`."""
    owner_uid: str
    endpoints: tuple[str, ...]
    endpoints_field: str
    """The field of the spec that names the endpoints, for messages."""
    store: Store
    cluster_id: int = 0
    """The etcd cluster to back up; 0 accepts any."""
    client_secret: str = ""
    client_secret_field: str = CERTIFICATE_FIELD
    """The field of the spec that leads to this Secret, for messages."""
    stamped: bool = False
    """Whether revision and time are appended to the key."""
    keep: int = 0
    """How many backups of an interval are kept; 0: all."""
    spare: tuple[str, ...] = ()
    """Keys that must not be deleted as old ones, nor overwritten with the backup of another object:
    of the last successful backup, and of those that restores read."""
    also: tuple[str, ...] = ()
    """Further locations in which the owner has stored backups, for its deletion."""
    timeout: int = 60
    run: str = ""
    """Which run of a single EtcdBackup: a retry takes what an earlier try of it has stored."""
    action: Action = "store"
    """`store` a backup; `delete` the owner's backups; `describe` the cluster by the manifest;
    `bring` a backup to its trial restore; `prove` the result of that trial restore."""
    verify: bool = False
    """Read the backup back from the store, and compare."""
    scheduled: bool = False
    """A schedule made the backup: the Job also reports foreign files below the schedule's path."""
    brought_back: bool = False
    """The EtcdBackup was recreated after its run had begun: the backup that it has stored stays."""
    measure: bool = False
    """Count the keys and take etcd's hash, so that a trial restore can be compared."""
    expected: str = ""
    """SHA-256 of the backup that is to be restored on trial."""
    size: int = 0
    """Its size in bytes; 0 if unknown."""
    cluster: Mapping[str, Any] | None = None
    """Name and spec of the EtcdCluster that is backed up, for the manifest."""
    left_out: bool = False
    """The EtcdCluster is known, but its spec is too long for the order."""

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
        content["spare"] = list(order.spare)
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
    """The order in the text of the variable. Raises BadOrder."""
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
            spare=tuple(str(one) for one in given.get("spare", ())),
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
