"""EtcdBackup: the custom resource, parsed once into a frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from etcd_stateful import naming
from etcd_stateful.api.hosts import host_problem
from etcd_stateful.api.reading import (
    Reader,
    RefusedObject,
    check_annotations,
    check_labels,
    spec_of,
)
from etcd_stateful.api.stores import MANIFEST, VOLUME, Store, file_name_problem, read_store

Proof = Literal["None", "Hash", "Restore"]
_PROOFS: Final[Mapping[str, Proof]] = {proof: proof for proof in get_args(Proof)}

DEFAULT_TIMEOUT: Final = 60
LONGEST: Final = 2**31 - 1

_ENDPOINT: Final = re.compile(
    r"((?P<scheme>https?)://)?(?P<host>[a-zA-Z0-9._-]+|\[[0-9a-fA-F:]+\])(:(?P<port>[0-9]{1,5}))?/?"
)


class RefusedBackup(RefusedObject):
    """An EtcdBackup whose spec is not accepted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`spec.backupPolicy`, as the coreos operator has it."""

    timeout: int = DEFAULT_TIMEOUT
    interval: int = 0
    """Seconds from one backup to the next; 0: back up once."""
    keep: int = 0
    """How many backups are kept; 0: all."""


@dataclass(frozen=True, slots=True)
class JobPod:
    """What the user sets for a pod that talks to a store."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] | None = None

    def or_else(self, other: JobPod) -> JobPod:
        """This pod; where it sets no nodes, pull secrets or resources, with those of `other`."""
        return replace(
            self,
            node_selector=self.node_selector or other.node_selector,
            tolerations=self.tolerations or other.tolerations,
            image_pull_secrets=self.image_pull_secrets or other.image_pull_secrets,
            resources=self.resources or other.resources,
        )


@dataclass(frozen=True, slots=True)
class EtcdBackup:
    """A parsed EtcdBackup, with defaults filled in."""

    namespace: str
    name: str
    uid: str
    generation: int
    store: Store
    policy: Policy
    endpoints: tuple[str, ...] = ()
    cluster: str = ""
    """Name of an EtcdCluster in the same namespace; empty where `endpoints` are given."""
    client_tls_secret: str = ""
    delete_stored: bool = False
    """Whether deleting the object also deletes what it stored (`deletionPolicy: Delete`)."""
    verify: Proof = "None"
    """The proof that a backup needs before it counts. Hash: it reads back as it was sent. Restore:
    a trial restore of it has the data of the cluster."""
    pod: JobPod = field(default_factory=JobPod)
    scheduled: bool = False
    """Whether an EtcdBackupSchedule made it."""
    let_go: bool = False
    """Whether its schedule is about to delete it."""
    begun_as: str = ""
    """The UID that the object had when its first run began; empty before then, and always empty for
    a backup with an interval."""
    kind: str = naming.BACKUP_KIND
    """Kind of the custom resource: an EtcdRestore uses the same Job to read from the store."""

    @property
    def annotation(self) -> str:
        """The annotation that its Jobs and pods carry."""
        return naming.RESTORE if self.kind == naming.RESTORE_KIND else naming.BACKUP

    @property
    def periodic(self) -> bool:
        return self.policy.interval > 0

    @property
    def brought_back(self) -> bool:
        """Whether the object was deleted and recreated after its run had begun. A new run would
        replace a backup of that time by one of today."""
        return self.begun_as not in ("", self.uid)


