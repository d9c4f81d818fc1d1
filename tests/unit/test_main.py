"""The command line."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from etcd_operator.__main__ import VERSION, main

ROOT = Path(__file__).parents[2]


def test_the_version_is_that_of_the_package(capsys):
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{built}\n" == f"{VERSION}\n"


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["dance"])

    assert end.value.code == 2
    assert "invalid choice: 'dance'" in capsys.readouterr().err


def test_the_operator_does_not_import_unused_parts_of_its_client():
    """Its packages import them by themselves: 17 MiB in every operator that nothing used."""
    code = (
        "import sys; from etcd_operator import lean_imports; "
        "lean_imports.skip_unused_packages(); import etcd_operator.run; "
        "left_out = {'kubernetes.config', 'kubernetes.aio.dynamic', 'requests', 'pydantic'}; "
        "print(({'kubernetes.aio'} | left_out) & set(sys.modules))"
    )

    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ran.stdout == "{'kubernetes.aio'}\n", ran.stderr
