"""The order of the recovery Job, read from its manifest as its own pod reads it."""

from __future__ import annotations

import json
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.jobs import recover
from model.world import tables
from model.world.state import Job
from model.world.tables import Json

_ordered: Final[dict[int, tuple[Json, Job]]] = {}
"""Keyed by identity: the planner's steps, and so their manifests, are kept alive."""


def ordered(manifest: Json) -> Job:
    """The order in a manifest."""
    kept = _ordered.get(id(manifest))
    if kept is None or kept[0] is not manifest:
        kept = _ordered[id(manifest)] = (manifest, _read(manifest))
    return kept[1]


def _read(manifest: Json) -> Job:
    notes = manifest["metadata"]["annotations"]
    spec: Any = manifest["spec"]["template"]["spec"]
    prepare, etcd = spec["initContainers"]
    order = recover.parse_order({one["name"]: one.get("value", "-") for one in prepare["env"]})
    named = (order.settings.member, order.settings.epoch)
    noted = (notes[naming.SURVIVOR], int(notes[naming.EPOCH]))
    assert named == noted, "its pod is told something else"
    claims = [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]]
    ordinal = tables.ordinal_of(order.settings.member)
    assert claims == [naming.claim(tables.NAME, ordinal)], "its pod is given another volume"
    version = tables.parse_version(etcd["image"].rpartition(":")[2])
    assert version is not None, etcd["image"]
    return Job(
        survivor=ordinal,
        member=order.member_id,
        cluster=order.cluster_id,
        epoch=order.settings.epoch,
        made=notes[naming.SPEC_HASH],
        minor=version.minor,
        pullable=tables.is_pullable(etcd["image"]),
    )


def renamed(manifest: Json, member: int, new: int) -> Json:
    """The manifest with a new ID of the member."""
    text = json.dumps(manifest).replace(f"{member:016x}", f"{new:016x}")
    return dict(json.loads(text))
