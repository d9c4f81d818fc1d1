"""Shared by all unit tests: the flag that rewrites golden files, and repeatable hypothesis runs."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time: a test that fails by chance teaches people to run it again.
settings.register_profile(
    "steady",
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden manifests from what is rendered now; look at the diff afterwards",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))


@pytest.fixture
def own_limits() -> Iterator[None]:
    """Puts back what `operate` changes for the whole process."""
    depth, stack = sys.getrecursionlimit(), threading.stack_size()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    sys.setrecursionlimit(depth)
    threading.stack_size(stack)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
