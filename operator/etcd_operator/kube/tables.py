"""Names of what changes, and nothing else of it: tables without objects, as `kubectl get` may ask.

The API server prints a row for each object: of a Secret name, type, number of keys and age. Without
the object itself there is no data in it, and no annotations either, in which `kubectl apply` keeps
a copy of the data. Only the name is looked at.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from etcd_operator.kube.api import WATCH_SECONDS, Json, KubeError, Unavailable, refusal
from etcd_stateful.untrusted import loads

ACCEPT: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
BARE: Final = {"includeObject": "None"}

SILENT_SECONDS: Final = 90.0
"""A watch that tells nothing for so long is cut off: its bookmarks come every minute."""


class Change(NamedTuple):
    """One event of a watch for tables."""

    name: str
    """Of what was made, altered or deleted; empty where only time has passed."""

    version: int
    """From which a watch goes on."""


def watch_from(version: int) -> dict[str, str]:
    """The query of a watch that tells what changes after `version`."""
    return BARE | {
        "watch": "true",
        "resourceVersion": str(version),
        "timeoutSeconds": str(WATCH_SECONDS),
        "allowWatchBookmarks": "true",
    }


def version(call: str, table: Json) -> int:
    """Of the moment that a table shows. Raises KubeError."""
    try:
        return int(table["metadata"]["resourceVersion"])
    except (ValueError, LookupError, TypeError) as error:
        raise Unavailable(f"{call}: no table: {error!r}") from None


def change(call: str, line: bytes) -> Change:
    """One line of a watch. Raises KubeError: what the API server says, or that it says nonsense."""
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
