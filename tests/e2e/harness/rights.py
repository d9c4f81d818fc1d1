"""What the operator may do, and what it has done: both as (API group, resource, verb)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from harness.audit import Entry

Right = tuple[str, str, str]

CREATED = 201
FORBIDDEN = "forbid"


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
