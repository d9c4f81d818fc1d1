"""The command line."""

import tomllib
from pathlib import Path

import pytest

from etcd_operator.__main__ import VERSION, main

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_one_that_is_built(capsys):
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{built}\n" == f"{VERSION}\n"


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["dance"])

    assert end.value.code == 2
    assert "invalid choice: 'dance'" in capsys.readouterr().err
