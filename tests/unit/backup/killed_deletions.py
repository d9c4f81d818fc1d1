"""Jobs that are killed in the middle of what they do to a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import obstore
import pytest


@contextmanager
def killed_after_one_deletion(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What runs within deletes one file, and ends before it does anything else."""
    really = obstore.delete_async

    async def once(client: Any, key: str) -> None:
        await really(client, key)
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(obstore, "delete_async", once)
        with pytest.raises(asyncio.CancelledError):
            yield
