"""EtcdCluster: the custom resource, parsed once into a frozen value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api.access import DEFAULT_ACCESS, Access, read_access
from etcd_stateful.api.auth import Auth, read_auth
from etcd_stateful.api.options import EtcdOptions, read_options
from etcd_stateful.api.pod import PodPolicy, ignored_in_pod, options_in_environment, read_pod
from etcd_stateful.api.reading import Problem, Reader, RefusedObject, spec_of
from etcd_stateful.api.recovery import Recovery, read_recovery
from etcd_stateful.api.rotation import BY_AGE, Rotation, read_rotation, without_effect
from etcd_stateful.api.source import Source, read_source
from etcd_stateful.api.stores import Store, as_noted
from etcd_stateful.api.tls import (
    AS_MADE,
    DEFAULT,
    NOTHING_REQUESTED,
    Links,
    RequestedLinks,
    Trust,
    read_tls,
)
from etcd_stateful.versions import (
    DEFAULT_VERSION,
    Version,
    is_supported,
    parse_version,
    supported_in_words,
)

DEFAULT_REPOSITORY: Final = "quay.io/coreos/etcd"
DEFAULT_STORAGE: Final = "8Gi"
LONGEST_NAME: Final = 52
"""A StatefulSet's pods carry `<name>-<10 character hash>` in a label of at most 63 characters."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NOT_IN_PODS: Final = frozenset({"persistentVolumeClaimSpec", "busyboxImage"})
_SAYS_MORE: Final = frozenset({"emptyDir", "affinity"})
"""An empty object in these differs from none: without `affinity` there are rules by default."""

_MAPS_OF_TEXT: Final = frozenset({"labels", "annotations", "nodeSelector"})
"""In these an empty text is a value, as in `node-role.kubernetes.io/etcd: ""`."""

