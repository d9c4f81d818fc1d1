"""The rights that the operator has and those that it used, as (API group, resource, verb)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from harness.audit import Entry

Right = tuple[str, str, str]

CREATED = 201
FORBIDDEN = "forbid"

PARTING = timedelta(seconds=10)
"""Helm deletes a Role a moment before the pod that uses it ends."""


def granted(manifests: Iterable[dict[str, Any]]) -> set[Right]:
    """The rights in all Roles and ClusterRoles among the manifests."""
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
    """URIs of requests that no Role allowed."""
    return [
        entry["requestURI"]
        for entry in entries
        if (entry.get("annotations") or {}).get("authorization.k8s.io/decision") == FORBIDDEN
    ]


def refused_at_work(entries: Iterable[Entry]) -> list[str]:
    """As `refused`, without the last moments of each operator pod."""
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
        return  # Discovery, which every service account may read.
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    group, verb = about.get("apiGroup", ""), entry["verb"]
    yield group, resource, verb
    # Server-side apply also needs the right to create an object that does not exist.
    if verb == "patch" and (entry.get("responseStatus") or {}).get("code") == CREATED:
        yield group, resource, "create"
