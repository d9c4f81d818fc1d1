"""Shared by the tests of what talks to the API server."""

from __future__ import annotations

import pytest

from etcd_operator.kube.transport import accept_deep_json


@pytest.fixture
def deep_json(own_limits: None) -> None:
    """What the operator does when it starts."""
    del own_limits
    accept_deep_json()
