"""The manifest beside a backup describes it, for a restore and for people.

It is written after the backup has its final name, so it always describes a complete backup. Before
a backup replaces another one, the old manifest is replaced by an undecided one, which describes
neither: a reader then relies on etcd's own hash at the end of the file. So no manifest ever
describes the wrong file. An undecided manifest names the owner if both files have the same owner,
who may delete either. It names the etcd cluster in the same way, so that the last backup of a
cluster is never replaced by a backup of another.
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
"""A manifest contains the spec of the EtcdCluster, which may have 1.5 MiB and more in this form."""

SHORTEST: Final = 200
"""Bytes. Every real manifest has more, and an undecided one has fewer."""


def undecided(owner_uid: str = "", cluster_id: str = "") -> bytes:
    """An undecided manifest. An argument is empty unless it is known to hold for both files."""
    known = {"ownerUID": owner_uid, "clusterID": cluster_id}
    told = {key: value for key, value in known.items() if value}
    return json.dumps({"format": FORMAT, "undecided": True} | told).encode() + b"\n"


class BadManifest(ValueError):
    """Not a manifest that this version can read."""


class Undecided(BadManifest):
    """The manifest is undecided: a backup was interrupted while it replaced another."""

    def __init__(self, owner_uid: str, cluster_id: str = "") -> None:
        super().__init__("the manifest is undecided, because a backup was interrupted")
        self.owner_uid = owner_uid
        """Owner of the file, whichever backup it is; empty if that is not known."""
        self.cluster_id = cluster_id
        """etcd cluster of the file, likewise."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known about a stored backup."""

    cluster_id: str
    """etcd's cluster ID, 16 hexadecimal digits."""
    revision: int
    """The backup has every write up to this revision. Under load it may have later ones too."""
    version: str
    """Version of the member that the snapshot was taken from."""
    size: int
    sha256: str
    made_at: str
    """RFC 3339."""
    owner: str
    """Namespace and name of the EtcdBackup."""
    owner_uid: str
    measured: Measured | None = None
    """Measured of the member at that revision; a trial restore is compared with it."""
    cluster: Mapping[str, Any] | None = None
    """Name and spec of the EtcdCluster, if the backup is of one."""
    left_out: bool = False
    """Whether the spec of the EtcdCluster was too long to be passed to the Job."""
    run: str = ""
    """Which run of a single EtcdBackup made it."""


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
    """The manifest in the content of a file. Raises BadManifest."""
    try:
        given: dict[str, Any] = loads(data)
        if given["format"] == FORMAT and given.get("undecided") is True:
            raise Undecided(str(given.get("ownerUID", "")), str(given.get("clusterID", "")))
        if given["format"] != FORMAT or given["compression"] != "none":
            raise BadManifest(
                f"the manifest has format {given['format']!r} and compression "
                f"{given['compression']!r}, which this version of the operator cannot read"
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
        raise BadManifest(f"the manifest lacks a field: {error!r}") from error
    except ValueError as error:
        if isinstance(error, BadManifest):
            raise
        raise BadManifest(f"the manifest is not valid JSON: {error}") from error


def _cluster(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given["spec"], Mapping):
        raise TypeError("the cluster's spec is not an object")
    return {"name": str(given["name"]), "spec": dict(given["spec"])}
