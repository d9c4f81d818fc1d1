"""An older version of the operator from git, for the end-to-end test of an upgrade."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.older import check_out


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, whose only file has been changed since."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "chart").write_text("of then")
    git(folder, "init", "--quiet")
    git(folder, "add", "chart")
    git(folder, "commit", "--quiet", "--message=First")
    (folder / "chart").write_text("of now")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    done = subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_files_are_those_of_the_commit(repository: Path, tmp_path: Path):
    commit = git(repository, "rev-parse", "HEAD")

    folder = check_out(repository, commit, tmp_path / "older")

    assert (folder / "chart").read_text() == "of then"
    assert (repository / "chart").read_text() == "of now"


def test_in_a_clone_without_the_commit_the_error_says_to_fetch_the_whole_history(
    repository: Path, tmp_path: Path
):
    with pytest.raises(AssertionError, match=r"not in this clone. Fetch the whole history"):
        check_out(repository, "0123456789" * 4, tmp_path / "older")
