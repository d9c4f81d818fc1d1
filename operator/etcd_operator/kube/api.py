"""The little of the Kubernetes API that the operator needs, as a Protocol.

Why not the generated clients everywhere: manifests are plain dictionaries from end to end
(rendered, golden-tested, applied, watched), and the part that talks to the network must be small
enough to be faked in a page, verb by verb and error by error. `client.py` implements it on
`kubernetes.aio`.

What must stay true of every implementation: each call has a deadline; a call that ran into it, or
lost its connection, raises `Unavailable`, which for a write means *unknown*, never *not done*.
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
"""Each watch is asked for anew after this long."""

FIELD_MANAGER = "etcd-operator"
STATUS_FIELD_MANAGER = "etcd-operator-status"

REJECTED_SECONDS = 30.0
"""What was rejected is tried again after this long: a right, a quota or a policy may be another."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, always named in full: short names are ambiguous."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "") -> str:
        """Path of an object, or of the collection; without a namespace that of all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/" + "/".join(parts)

    def named(self, body: Json) -> Json:
        """The object with its kind, which those of a list do not say."""
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
    """The API server refused or could not be asked; `status` is 0 where it did not answer."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(KubeError):
    """The object exists already, or a UID or resourceVersion precondition did not hold."""


class Rejected(KubeError):
    """400, 403, 404 on a write, 422 ...: asking again unchanged gets the same answer."""

    @property
    def forbidden(self) -> bool:
        """For want of a right, or by an admission."""
        return self.status == 403

    @property
    def not_found(self) -> bool:
        """There is no such object, or nobody serves its kind."""
        return self.status == 404


class Unavailable(KubeError):
    """No answer in time, no connection, 401, 429 or 5xx. A write may or may not have happened."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after


def refusal(
    call: str, status: int, answer: Json | None, retry_after: float | None = None
) -> KubeError:
    """What an HTTP status means. An answer that is no Status came from something in between."""
    told = answer or {}
    message = f"{call}: {told.get('message') or f'HTTP {status}'}"
    reason = str(told.get("reason") or "")
    if status == 409 or (status == 422 and _is_of_another_uid(told)):
        return Conflict(message, status=status, reason=reason)
    if status < 400 or status in (401, 408, 429) or status >= 500:
        return Unavailable(message, status=status, reason=reason, retry_after=retry_after)
    return Rejected(message, status=status, reason=reason)


def namespace_ends(error: Rejected) -> bool:
    """Whether nothing can be made any more, as the namespace is being deleted or gone.

    What is in it goes one by one, so nobody needs to be told, and nothing needs to be put back.
    """
    words = str(error)
    gone = error.not_found and 'namespaces "' in words
    return gone or (error.forbidden and "being terminated" in words)


def refused_in_words(error: Rejected) -> str:
    """What to tell of a look or a step that was refused, mostly for want of a right or of quota.

    Empty where its namespace ends.
    """
    return "" if namespace_ends(error) else f"the API server refuses it: {error}"


def _is_of_another_uid(told: Json) -> bool:
    """A patch with another UID than the object's is not a 409 to the API server (1.36)."""
    causes = (told.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


class Listing(NamedTuple):
    """What a LIST answered, and the resourceVersion of the moment it shows."""

    items: list[Json]
    version: int


class Kubernetes(Protocol):
    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Read from the API server itself; None is a 404."""
        ...

    async def list(
        self, resource: Resource, namespace: str | None, selector: str = ""
    ) -> list[Json]:
        """A real, paged LIST; `namespace` None is all of them."""
        ...

    async def list_at(
        self, resource: Resource, namespace: str | None, selector: str = ""
    ) -> Listing:
        """As `list`, with the resourceVersion that it was served at."""
        ...

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        """Server-side apply, forced, under an own field manager for the object and for its status.

        `metadata.uid` and `metadata.resourceVersion` in it are preconditions (`Conflict`).
        With a UID nothing is created. Without one a missing object is. For a status the API server
        checks the resourceVersion alone: another UID is a `Conflict` too, but after the write.
        """
        ...

    async def create(self, resource: Resource, manifest: Json) -> Json:
        """`Conflict` (reason AlreadyExists) if there is one of that name."""
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
        """`metadata.uid` and `metadata.resourceVersion` in the patch are preconditions.

        `dry_run`: nothing is stored, and the answer is as if it were.
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
        """True if it was there. Another UID or resourceVersion than given is a `Conflict`.

        `Foreground` keeps it there, with a deletionTimestamp, until what it owns is gone.
        """
        ...
