"""The API server's audit log: which user made which requests. Only the local cluster has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Audit:
    """The part of the log that is written after `start`, by default from now on."""

    def __init__(self, path: Path, start: int | None = None) -> None:
        self.path = path
        self._start = path.stat().st_size if start is None else start

    def entries(self, user: str) -> list[Entry]:
        """Completed requests of a user.

        The operator renews its Lease all the time. So if there is none, the log is not where it
        should be, or of another user, and it would prove nothing that a request is not in it.
        """
        size = self.path.stat().st_size
        assert size >= self._start, f"{self.path} has begun anew: its first part is not in it"
        with self.path.open("rb") as log:
            log.seek(self._start)
            found = [entry for line in log if (entry := _completed(line, user))]
        assert found, f"{self.path} has no request of {user} after its first {self._start} bytes"
        return found


def _completed(line: bytes, user: str) -> Entry | None:
    if not line.endswith(b"\n") or user.encode() not in line:
        return None
    entry: Entry = json.loads(line)
    done = entry["user"]["username"] == user and entry["stage"] == "ResponseComplete"
    return entry if done else None


class Suite:
    """The position in the log at which each part of the suite began, kept in files between
    processes."""

    def __init__(self, log: Path, folder: Path) -> None:
        self._log = log
        self._folder = folder

    @contextmanager
    def recorded(self, part: str, image: str) -> Iterator[None]:
        """Records where a part began, once it has run to its end.

        Args:
            image: of the operator under test.
        """
        start = self._log.stat().st_size
        mark = self._folder / f"audit-{part}.json"
        mark.unlink(missing_ok=True)
        yield
        self._folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps({"start": start, "image": image}))

    def whole(self, parts: Iterable[str], image: str) -> Audit | None:
        """The log from the first part on; None unless every part has run with this image."""
        marks = [self._folder / f"audit-{part}.json" for part in parts]
        if not all(mark.exists() for mark in marks):
            return None
        told = [json.loads(mark.read_text()) for mark in marks]
        if any(one["image"] != image for one in told):
            return None
        return Audit(self._log, min(int(one["start"]) for one in told))


def in_words(entry: Entry) -> str:
    about = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return f"{entry['verb']} {resource or entry['requestURI'].split('?')[0]}"
