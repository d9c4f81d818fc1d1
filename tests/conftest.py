"""Shared by several tiers: how long a test may take, and which tests only `make verify` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.slow import SLOW

HERE = Path(__file__).parent
SIDE_BY_SIDE = (HERE / "integration", HERE / "e2e")
"""Tiers whose tests wait for processes while others run."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After the tiers' own, which may set limits."""
    for item in items:
        if any(tier in item.path.parents for tier in SIDE_BY_SIDE):
            own = item.get_closest_marker("timeout")
            limit = own.args[0] if own else float(config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(SLOW * limit), append=False)
    if not config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("verify")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