def parse_backup(body: Mapping[str, Any]) -> EtcdBackup:
    """Parses an EtcdBackup; raises RefusedBackup with every problem found."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    notes: Mapping[str, Any] = metadata.get("annotations") or {}
    spec = spec_of(body)
    endpoints, cluster = _endpoints(spec), spec.object("clusterRef").name("name", "an EtcdCluster")
    if bool(endpoints) == bool(cluster) and not spec.problems:
        spec.problem("etcdEndpoints", "or clusterRef.name must be set, but not both")
    secret = spec.name("clientTLSSecret", "a Secret")
    deletion = spec.text("deletionPolicy", "Retain")
    if deletion not in ("Retain", "Delete"):
        spec.problem("deletionPolicy", f"must be Retain or Delete, found {deletion[:60]!r}")
    verify = spec.text("verify", "None")
    if verify not in _PROOFS:
        spec.problem("verify", f"must be None, Hash or Restore, found {verify[:60]!r}")
    policy, pod = _policy(spec.object("backupPolicy")), spec.object("pod")
    store, job_pod = _store(spec, pod, stamped=policy.interval > 0), _pod(pod)
    if spec.problems or store is None:
        raise RefusedBackup(tuple(spec.problems))
    return EtcdBackup(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        generation=int(metadata.get("generation", 0)),
        store=store,
        policy=policy,
        endpoints=endpoints,
        cluster=cluster,
        client_tls_secret=secret,
        verify=_PROOFS[verify],
        delete_stored=deletion == "Delete",
        pod=job_pod,
        scheduled=naming.SCHEDULE in (metadata.get("labels") or {}),
        let_go=naming.LET_GO in notes,
        begun_as=str(notes.get(naming.BEGUN_AS) or ""),
    )


def without_effect(body: Mapping[str, Any]) -> str:
    """What is said of fields that are accepted and do nothing; empty if there are none."""
    policy = spec_of(body).object("backupPolicy").raw
    if policy.get("backupIntervalInSecond") or not policy.get("maxBackups"):
        return ""
    return (
        "spec.backupPolicy.maxBackups: has no effect without backupIntervalInSecond: a single "
        "backup deletes no others; an EtcdBackupSchedule with retention makes backups and deletes "
        "old ones"
    )


def _store(spec: Reader, pod: Reader, *, stamped: bool) -> Store | None:
    store = read_store(spec, "storageType", pod, stamped=stamped)
    why = _key_problem(store, stamped=stamped) if store else ""
    if store and why:
        spec.object(store.section).problem("path", f"{why}, found {store.key[-60:]!r}")
    return store


def _key_problem(store: Store, *, stamped: bool) -> str:
    if store.key.endswith(MANIFEST) and not stamped:
        return f"must not end in {MANIFEST}, as the name of another backup's manifest does"
    return file_name_problem(store.key, stamped=stamped) if store.kind == VOLUME else ""


def _endpoints(spec: Reader) -> tuple[str, ...]:
    value = spec.listed("etcdEndpoints", "addresses")
    for one in value:
        found = _ENDPOINT.fullmatch(one)
        if found is None or int(found["port"] or 1) > 65535:
            spec.problem("etcdEndpoints", f"must be like http://host:2379, found {one[:60]!r}")
        elif why := host_problem(found["host"]):
            words = f"{why}, found {one[:60]!r}; name the address of a member or of its Service"
            spec.problem("etcdEndpoints", words)
    return tuple(dict.fromkeys(value))


def split_endpoint(endpoint: str) -> tuple[str, str]:
    """Scheme (empty where none is said) and `host:port`; raises ValueError."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        raise ValueError(f"not an address of etcd: {endpoint[:60]!r}")
    return found["scheme"] or "", f"{found['host']}:{found['port'] or 2379}"


def _policy(reader: Reader) -> Policy:
    return Policy(
        timeout=reader.number("timeoutInSecond", 0, 0, LONGEST) or DEFAULT_TIMEOUT,
        interval=reader.number("backupIntervalInSecond", 0, 0, LONGEST),
        keep=reader.number("maxBackups", 0, 0, LONGEST),
    )


def _pod(reader: Reader) -> JobPod:
    labels, annotations = reader.texts("labels"), reader.texts("annotations")
    check_labels(reader, labels)
    check_annotations(reader, annotations)
    return replace(read_job_pod(reader), labels=labels, annotations=annotations)


def read_job_pod(reader: Reader) -> JobPod:
    """The fields of `spec.pod` that an EtcdBackup and an EtcdRestore have in common."""
    return JobPod(
        node_selector=reader.texts("nodeSelector"),
        tolerations=tuple(dict(item.raw) for item in reader.items("tolerations")),
        image_pull_secrets=tuple(dict(item.raw) for item in reader.items("imagePullSecrets")),
        resources=reader.verbatim("resources"),
    )
