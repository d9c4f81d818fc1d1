"""EtcdCluster: the custom resource, parsed once into a frozen value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api.access import BY_DEFAULT, Access, read_access
from etcd_stateful.api.auth import Auth, read_auth
from etcd_stateful.api.options import EtcdOptions, read_options
from etcd_stateful.api.pod import PodPolicy, ignored_in_pod, options_in_environment, read_pod
from etcd_stateful.api.reading import Problem, Reader
from etcd_stateful.api.recovery import Recovery, read_recovery
from etcd_stateful.api.rotation import BY_AGE, Rotation, read_rotation, without_effect
from etcd_stateful.api.source import Source, read_source
from etcd_stateful.api.tls import AS_MADE, DEFAULT, UNSAID, Links, Trust, Wishes, read_tls
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
_UID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
_REPOSITORY: Final = re.compile(
    r"(([a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)

MOST_SHOWN: Final = 20
"""Problems in the text of a refusal; nobody reads more at once."""

RefusalReason = Literal["InvalidSpec", "UnsupportedVersion"]


class RefusedCluster(ValueError):
    """A custom resource from which no cluster can be made; `problems` names every field."""

    def __init__(self, reason: RefusalReason, problems: tuple[Problem, ...]) -> None:
        shown = [str(problem) for problem in problems[:MOST_SHOWN]]
        if more := len(problems) - len(shown):
            shown.append(f"and {more} more")
        super().__init__("; ".join(shown))
        self.reason: RefusalReason = reason
        self.problems = problems


@dataclass(frozen=True, slots=True)
class RetainedClaims:
    """A human's word on the claims of a deleted cluster of the same name, by that cluster's UID."""

    adopt: str = ""
    discard: str = ""


@dataclass(frozen=True, slots=True)
class EtcdCluster:
    """What the user declared, complete with defaults."""

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
    access: Access = BY_DEFAULT
    defragments: bool = True
    """Whether the operator gives back the space that members keep."""
    auth: Auth | None = None
    """etcd's own users and roles; None where it is not to ask for any."""
    restore: Source | None = None
    """The backup that the cluster is born from, if any. Later it means nothing."""
    version_declared: bool = True
    """False where the spec leaves it to the operator: then a running cluster stays as it is."""
    spec_hash: str = ""
    """Of what the pods are made from, as declared: the same for every operator that renders it."""
    wished_links: Wishes = UNSAID
    links: Links = DEFAULT
    """How members and clients are talked to; of a cluster that has begun, those on record."""
    rotation: Rotation = BY_AGE
    trust: Trust = AS_MADE
    """What its pods are to be started with; not declared, but found in the Secrets they mount."""

    deleting: bool = False
    ignored: tuple[Problem, ...] = ()
    """coreos fields that are accepted and do nothing here, each with the reason."""

    @property
    def image(self) -> str:
        return f"{self.repository}:v{self.version}"

    @property
    def durable(self) -> bool:
        """False where data lives in an emptyDir and dies with its pod."""
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
        """Of all that decides whether a pod is of this spec; pods carry it as an annotation.

        `versions.made_for` reads the version in it.
        """
        made_of = f"{self.spec_hash}-{self.version}"
        if self.links.are_plaintext:
            return made_of
        trusted = f"-{self.trust.peer[:8]}-{self.trust.client[:8]}" if self.trust else ""
        return f"{made_of}-{self.links.digest}{trusted}"

    def host(self, ordinal: int) -> str:
        """DNS name of a member's pod, as in its URLs."""
        return naming.host(self.name, self.namespace, ordinal, self.pod.cluster_domain)

    def peer_url(self, ordinal: int) -> str:
        return f"{self.links.levels.peer_scheme}://{self.host(ordinal)}:{naming.PEER_PORT}"


def is_paused(body: Mapping[str, Any]) -> bool:
    """Whether the resource says `paused`, also when nothing else in it can be read."""
    spec = body.get("spec")
    return isinstance(spec, Mapping) and spec.get("paused") is True


