"""What the make targets refuse."""

from __future__ import annotations

import pytest

from localkube import __main__ as commands
from localkube.shell import ClusterError


@pytest.mark.parametrize("nodes", ["0", "10", "12", "123456789", "-1", "three"])
def test_a_number_of_nodes_that_is_not_supported_is_refused(
    nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 was not, and what only finds nodes of one digit left those above behind."""
    monkeypatch.setenv("NODES", nodes)
    monkeypatch.setattr(commands.providers, "choose", pytest.fail)

    with pytest.raises(ClusterError, match=f"NODES={nodes}: must be 1 to 9"):
        commands.up()
