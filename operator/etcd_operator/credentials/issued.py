"""Looks at what cert-manager was asked for, and at what it has written.

Certificates are listed, all of a namespace at once, when one that is needed here has changed
(`name_changes.py`). Where changes are not watched, they are listed at intervals. The Secrets carry
our labels, so the watch of Secrets shows a renewal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from etcd_operator.kube.api import (
    CERTIFICATES,
    REJECTED_SECONDS,
    SECRETS,
    Json,
    Key,
    Kubernetes,
    Rejected,
    Resource,
    Unavailable,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.name_changes import Mark
from etcd_operator.kube.watches import OURS
from etcd_operator.objects import reading
from etcd_stateful import stored_conditions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.issuer import Issuer
from etcd_stateful.certificates import CertificateSpec, as_issued, issued
from etcd_stateful.metadata import annotations_of
from etcd_stateful.observed.objects import Foreign

SOON_SECONDS: Final = 2.0
"""How old the list of Certificates may be where changes are not watched, while something is yet to
be issued."""

CALM_SECONDS: Final = 60.0
"""The same while nothing is yet to be issued."""

PASSING_SECONDS: Final = 30.0
"""How long the LIST must fail before passes go on without the Certificates."""

NAME: Final = "cert-manager.io/certificate-name"
ISSUER: Final = (
    "cert-manager.io/issuer-name",
    "cert-manager.io/issuer-kind",
    "cert-manager.io/issuer-group",
)
"""Annotations of a Secret that cert-manager has written."""

_REFUSALS: Final = {
    404: "this Kubernetes does not serve certificates.cert-manager.io/v1: install cert-manager. "
    "The operator notices by itself within seconds",
    403: "the operator has no access to certificates.cert-manager.io: its Role is not that of this "
    "version's chart. Give it get, list, watch, create and patch on them",
}


@dataclass(frozen=True, slots=True)
class IssuedObjects:
    """What was found, by the name that a Certificate and its Secret have."""

    missing: str = ""
    """Why Certificates cannot be listed, in words; empty if they can."""

    certificates: Mapping[str, Json] = field(default_factory=dict)
    secrets: Mapping[str, Json] = field(default_factory=dict)
    foreign: tuple[Foreign, ...] = ()


class IssuedLook:
    def __init__(
        self,
        kube: Kubernetes,
        finder: Finder,
        clock: Callable[[], float],
        mark: Mark,
    ) -> None:
        self._kube = kube
        self._finder = finder
        self._clock = clock
        self._mark = mark
        self._listed: dict[str, tuple[float, str]] = {}
        """By namespace: when Certificates were last listed, and why they could not be."""

        self._failing: dict[str, float] = {}
        """By namespace: since when the LIST gets no answer, or an error of the API server."""

        self._marks: dict[Key, list[int | None]] = {}
        """The marks of a cluster's Certificates when they were last listed for it."""

        self._calm: set[Key] = set()

    def forget(self, key: Key) -> None:
        self._calm.discard(key)
        if self._marks.pop(key, None) is None or any(key[0] == one for one, _ in self._marks):
            return
        # No cluster is left that lists this namespace, so deletions would go unnoticed.
        self._listed.pop(key[0], None)
        self._failing.pop(key[0], None)
        self._finder.drop_all(CERTIFICATES, key[0])

    async def look(self, cluster: EtcdCluster) -> IssuedObjects:
        needs = [as_issued(need) for need in issued(cluster)]
        if not needs:
            return IssuedObjects()
        missing = await self._list(cluster, needs)
        certificates = {} if missing else await self._find(CERTIFICATES, cluster, needs)
        written = await self._find(SECRETS, cluster, needs)
        foreign = [
            other
            for name, raw in certificates.items()
            if (other := reading.foreign(cluster, "Certificate", raw))
        ]
        foreign += [
            _not_written(cluster, name, raw)
            for name, raw in written.items()
            if not _is_of(name, raw)
        ]
        names = {one.name for one in foreign}
        found = IssuedObjects(
            missing,
            {name: raw for name, raw in certificates.items() if name not in names},
            {name: raw for name, raw in written.items() if name not in names},
            tuple(foreign),
        )
        self._remember(cluster.key, found, len(needs))
        return found

    async def _list(self, cluster: EtcdCluster, needs: Sequence[CertificateSpec]) -> str:
        """Lists the Certificates for the finder. Returns why it cannot, in words; else empty."""
        key, now = cluster.key, self._clock()
        # Read before the list: what changes meanwhile gets another mark.
        marks = [self._mark(CERTIFICATES, key, need.secret) for need in needs]
        at, missing = self._listed.get(cluster.namespace, (float("-inf"), ""))
        if self._is_current(key, marks, now - at):
            return missing
        missing = await self._why_missing(cluster.namespace, now)
        self._listed[cluster.namespace], self._marks[key] = (now, missing), marks
        return missing

    async def _why_missing(self, namespace: str, now: float) -> str:
        self._listed.pop(namespace, None)
        try:
            listing = await self._kube.list(CERTIFICATES, namespace, OURS)
        except Unavailable as error:
            if now - self._failing.setdefault(namespace, now) < PASSING_SECONDS:
                raise
            return f"the API server does not list Certificates, which is tried again: {error}"
        except Rejected as error:
            self._failing.pop(namespace, None)
            if error.status not in _REFUSALS:
                raise
            return _REFUSALS[error.status]
        self._failing.pop(namespace, None)
        self._finder.take_all(CERTIFICATES, namespace, listing)
        return ""

    def _is_current(self, key: Key, marks: list[int | None], age: float) -> bool:
        if key[0] in self._failing:
            return age < REJECTED_SECONDS
        if None not in marks:
            return self._marks.get(key) == marks
        return age < (CALM_SECONDS if key in self._calm else SOON_SECONDS)

    async def _find(
        self, resource: Resource, cluster: EtcdCluster, needs: Sequence[CertificateSpec]
    ) -> dict[str, Json]:
        names = (need.secret for need in needs)
        found = await self._finder.find_all(resource, cluster.namespace, names)
        return {one["metadata"]["name"]: one for one in found}

    def _remember(self, key: Key, found: IssuedObjects, needed: int) -> None:
        statuses = [raw.get("status") for raw in found.certificates.values()]
        ready = sum(stored_conditions.is_true(one, "Ready") for one in statuses)
        if len(found.secrets) == needed and (found.missing or ready == needed):
            self._calm.add(key)
        else:
            self._calm.discard(key)


def other_issuer(raw: Json, issuer: Issuer | None) -> str:
    """What is wrong with a Secret that another issuer has filled; empty if this one has."""
    notes = annotations_of(raw)
    made_by = tuple(str(notes.get(key, "")) for key in ISSUER)
    if issuer is None or made_by == (issuer.name, issuer.kind, issuer.group):
        return ""
    return f"tls.crt is of {made_by[1]} {made_by[0]} of {made_by[2]}, not of {issuer}"


def _is_of(name: str, raw: Json) -> bool:
    """Whether cert-manager has written this Secret for the Certificate of the same name."""
    return annotations_of(raw).get(NAME) == name


def _not_written(cluster: EtcdCluster, name: str, raw: Json) -> Foreign:
    """A Secret that cert-manager has not written, but would overwrite."""
    known = reading.foreign(cluster, "Secret", raw)
    return known or Foreign("Secret", name, "nobody (cert-manager has not written it)")
