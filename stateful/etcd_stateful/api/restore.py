"""EtcdRestore: the custom resource, parsed once into a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etcd_stateful import identity
from etcd_stateful.api.backup import EtcdBackup, JobPod, Policy, read_job_pod
from etcd_stateful.api.reading import Reader, RefusedObject, spec_of
from etcd_stateful.api.source import Source, read_source
from etcd_stateful.api.stores import Store
from etcd_stateful.naming import RESTORE_KIND


class RefusedRestore(RefusedObject):
    """An EtcdRestore whose spec is not accepted."""


@dataclass(frozen=True, slots=True)
class EtcdRestore:
    """A parsed EtcdRestore. The cluster has the name of the restore, as in the coreos operator."""

    namespace: str
    name: str
    uid: str
    generation: int
    source: Source
    replaces: int | None = None
    """ID of the existing etcd cluster that the restore may replace."""
    pod: JobPod = field(default_factory=JobPod)
    """Pod of the Job that reads the manifest. The Job that fills a volume is the cluster's."""

    @property
    def kind(self) -> str:
        return RESTORE_KIND

    def as_backup(self, store: Store, pod: JobPod) -> EtcdBackup:
        """The restore as an EtcdBackup, from which the Job that reads the manifest is made.

        Args:
            store: the store to read from.
            pod: of the EtcdBackup in `spec.backupRef`; its settings apply where this sets none.
        """
        return EtcdBackup(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            generation=self.generation,
            store=store,
            policy=Policy(),
            pod=self.pod.or_else(pod),
            kind=self.kind,
        )


def parse_restore(body: Mapping[str, Any]) -> EtcdRestore:
    """Parses an EtcdRestore; raises RefusedRestore with every problem found."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    spec = spec_of(body)
    cluster = spec.object("etcdCluster")
    if cluster.text("name") != metadata.get("name"):
        found = cluster.text("name")
        cluster.problem("name", f"must be the name of this EtcdRestore, found {found[:60]!r}")
    pod = spec.object("pod")
    source = read_source(spec, "backupStorageType", pod)
    replaces, job_pod = _read_replace(spec), read_job_pod(pod)
    if spec.problems or source is None:
        raise RefusedRestore(tuple(spec.problems))
    return EtcdRestore(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        generation=int(metadata.get("generation", 0)),
        source=source,
        replaces=replaces,
        pod=job_pod,
    )


def _read_replace(spec: Reader) -> int | None:
    """Reads `spec.replace`. The ID confirms which cluster is meant: no cluster has it any more once
    that one is replaced."""
    if not spec.has("replace"):
        return None
    asked = spec.object("replace")
    text = asked.text("clusterID")
    try:
        return identity.from_hex(text)
    except ValueError:
        asked.problem(
            "clusterID",
            "must be the hexadecimal ID in status.clusterID of the EtcdCluster to replace, "
            f"found {text[:60]!r}",
        )
        return None
