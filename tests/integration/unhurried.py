"""The operator looks again where no answer came within its second; a test would fail.

What a test asks of an etcd that is alive must not hang on how busy the machine is. Where nothing
will be answered, a test undoes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import grpc
import pytest
from aetcd import rpc

TIMES: Final = 15


class _Patience(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        asked = client_call_details
        longer = asked._replace(timeout=asked.timeout and TIMES * asked.timeout)
        return await continuation(longer, request)


def make_unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every deadline of a single call to etcd becomes so many times as long."""
    for name in ("insecure_channel", "secure_channel"):
        opener = partial(getattr(grpc.aio, name), interceptors=[_Patience()])
        monkeypatch.setattr(rpc, name, opener)
