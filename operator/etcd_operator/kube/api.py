"""The part of the Kubernetes API that the operator needs, as a Protocol.

It is used instead of the generated clients for two reasons. Manifests are plain dictionaries from
end to end (rendered, golden-tested, applied, watched). And the part that talks to the network must
be small enough that a fake of it, with every verb and every error, fits on a page. `client.py`
implements it on `kubernetes.aio`.

Every implementation must keep this: each call has a deadline, and a call that exceeds it, or loses
its connection, raises `Unavailable`. For a write this means *unknown*, never *not done*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

from etcd_stateful import naming

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

Propagation = Literal["Background", "Foreground", "Orphan"]

WATCH_SECONDS = 300
"""Each watch is requested again after this time."""

FIELD_MANAGER = "etcd-operator"
STATUS_FIELD_MANAGER = "etcd-operator-status"

REJECTED_SECONDS = 30.0
"""A rejected call is retried after this time, because rights, quotas or policies may have been
changed."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object with its API group and version, because short names are ambiguous."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "") -> str:
        """The path of an object, or of the collection if there is no name. `namespace` None means
        all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/" + "/".join(parts)

    def named(self, body: Json) -> Json:
        """The object with its apiVersion and kind, which the items of a list lack."""
        return {"apiVersion": self.api_version, "kind": self.kind, **body}


_OURS = (naming.GROUP, naming.VERSION)

ETCD_CLUSTERS = Resource(*_OURS, "etcdclusters", naming.CLUSTER_KIND)
ETCD_BACKUPS = Resource(*_OURS, "etcdbackups", naming.BACKUP_KIND)
ETCD_RESTORES = Resource(*_OURS, "etcdrestores", naming.RESTORE_KIND)
ETCD_SCHEDULES = Resource(*_OURS, "etcdbackupschedules", naming.SCHEDULE_KIND)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
SERVICES = Resource("", "v1", "services", "Service")
SECRETS = Resource("", "v1", "secrets", "Secret")
PODS = Resource("", "v1", "pods", "Pod")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
JOBS = Resource("batch", "v1", "jobs", "Job")
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
CERTIFICATES = Resource("cert-manager.io", "v1", "certificates", "Certificate")


class KubeError(Exception):
    """The API server refused a call, or did not answer it; then `status` is 0."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(KubeError):
    """The object exists already, or a UID or resourceVersion precondition did not hold."""


class Rejected(KubeError):
    """400, 403, 404 on a write, 422 ...: the same call again would get the same answer."""

    @property
    def forbidden(self) -> bool:
        """Whether RBAC or admission denied the call."""
        return self.status == 403

    @property
    def invalid(self) -> bool:
        """Whether the object would not be valid."""
        return self.status == 422

    @property
    def not_found(self) -> bool:
        """Whether the object does not exist, or its kind is not served."""
        return self.status == 404


class Unavailable(KubeError):
    """No answer in time, no connection, 401, 429 or 5xx. A write may have happened or not."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after


def refusal(
    call: str, status: int, answer: Json | None, retry_after: float | None = None
) -> KubeError:
    """The exception for an HTTP status. An answer that is not a Status object came from a proxy
    before the API server."""
    told = answer or {}
    message = f"{call}: {told.get('message') or f'HTTP {status}'}"
    reason = str(told.get("reason") or "")
    if status == 409 or (status == 422 and _is_of_another_uid(told)):
        return Conflict(message, status=status, reason=reason)
    if status < 400 or status in (401, 408, 429) or status >= 500:
        return Unavailable(message, status=status, reason=reason, retry_after=retry_after)
    return Rejected(message, status=status, reason=reason)


def namespace_ends(error: Rejected) -> bool:
    """Whether nothing can be created because the namespace is being deleted, or is gone.

    Its objects disappear one by one, so this is not reported and nothing is put back.
    """
    words = str(error)
    gone = error.not_found and 'namespaces "' in words
    return gone or (error.forbidden and "being terminated" in words)


def refused_in_words(error: Rejected) -> str:
    """What to report about a read or a write that was refused, mostly because of missing rights or
    a quota.

    Empty if its namespace is being deleted.
    """
    return "" if namespace_ends(error) else f"the API server refuses it: {error}"


def _is_of_another_uid(told: Json) -> bool:
    """Whether a 422 says that the object has another UID than the patch. The API server does not
    answer 409 in that case (1.36)."""
    causes = (told.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


class Listing(NamedTuple):
    """The items of a LIST, and the resourceVersion that it was served at."""

    items: list[Json]
    version: int


class Kubernetes(Protocol):
    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Reads from the API server itself; None is a 404."""
        ...

    async def list(self, resource: Resource, namespace: str | None, selector: str = "") -> Listing:
        """A paged LIST from the API server; `namespace` None means all namespaces."""
        ...

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        """Forced server-side apply. The object and its status have different field managers.

        `metadata.uid` and `metadata.resourceVersion` in the manifest are preconditions
        (`Conflict`). A missing object is created, unless the manifest has a UID. For a status the
        API server only checks the resourceVersion: another UID is a `Conflict` too, but it is
        raised after the write.
        """
        ...

    async def create(self, resource: Resource, manifest: Json) -> Json:
        """Creates an object. `Conflict` (reason AlreadyExists) if the name is taken."""
        ...

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Json,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> Json:
        """A JSON merge patch. `metadata.uid` and `metadata.resourceVersion` in it are
        preconditions.

        With `dry_run` nothing is stored, but the answer is the same.
        """
        ...

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Deletes an object. Returns False if it does not exist. Another UID or resourceVersion
        than given is a `Conflict`.

        With `Foreground` the object stays, with a deletionTimestamp, until its dependents are gone.
        """
        ...
