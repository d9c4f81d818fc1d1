"""The JSON format of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pythonjsonlogger.json import JsonFormatter


class Json(JsonFormatter):
    def __init__(self, time_of: Callable[[logging.LogRecord], str]) -> None:
        super().__init__()
        self._time_of = time_of

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        log_data["level"] = record.levelname
        log_data["time"] = self._time_of(record)
        super().add_fields(log_data, record, message_dict)
        log_data["logger"] = record.name
