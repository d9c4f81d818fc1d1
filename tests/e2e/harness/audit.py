"""The API server's audit log: who asked for what. Only the local cluster shows it to us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Audit:
    """The part of the log that is written from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size

    def entries(self, user: str) -> Iterator[Entry]:
        """Finished requests of a user; watches appear twice, when they start and when they end."""
        with self.path.open("rb") as log:
            log.seek(self._start)
            for line in log:
                if line.endswith(b"\n") and user.encode() in line:
                    entry = json.loads(line)
                    if entry["user"]["username"] == user and entry["stage"] == "ResponseComplete":
                        yield entry


def in_words(entry: Entry) -> str:
    about = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return f"{entry['verb']} {resource or entry['requestURI'].split('?')[0]}"