_UID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
_REPOSITORY: Final = re.compile(
    r"(([a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)

RefusalReason = Literal["InvalidSpec", "UnsupportedVersion"]


class RefusedCluster(RefusedObject):
    """An EtcdCluster whose spec is not accepted."""

    def __init__(self, reason: RefusalReason, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.reason: RefusalReason = reason


@dataclass(frozen=True, slots=True)
class RetainedClaims:
    """What the user decided about the claims of a deleted cluster of this name. Each value is the
    UID of that cluster."""

    adopt: str = ""
    discard: str = ""


@dataclass(frozen=True, slots=True)
class EtcdCluster:
    """A parsed EtcdCluster, with defaults filled in."""

    namespace: str
    name: str
    uid: str
    generation: int
    size: int
    repository: str
    version: Version
    paused: bool
    pod: PodPolicy
    etcd: EtcdOptions
    retained_claims: RetainedClaims
    recovery: Recovery | None = None
    access: Access = DEFAULT_ACCESS
    defragments: bool = True
    """Whether the operator defragments members to free space in their files."""
    auth: Auth | None = None
    """etcd's users and roles; None turns authentication off."""
    restore: Source | None = None
    """The backup that the cluster is bootstrapped from, if any. Ignored afterwards."""
    version_declared: bool = True
    """False where the spec names no version: a running cluster then keeps the version it has."""
    spec_hash: str = ""
    """Hash of what the pods are made from, as declared. It is the same for every version of the
    operator, however it renders the pods."""
    requested_links: RequestedLinks = NOTHING_REQUESTED
    """The TLS that the spec asks for."""
    links: Links = DEFAULT
    """The TLS of peers and clients; once a cluster has begun, as recorded."""
    rotation: Rotation = BY_AGE
    trust: Trust = AS_MADE
    """The authorities that pods are started to trust. It is not declared, but found in the Secrets
    that they mount."""

    deleting: bool = False
    ignored: tuple[Problem, ...] = ()
    """Fields of the coreos operator that are accepted without effect, each with the reason."""

    @property
    def image(self) -> str:
        return f"{self.repository}:v{self.version}"

    @property
    def left_alone(self) -> bool:
        """Nothing is written for it: it is paused, or being deleted."""
        return self.paused or self.deleting

    @property
    def durable(self) -> bool:
        """False if data is in an emptyDir, and so is lost with its pod."""
        return self.pod.empty_dir is None

    @property
    def storage(self) -> str:
        """The size of each member's claim: a quantity such as `8Gi`."""
        requests = ((self.pod.claim or {}).get("resources") or {}).get("requests") or {}
        return str(requests.get("storage", DEFAULT_STORAGE))

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def template_hash(self) -> str:
        """Hash of everything that decides whether a pod is up to date; an annotation of pods.

        It contains the version, which `versions.made_for` reads.
        """
        made_of = f"{self.spec_hash}-{self.version}"
        if self.links.are_plaintext:
            return made_of
        trusted = f"-{self.trust.peer[:8]}-{self.trust.client[:8]}" if self.trust else ""
        return f"{made_of}-{self.links.digest}{trusted}"

    def host(self, ordinal: int) -> str:
        """DNS name of a member's pod, as in its peer and client URLs."""
        return naming.host(self.name, self.namespace, ordinal, self.pod.cluster_domain)

    def peer_url(self, ordinal: int) -> str:
        return f"{self.links.levels.peer_scheme}://{self.host(ordinal)}:{naming.PEER_PORT}"


def is_paused(body: Mapping[str, Any]) -> bool:
    """Whether `spec.paused` is true, even if the rest of the spec is not accepted."""
    spec = body.get("spec")
    return isinstance(spec, Mapping) and spec.get("paused") is True


def parse_cluster(body: Mapping[str, Any]) -> EtcdCluster:
    """Parses an EtcdCluster; raises RefusedCluster with every problem found."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    spec = spec_of(body)
    pod = spec.object("pod")
    size = _size(spec)
    _check_name(str(metadata.get("name", "")), spec)
    environment = tuple(pod.items("etcdEnv"))
    version = _version(spec)
    options = read_options(spec.object("etcd"), options_in_environment(environment), version)
    policy = read_pod(pod, tuple(dict(item.raw) for item in environment))
    retained = _retained(spec.object("retainedClaims"))
    if retained.adopt and policy.empty_dir is not None:
        words = "cannot be set with pod.emptyDir: such a cluster has no claims"
        spec.problem("retainedClaims.adopt", words)
    recovery = read_recovery(spec.object("recovery"), str(metadata.get("name", "")))
    access = read_access(spec.object("networkPolicy"))
    restore = _as_recorded(_restore(spec.object("bootstrap"), policy), metadata)
    auth = read_auth(spec)
    repository = _repository(spec)
    paused, tls = spec.flag("paused"), spec.object("TLS")
    defragmentation = spec.choice("defragmentation", ("Automatic", "Never"), "Automatic")
    links, rotation = read_tls(tls), read_rotation(tls.object("rotation"))
    if spec.problems or version is None:
        raise RefusedCluster("InvalidSpec", tuple(spec.problems))
    _check_supported(version, spec)
    return EtcdCluster(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        generation=int(metadata.get("generation", 0)),
        size=size,
        repository=repository,
        version=version,
        paused=paused,
        pod=policy,
        etcd=options,
        retained_claims=retained,
        recovery=recovery,
        access=access,
        defragments=defragmentation == "Automatic",
        auth=auth,
        restore=restore,
        version_declared=spec.has("version"),
        spec_hash=_spec_hash(body["spec"]),
        requested_links=links,
        links=links.over(DEFAULT),
        rotation=rotation,
        deleting=bool(metadata.get("deletionTimestamp")),
        ignored=(*ignored_in_pod(pod), *without_effect(rotation, links)),
    )


def _size(spec: Reader) -> int:
    if not spec.has("size"):
        spec.problem("size", f"is missing: set the number of members, 1 to {naming.MAX_SIZE}")
    return spec.number("size", 0, 1, naming.MAX_SIZE)


def stand_in(body: Mapping[str, Any]) -> EtcdCluster | None:
    """A stand-in for a cluster whose spec is not accepted, with only its name and `paused`.

    It only serves to observe the cluster's objects; nothing may be decided by it. None if the name
    is not accepted either.
    """
    try:
        return parse_cluster({**body, "spec": {"size": 1, "paused": is_paused(body)}})
    except RefusedCluster:
        return None


def _restore(reader: Reader, pod: PodPolicy) -> Source | None:
    if not reader.has("restore"):
        return None
    if pod.empty_dir is not None:
        words = "cannot be set with pod.emptyDir: the restored data would be lost with the pod"
        reader.problem("restore", words)
    restore = reader.object("restore")
    return read_source(restore, "storageType", restore.object("pod"))


def _as_recorded(source: Source | None, metadata: Mapping[str, Any]) -> Source | None:
    """With the SHA-256 of the one backup that is meant, if an EtcdRestore has recorded it and the
    spec still names the place of that backup."""
    note = str((metadata.get("annotations") or {}).get(naming.RESTORED_SHA256, ""))
    return as_noted(source, note) if isinstance(source, Store) else source


def _spec_hash(spec: Mapping[str, Any]) -> str:
    """Hash of the fields that a pod is made from."""
    pod = {key: value for key, value in (spec.get("pod") or {}).items() if key not in _NOT_IN_PODS}
    made_of = {"pod": pod, "etcd": spec.get("etcd"), "repository": spec.get("repository")}
    said = _without_empties(made_of)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def _without_empties(value: Any) -> Any:
    """The value without empty fields, which change nothing in a pod, except for a few."""
    if not isinstance(value, Mapping):
        return value
    pruned = {
        key: inner if key in _MAPS_OF_TEXT else _without_empties(inner)
        for key, inner in value.items()
    }
    empty: tuple[Any, ...] = (None, "", [], {})
    return {
        key: inner
        for key, inner in pruned.items()
        if inner not in empty or (inner == {} and key in _SAYS_MORE)
    }


def _check_name(name: str, spec: Reader) -> None:
    problem = None
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        problem = (
            "must have at most "
            f"{LONGEST_NAME} lower-case letters, digits and dashes, and begin with a letter, as "
            f"names of Services do, found {name[:70]!r}"
        )
    elif name.endswith("-client"):
        problem = (
            "must not end in -client, as the client Service of a cluster named "
            f"{name.removesuffix('-client')!r} does, found {name!r}"
        )
    if problem:
        spec.problems.append(Problem("metadata.name", problem))


def _version(spec: Reader) -> Version | None:
    text = spec.text("version") or DEFAULT_VERSION
    version = parse_version(text)
    if version is None:
        spec.problem("version", f"must be like 3.7.3, found {text[:60]!r}")
    return version


def _repository(spec: Reader) -> str:
    text = spec.text("repository") or DEFAULT_REPOSITORY
    if not _REPOSITORY.fullmatch(text):
        spec.problem(
            "repository",
            "must be a repository without tag or digest, in lower case, such as "
            f"{DEFAULT_REPOSITORY}, found {text[:60]!r}",
        )
    return text


def _check_supported(version: Version, spec: Reader) -> None:
    if not is_supported(version):
        spec.problem(
            "version",
            f"etcd {version} is not supported; supported versions are {supported_in_words()}: set "
            "one of these, or a newer patch of it",
        )
        raise RefusedCluster("UnsupportedVersion", tuple(spec.problems))


def _retained(reader: Reader) -> RetainedClaims:
    retained = RetainedClaims(adopt=reader.text("adopt"), discard=reader.text("discard"))
    if retained.adopt and retained.discard:
        reader.problem("", "set either adopt or discard, not both")
    for key, uid in (("adopt", retained.adopt), ("discard", retained.discard)):
        if uid and not _UID.fullmatch(uid):
            reader.problem(key, f"must be the UID of the deleted cluster, found {uid[:60]!r}")
    return retained
