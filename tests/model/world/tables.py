"""Tables of values that states refer to by number: specs, bootstrap records, objects, templates."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap
from etcd_stateful.versions import Version, parse_version

Json = dict[str, Any]
T = TypeVar("T")

UID: Final = "4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11"
NAME: Final = "c"
NAMESPACE: Final = "ns"
IMAGE: Final = "operator:1"
UNPULLABLE: Final = "operator:gone"
"""An image with which the operator runs, but which no node can pull for a pod."""

GONE: Final = "gone"
POOL: Final = tuple(0x9E3779B97F4A7C15 * (index + 3) % (1 << 63) + (1 << 62) for index in range(48))
"""IDs of members that are added later. Any IDs will do that no other member has."""

POOLED: Final = frozenset(POOL)

PLAINTEXT: Final = {"TLS": {"peer": "Plaintext", "client": "Plaintext"}}
"""`spec.TLS` of every cluster here: for the membership, TLS is only another scheme in URLs."""


class Table(Generic[T]):
    """Numbers for values that are equal when their keys are."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[T] = []

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, key: Hashable, value: T) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._values)
            self._values.append(value)
        return found


@dataclass(frozen=True, slots=True)
class Spec:
    text: str
    cluster: EtcdCluster

    @property
    def body(self) -> Json:
        return dict(json.loads(self.text))


@dataclass(frozen=True, slots=True)
class Template:
    """The parts of a pod template that matter here."""

    text: str
    image: str
    version: Version
    spec_hash: str
    pullable: bool
    epoch: int
    """The epoch in the settings of its `start`."""
    startable: bool
    """Whether the operator's image for its `start` can be pulled."""


@dataclass(frozen=True, slots=True)
class Object:
    """A child as the API server stores it."""

    text: str
    live: Json
    replicas: int = 0
    template: int = -1
    least: int = 0
    """A disruption budget's minAvailable."""
    anothers: bool = False
    passing: bool = False
    """It is on its way out."""


specs: Final[Table[Spec]] = Table()
bootstraps: Final[Table[Bootstrap]] = Table()
templates: Final[Table[Template]] = Table()
objects: Final[Table[Object]] = Table()
first_members: Final[dict[int, tuple[tuple[int, int], ...]]] = {}
"""By ID of the etcd cluster: its first members with their ordinals."""


def spec(**fields: Any) -> int:
    text = json.dumps(fields, sort_keys=True)
    metadata = {"name": NAME, "namespace": NAMESPACE, "uid": UID, "generation": 1}
    body = {"metadata": metadata, "spec": PLAINTEXT | json.loads(text)}
    return specs.number(text, Spec(text, parse_cluster(body)))


@functools.cache
def edited(number: int, fields: str) -> int:
    """The spec with these fields (JSON); null removes a field."""
    merged = specs[number].body | json.loads(fields)
    return spec(**{key: value for key, value in merged.items() if value is not None})


def bootstrap(record: Bootstrap) -> int:
    number = bootstraps.number(record, record)
    if record.members and record.cluster_id not in first_members:
        first_members[record.cluster_id] = tuple(
            (one.member_id, ordinal_of(one.name)) for one in record.members
        )
    return number


def ordinal_of(pod: str) -> int:
    found = naming.ordinal_of(NAME, pod)
    assert found is not None, pod
    return found


_stored: dict[int, tuple[Json, int]] = {}
"""Keyed by identity: the planner's steps, and so their manifests, are kept alive."""


def stored(manifest: Json) -> int:
    """The object in the API server after an apply."""
    kept = _stored.get(id(manifest))
    if kept is None or kept[0] is not manifest:
        kept = _stored[id(manifest)] = (manifest, _as_stored(manifest))
    return kept[1]


def _as_stored(manifest: Json) -> int:
    manifest = copy.deepcopy(manifest)
    manifest["metadata"].pop("resourceVersion", None)
    text = json.dumps(manifest, sort_keys=True)
    name = manifest["metadata"]["name"]
    manifest["metadata"] |= {"resourceVersion": "1", "uid": f"{name}-uid", "generation": 1}
    if manifest["kind"] != "StatefulSet":
        least = manifest["spec"].get("minAvailable", 0)
        return objects.number(text, Object(text, manifest, least=least))
    template = _template(manifest["spec"]["template"])
    manifest["status"] = {"observedGeneration": 1, "updateRevision": revision(template)}
    replicas = manifest["spec"]["replicas"]
    return objects.number(text, Object(text, manifest, replicas, template))


def of_another(kind: str, name: str, *, passing: bool) -> int:
    """An object of another owner."""
    text = f"{kind} {name} of another{' that goes' if passing else ''}"
    live: Json = {"kind": kind, "metadata": {"name": name}}
    return objects.number(text, Object(text, live, anothers=True, passing=passing))


def revision(template: int) -> str:
    return f"revision-{template}"


def _template(raw: Json) -> int:
    text = json.dumps(raw, sort_keys=True)
    etcd = next(one for one in raw["spec"]["containers"] if one["name"] == naming.ETCD_CONTAINER)
    version = parse_version(etcd["image"].rpartition(":")[2])
    assert version is not None, etcd["image"]
    said = raw["metadata"].get("annotations", {}).get(naming.SPEC_HASH, "")
    can = is_pullable(etcd["image"])
    made = Template(text, etcd["image"], version, said, can, _epoch(raw), _is_startable(raw))
    return templates.number(text, made)


def is_pullable(image: str) -> bool:
    version = parse_version(image.rpartition(":")[2])
    return "broken" not in image and version is not None and version.patch < BROKEN_PATCH


def _start(raw: Json) -> Json:
    return next(dict(one) for one in raw["spec"]["initContainers"] if one["name"] == "start")


def _is_startable(raw: Json) -> bool:
    return bool(_start(raw)["image"] != UNPULLABLE)


def _settings(raw: Json) -> Json:
    """START_SETTINGS, which contain the epoch."""
    return next(dict(one) for one in _start(raw)["env"] if one["name"] == "START_SETTINGS")


def _epoch(raw: Json) -> int:
    return int(json.loads(_settings(raw)["value"])["epoch"])


@functools.cache
def of_before(template: int) -> int:
    """The template of the previous epoch; NONE in the first epoch."""
    made = templates[template]
    if made.epoch == FIRST_EPOCH:
        return -1
    now, before = (json.dumps(f'"epoch": {one},') for one in (made.epoch, made.epoch - 1))
    text = made.text.replace(now.strip('"'), before.strip('"'))
    assert text != made.text, "a template says its epoch otherwise than it is looked for here"
    return _template(json.loads(text))


BROKEN_PATCH: Final = 90
"""Images of such a patch are in no registry."""


_renamed: dict[tuple[int, Hashable, Hashable], int] = {}


def rename(number: int, runs: tuple[str, ...], members: tuple[tuple[int, int], ...]) -> int:
    """The record without these runs and with these members renamed; a member renamed to 0 goes."""
    key = (number, runs, members)
    if (found := _renamed.get(key)) is not None:
        return found
    record, names = bootstraps[number], dict(members)
    issued = tuple(
        sorted(
            (names.get(member, member), GONE if run in runs else run)
            for member, run in record.issued
            if names.get(member, member)
        )
    )
    found = _renamed[key] = bootstrap(replace(record, issued=issued))
    return found


def run_of(ordinal: int) -> str:
    """The challenge of the last run of `start` at this ordinal."""
    return f"run-{ordinal}"
