"""An EtcdRestore that was just declared."""

from __future__ import annotations

import pytest

from unit.backup_controllers.restore.one_restore import World


@pytest.fixture
def world() -> World:
    return World()