def parse_cluster(body: Mapping[str, Any]) -> EtcdCluster:
    """The cluster that a custom resource declares; raises RefusedCluster with all its problems."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    spec = Reader({"spec": body.get("spec")}, "").object("spec")
    pod = spec.object("pod")
    size = _size(spec)
    _check_name(str(metadata.get("name", "")), spec)
    environment = tuple(pod.items("etcdEnv"))
    version = _version(spec)
    options = read_options(spec.object("etcd"), options_in_environment(environment), version)
    policy = read_pod(pod, tuple(dict(item.raw) for item in environment))
    retained = _retained(spec.object("retainedClaims"))
    if retained.adopt and policy.empty_dir is not None:
        spec.problem("retainedClaims.adopt", "a cluster with pod.emptyDir has no claims to adopt")
    recovery = read_recovery(spec.object("recovery"), str(metadata.get("name", "")))
    access = read_access(spec.object("networkPolicy"))
    restore = _restore(spec.object("bootstrap"), policy)
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
        wished_links=links,
        links=links.over(DEFAULT),
        rotation=rotation,
        deleting=bool(metadata.get("deletionTimestamp")),
        ignored=(*ignored_in_pod(pod), *without_effect(rotation, links)),
    )


def _size(spec: Reader) -> int:
    if not spec.has("size"):
        spec.problem("size", f"is missing: say how many members, 1 to {naming.MAX_SIZE}")
    return spec.number("size", 0, 1, naming.MAX_SIZE)


def namesake(body: Mapping[str, Any]) -> EtcdCluster | None:
    """Stands in for a cluster whose spec is refused: its name, and of the spec only whether it is
    paused. For a look at what is there; nothing may be decided by it.

    None for a name that no cluster can have.
    """
    try:
        return parse_cluster({**body, "spec": {"size": 1, "paused": is_paused(body)}})
    except RefusedCluster:
        return None


def _restore(reader: Reader, pod: PodPolicy) -> Source | None:
    if not reader.has("restore"):
        return None
    if pod.empty_dir is not None:
        reader.problem("restore", "needs claims: with pod.emptyDir the data would go with the pod")
    restore = reader.object("restore")
    return read_source(restore, "storageType", restore.object("pod"))


def _spec_hash(spec: Mapping[str, Any]) -> str:
    """A digest of what a pod is made from, without what can change nothing in it."""
    pod = {key: value for key, value in (spec.get("pod") or {}).items() if key not in _NOT_IN_PODS}
    made_of = {"pod": pod, "etcd": spec.get("etcd"), "repository": spec.get("repository")}
    said = _without_empties(made_of)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def _without_empties(value: Any) -> Any:
    """What says nothing is left out, as in the manifests; an empty `emptyDir` says a lot."""
    if not isinstance(value, Mapping):
        return value
    pruned = {key: _without_empties(inner) for key, inner in value.items()}
    empty: tuple[Any, ...] = (None, "", [], {})
    return {key: inner for key, inner in pruned.items() if inner not in empty or key == "emptyDir"}


def _check_name(name: str, spec: Reader) -> None:
    problem = None
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        problem = (
            f"{name[:70]!r} cannot name a cluster: its Services need at most {LONGEST_NAME} "
            "lower-case letters, digits and dashes, the first a letter"
        )
    elif name.endswith("-client"):
        problem = (
            f"{name!r} is the name of the client Service of a cluster "
            f"{name.removesuffix('-client')!r}; choose a name that does not end in -client"
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
            f"etcd {version} is not supported; supported are {supported_in_words()} and newer "
            "patches of these",
        )
        raise RefusedCluster("UnsupportedVersion", tuple(spec.problems))


def _retained(reader: Reader) -> RetainedClaims:
    retained = RetainedClaims(adopt=reader.text("adopt"), discard=reader.text("discard"))
    if retained.adopt and retained.discard:
        reader.problem("", "say either adopt or discard, not both")
    for key, uid in (("adopt", retained.adopt), ("discard", retained.discard)):
        if uid and not _UID.fullmatch(uid):
            reader.problem(key, f"must be the UID of the deleted cluster, found {uid[:60]!r}")
    return retained
