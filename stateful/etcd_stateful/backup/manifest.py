"""The manifest beside a backup: what it is, for a restore and for people.

Written after the backup has its final name, so a manifest speaks of a whole one. Where a backup
takes the place of another, the old manifest is made an undecided one before: it speaks of neither,
and a reader goes by etcd's own hash at the end of either. So no file is ever taken for another. An
undecided one names an owner where either file is of that one, who may delete it; and so with the
etcd cluster, whose last backup gives way to none of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.backup import measurement
from etcd_stateful.backup.measurement import Measured
from etcd_stateful.untrusted import loads, whole

FORMAT: Final = 1
MAX_BYTES: Final = 4 * 1024 * 1024
"""It keeps the spec of the EtcdCluster, which may have 1.5 MiB and more once it is written here."""

SHORTEST: Final = 200
"""Of a whole one: what is undecided has fewer bytes."""


def undecided(owner_uid: str = "", cluster_id: str = "") -> bytes:
    """Each is empty where it is not known to be so of either file."""
    known = {"ownerUID": owner_uid, "clusterID": cluster_id}
    told = {key: value for key, value in known.items() if value}
    return json.dumps({"format": FORMAT, "undecided": True} | told).encode() + b"\n"


class BadManifest(ValueError):
    """Not a manifest that this version can read."""


class Undecided(BadManifest):
    """What lies beside it is not decided: a backup did not come to its end."""

    def __init__(self, owner_uid: str, cluster_id: str = "") -> None:
        super().__init__("the backup that it was to be of did not come to its end")
        self.owner_uid = owner_uid
        """Of the file in any case; empty where that is not known."""
        self.cluster_id = cluster_id
        """As with the owner."""


@dataclass(frozen=True, slots=True)
class Manifest:
    cluster_id: str
    """etcd's ID of the cluster, 16 hexadecimal digits."""
    revision: int
    """Every write up to here is in it; one under load may hold some more."""
    version: str
    """Version of the etcd that it was taken from."""
    size: int
    sha256: str
    made_at: str
    """RFC 3339."""
    owner: str
    """Namespace and name of what asked for it."""
    owner_uid: str
    measured: Measured | None = None
    """Of the member at that revision, for a trial restore to be compared with."""
    cluster: Mapping[str, Any] | None = None
    """Name and spec of the EtcdCluster, where it is of one."""
    left_out: bool = False
    """It is of one, whose spec was too long to be handed to the Job."""
    run: str = ""
    """Of a single backup, which of its object's runs has made it."""


def serialise(manifest: Manifest) -> bytes:
    content: dict[str, Any] = {
        "format": FORMAT,
        "clusterID": manifest.cluster_id,
        "etcdRevision": manifest.revision,
        "etcdVersion": manifest.version,
        "size": manifest.size,
        "sha256": manifest.sha256,
        "compression": "none",
        "madeAt": manifest.made_at,
        "owner": manifest.owner,
        "ownerUID": manifest.owner_uid,
    }
    if manifest.run:
        content["run"] = manifest.run
    if manifest.measured is not None:
        content["measured"] = measurement.to_json(manifest.measured)
    if manifest.cluster is not None:
        content["cluster"] = dict(manifest.cluster)
    if manifest.left_out:
        content["clusterLeftOut"] = True
    readable = json.dumps(content, indent=2, sort_keys=True)
    text = readable if len(readable) < MAX_BYTES else json.dumps(content, sort_keys=True)
    return text.encode() + b"\n"


def parse(data: bytes) -> Manifest:
    """Raises BadManifest."""
    try:
        given: dict[str, Any] = loads(data)
        if given["format"] == FORMAT and given.get("undecided") is True:
            raise Undecided(str(given.get("ownerUID", "")), str(given.get("clusterID", "")))
        if given["format"] != FORMAT or given["compression"] != "none":
            raise BadManifest(
                f"the manifest is of format {given['format']!r} with compression "
                f"{given['compression']!r}, which this version cannot read"
            )
        return Manifest(
            cluster_id=str(given["clusterID"]),
            revision=whole(given["etcdRevision"]),
            version=str(given["etcdVersion"]),
            size=whole(given["size"]),
            sha256=str(given["sha256"]),
            made_at=str(given["madeAt"]),
            owner=str(given["owner"]),
            owner_uid=str(given["ownerUID"]),
            measured=measurement.from_json(given["measured"]) if given.get("measured") else None,
            cluster=_cluster(given.get("cluster")),
            left_out=given.get("clusterLeftOut") is True,
            run=str(given.get("run", "")),
        )
    except (KeyError, TypeError) as error:
        raise BadManifest(f"the manifest lacks what it must say: {error!r}") from error
    except ValueError as error:
        if isinstance(error, BadManifest):
            raise
        raise BadManifest(f"the manifest is no JSON of ours: {error}") from error


def _cluster(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given["spec"], Mapping):
        raise TypeError("the cluster's spec is no object")
    return {"name": str(given["name"]), "spec": dict(given["spec"])}
