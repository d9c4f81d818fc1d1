"""Logs in lines for people (text) or machines (JSON), each with the cluster that it is about.

The work queue sets the key of a pass once with `about`, and every line that is logged during the
pass has it. Bodies of objects are never logged, because they may be Secrets. kopf logs them at
DEBUG, so its loggers stay at WARNING at every log level.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TextIO

_about: ContextVar[dict[str, str] | None] = ContextVar("about", default=None)

SELDOM_SECONDS = 30.0

_STANDARD = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NOISY = ("kopf", "kubernetes", "aiohttp", "asyncio", "grpc")


@contextlib.contextmanager
def about(**fields: str) -> Iterator[None]:
    """Adds these fields to all lines that are logged inside, also by tasks that are started
    inside."""
    token = _about.set((_about.get() or {}) | fields)
    try:
        yield
    finally:
        _about.reset(token)


def setup(level: str, form: str, stream: TextIO | None = None) -> None:
    """Makes the root logger write to `stream`, by default standard error, as `text` or `json`."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_json() if form == "json" else _Text())
    handler.addFilter(_add_context)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    handler.addFilter(_Seldom())
    # kopf runs in a thread of its own on purpose, and `run` handles the signals. So kopf's warning
    # is noise.
    logging.getLogger("kopf._core.reactor.running").addFilter(
        lambda record: "OS signals are ignored" not in record.getMessage()
    )


def _json() -> logging.Formatter:
    # Imported only when needed: Jobs log text, and each of them would pay for the import.
    from etcd_operator.telemetry.logs_json import Json  # noqa: PLC0415

    return Json(time_of)


class _Seldom(logging.Filter):
    """Passes kopf's "Request attempt #7 failed; will retry: GET ..." once in SELDOM_SECONDS.

    While the API server is down, every watch logs such lines, which would hide everything else.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = -SELDOM_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kopf.") or "will retry" not in record.getMessage():
            return True
        due = abs(record.created - self._last) >= SELDOM_SECONDS  # the clock may be set back
        if due:
            self._last = record.created
        return due


def _add_context(record: logging.LogRecord) -> bool:
    for name, value in (_about.get() or {}).items():
        if not hasattr(record, name):
            setattr(record, name, value)
    return True


def time_of(record: logging.LogRecord) -> str:
    """The time of the record, in RFC 3339, UTC, with milliseconds."""
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def _in_one_line(words: str) -> str:
    """Escapes control characters: text from others must not look like lines of ours or control a
    terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), words)


class _Text(logging.Formatter):
    """`INFO 2026-11-21T05:46:00.123Z cluster=default/a member 3 is promoted`"""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f"{name}={value} " for name, value in _fields(record).items())
        said = _in_one_line(f"{fields}{record.getMessage()}")
        line = f"{record.levelname:<7} {time_of(record)} {said}"
        if record.exc_info:
            told = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {_in_one_line(one)}" for one in told)
        return line
