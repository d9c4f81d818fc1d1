"""The loopback addresses of the integration tests' servers."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

PLACE = Path(__file__).parents[2] / "integration" / "addresses.py"


def taken() -> ModuleType:
    """As another run takes its block; let go again with `_LOCK.close()`."""
    spec = importlib.util.spec_from_file_location("addresses_of_another_run", PLACE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_runs_at_once_have_addresses_of_their_own() -> None:
    one, other = taken(), taken()

    assert one.address(0) != other.address(0)
    one._LOCK.close()
    other._LOCK.close()


def test_servers_that_a_killed_run_had_left_kept_the_addresses_of_the_next() -> None:
    killed = taken()
    with socket.create_server((killed.address(1), 0)):
        killed._LOCK.close()

        following = taken()

    assert following.address(1) != killed.address(1)
    following._LOCK.close()
