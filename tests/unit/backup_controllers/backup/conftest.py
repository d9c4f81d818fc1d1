"""An EtcdBackup that was just declared."""

from __future__ import annotations

import pytest

from unit.backup_controllers.backup.one_backup import World


@pytest.fixture
def world() -> World:
    world = World()
    world.declare()
    return world
