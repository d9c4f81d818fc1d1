"""Longer deadlines for etcd calls in tests.

If etcd does not answer within a second, the operator looks again later, but a test would fail. So a
test must not depend on how busy the machine is. Tests in which etcd will not answer undo this.
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
    """Multiplies the deadline of every unary call to etcd."""
    for name in ("insecure_channel", "secure_channel"):
        opener = partial(getattr(grpc.aio, name), interceptors=[_Patience()])
        monkeypatch.setattr(rpc, name, opener)
