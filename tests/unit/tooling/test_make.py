"""What the Makefile does with where it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_make_found_no_command_in_a_folder_with_a_space_in_its_name(tmp_path: Path) -> None:
    """The first command of a newcomer failed: `projects/etcd-operator: No such file`."""
    checkout = tmp_path / "my projects" / "etcd-operator"
    package = checkout / "tests" / "cluster" / "localkube"
    package.mkdir(parents=True)
    for name in ("Makefile", "tests/cluster/cluster.mk"):
        shutil.copy(ROOT / name, checkout / name)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys; print(*sys.argv[1:])")

    command = ["make", "--no-print-directory", "image-context"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "image-context\n"), done.stderr
