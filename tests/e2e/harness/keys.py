"""Private keys: how their text looks, and where it must not be after a test."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

from harness.api import (
    BACKUPS,
    CLAIMS,
    CLUSTERS,
    EVENTS,
    JOBS,
    PODS,
    RESTORES,
    SCHEDULES,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Kube,
)
from harness.clusters import is_ready
from harness.waiting import PASSING

KINDS = (
    CLUSTERS, BACKUPS, SCHEDULES, RESTORES, STATEFUL_SETS, JOBS, PODS, CLAIMS, SERVICES, EVENTS,
)  # fmt: skip
WHOLE_KEY = 44
"""Characters of 32 bytes in base64. What is shorter was made by a test that breaks a Secret."""

ANY = "PRIVATE KEY-----"
LONGEST_LOG = str(4 * 1024 * 1024)


def start_keys(secrets: Iterable[Json]) -> list[str]:
    """Start keys of clusters in base64, without keys that a test has cut short."""
    ours = (one for one in secrets if str(one["metadata"]["name"]).endswith("-start"))
    data = [one.get("data") or {} for one in ours]
    return [key for one in data if len(key := one.get("key", "")) >= WHOLE_KEY]


def texts_of(secrets: Iterable[Json]) -> list[str]:
    """What to look for: each private key as its Secret has it, in base64, and the first lines of
    the PEM, in whatever it may be quoted."""
    found = []
    for secret in secrets:
        for name, text in (secret.get("data") or {}).items():
            if name.endswith(".key"):
                found += _texts(text)
    return found


def _texts(text: str) -> list[str]:
    try:
        lines = base64.b64decode(text).decode().splitlines()
    except ValueError:
        return []
    body = [line for line in lines if len(line) >= WHOLE_KEY and "-----" not in line]
    return [text, *body[:2]] if body else []


def told(kube: Kube, namespace: str, texts: Iterable[str]) -> list[str]:
    """Objects of the namespace, and containers by their logs, that show one of these texts."""
    words, listed = (ANY, *texts), {kind: kube.list(kind, namespace) for kind in KINDS}
    found = [
        f"{kind.kind}/{one['metadata']['name']}"
        for kind, objects in listed.items()
        for one in objects
        if any(word in json.dumps(one) for word in words)
    ]
    logs = (one for pod in listed[PODS] for one in _logs(kube, pod))
    return found + [where for where, log in logs if any(word in log for word in words)]


def _logs(kube: Kube, pod: Json) -> Iterator[tuple[str, str]]:
    """Of each container of a pod whose node answers, so that nothing is waited for."""
    metadata, spec = pod["metadata"], pod["spec"]
    if not is_ready(pod) and pod["status"].get("phase") not in ("Succeeded", "Failed"):
        return
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        where = {"container": container["name"], "limitBytes": LONGEST_LOG}
        try:
            lines = list(kube.log_lines(metadata["namespace"], metadata["name"], **where))
        except PASSING:
            continue  # It is being deleted, or has not run.
        yield f"the log of {metadata['name']}/{container['name']}", "\n".join(lines)
