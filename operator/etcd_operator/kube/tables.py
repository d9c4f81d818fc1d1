"""Watches only the names of objects that change, by the tables that `kubectl get` also requests.

The API server returns a row for each object; for a Secret it has the name, type, number of keys and
age. The object itself is left out. So the row has no data, and no annotations either, in which
`kubectl apply` keeps a copy of the data. Only the name is used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from etcd_operator.kube.api import WATCH_SECONDS, Json, KubeError, Unavailable, refusal
from etcd_stateful.untrusted import loads

ACCEPT: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
BARE: Final = {"includeObject": "None"}

SILENT_SECONDS: Final = 90.0
"""A watch that delivers nothing for so long is aborted. Bookmarks come every minute."""


class Change(NamedTuple):
    """One event of a watch on tables."""

    name: str
    """The object that was created, changed or deleted; empty for a bookmark."""

    version: int
    """The resourceVersion from which the next watch continues."""


def watch_from(version: int) -> dict[str, str]:
    """The query of a watch for changes after `version`."""
    return BARE | {
        "watch": "true",
        "resourceVersion": str(version),
        "timeoutSeconds": str(WATCH_SECONDS),
        "allowWatchBookmarks": "true",
    }


def version(call: str, table: Json) -> int:
    """The resourceVersion that a table was served at. Raises KubeError."""
    try:
        return int(table["metadata"]["resourceVersion"])
    except (ValueError, LookupError, TypeError) as error:
        raise Unavailable(f"{call}: no table: {error!r}") from None


def change(call: str, line: bytes) -> Change:
    """Parses one line of a watch. Raises KubeError for an ERROR event, or if the line is
    malformed."""
    try:
        event: Json = loads(line)
        if event["type"] == "ERROR":
            raise _refused(call, event["object"])
        table = event["object"]
        name = "" if event["type"] == "BOOKMARK" else str(table["rows"][0]["cells"][0])
        return Change(name, version(call, table))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unavailable(f"{call}: no row of a table: {error!r}") from None


def _refused(call: str, status: Json) -> KubeError:
    return refusal(call, int(status.get("code") or 500), status)
