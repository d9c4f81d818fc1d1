"""An older version of the operator from git: its chart, its CRDs and its image."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.api import Json

COMMIT = "9d9b8bfc70cacd67bdf0f8ff4386d6ffba42a53a"
"""The commit to upgrade from. There is no release yet; once there is one, this is its tag."""

BUILD_SECONDS = 600
"""This includes the download of its locked packages, if they are not cached."""

BUILT = re.compile(r"^operator image: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Version:
    """A version of the operator: the folder of its files, and its image on the nodes."""

    folder: Path
    image: str

    @property
    def chart(self) -> Path:
        return self.folder / "charts" / "etcd-operator"

    def schemas(self) -> Json:
        """The schemas in its CRDs, by kind and version."""
        paths = (self.folder / "crds").glob("*.yaml")
        return schemas_of([yaml.load(path.read_text(), yaml.CSafeLoader) for path in paths])


def check_out(repository: Path, commit: str, folder: Path) -> Path:
    """Extracts the files of a commit into the folder. Fails if the clone does not have it."""
    there = _git(repository, "cat-file", "-e", f"{commit}^{{commit}}")
    assert there.returncode == 0, (
        f"commit {commit} is not in this clone. Fetch the whole history: git fetch --unshallow"
    )
    archive = _git(repository, "archive", "--format=tar", commit)
    assert archive.returncode == 0, archive.stderr.decode()
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--extract", f"--directory={folder}"], input=archive.stdout, check=True)
    return folder


def bring_in(folder: Path) -> Version:
    """Builds its image as its own `make images` does, and imports it into every node."""
    done = subprocess.run(
        [sys.executable, "-m", "localkube", "images"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "tests" / "cluster"), "PROVIDER": "local"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    said = BUILT.search(done.stdout)
    assert said, f"no image of {folder}: {done.stdout}{done.stderr}"
    return Version(folder, said[1])


def schemas_of(crds: list[Json]) -> Json:
    return {
        f"{crd['metadata']['name']}/{version['name']}": version["schema"]["openAPIV3Schema"]
        for crd in crds
        for version in crd["spec"]["versions"]
    }


def _git(repository: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
