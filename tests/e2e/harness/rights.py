"""What the operator may do, and what it has done: both as (API group, resource, verb)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from harness.audit import Entry

Right = tuple[str, str, str]

CREATED = 201
FORBIDDEN = "forbid"

PARTING = timedelta(seconds=10)
"""helm takes a Role away a moment before the pod that had it ends."""


def granted(manifests: Iterable[dict[str, Any]]) -> set[Right]:
    """By all Roles and ClusterRoles among the manifests."""
    return {
        (group, resource, verb)
        for manifest in manifests
        if manifest["kind"] in ("Role", "ClusterRole")
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(entries: Iterable[Entry]) -> set[Right]:
    return {right for entry in entries for right in _of(entry)}


def refused(entries: Iterable[Entry]) -> list[str]:
    """Requests that no Role allows, in words."""
    return [
        entry["requestURI"]
        for entry in entries
        if (entry.get("annotations") or {}).get("authorization.k8s.io/decision") == FORBIDDEN
    ]


def refused_at_work(entries: Iterable[Entry]) -> list[str]:
    """As `refused`, but for the last moments of each of the operator's pods."""
    entries = list(entries)
    ends = {_pod(entry): _time(entry) for entry in sorted(entries, key=_time)}
    return refused(entry for entry in entries if _time(entry) < ends[_pod(entry)] - PARTING)


def _pod(entry: Entry) -> str:
    names: list[str] = entry["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name")
    return "".join(names or ())


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def _of(entry: Entry) -> Iterator[Right]:
    about = entry.get("objectRef")
    if not about:
        return  # discovery, which every service account may read
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    group, verb = about.get("apiGroup", ""), entry["verb"]
    yield group, resource, verb
    # Server-side apply of what is not there needs the right to create it as well.
    if verb == "patch" and (entry.get("responseStatus") or {}).get("code") == CREATED:
        yield group, resource, "create"
