"""Images are reproducible, and match the Dockerfile."""

import hashlib
import json
import os
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from localkube import dockerfile, oci, operator_image
from localkube.shell import ClusterError


def archive(folder: Path, mtime: int) -> Path:
    folder.mkdir()
    program = folder / "program"
    program.write_text("echo")
    program.chmod(0o700)
    os.utime(program, (mtime, mtime))
    oci.write_layer(folder / "layer.tar", {"usr/bin/program": program})
    names = ["one/program:1", "two/program:1"]
    oci.write_archive(folder / "image.tar", names, [folder / "layer.tar"], {"Cmd": ["program"]})
    return folder / "image.tar"


def test_the_time_and_owner_of_a_file_do_not_matter(tmp_path: Path) -> None:
    first, second = archive(tmp_path / "a", 1), archive(tmp_path / "b", 2)
    assert first.read_bytes() == second.read_bytes()


def test_the_archive_holds_together(tmp_path: Path) -> None:
    with tarfile.open(archive(tmp_path / "a", 1)) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar.getmembers()}
        content = {name: file.read() for name, file in files.items() if file}
    for name, data in content.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    manifests = json.loads(content["index.json"])["manifests"]
    names = [each["annotations"]["io.containerd.image.name"] for each in manifests]
    assert names == ["one/program:1", "two/program:1"]
    assert len({each["digest"] for each in manifests}) == 1
    manifest = json.loads(content[f"blobs/{manifests[0]['digest'].replace(':', '/')}"])
    for blob in (manifest["config"], *manifest["layers"]):
        assert blob["size"] == len(content[f"blobs/{blob['digest'].replace(':', '/')}"])


def test_a_layer_has_the_folders_above_its_files(tmp_path: Path) -> None:
    archive(tmp_path / "a", 1)
    with tarfile.open(tmp_path / "a" / "layer.tar") as tar:
        assert [(each.name, each.mode) for each in tar.getmembers()] == [
            ("usr", 0o755),
            ("usr/bin", 0o755),
            ("usr/bin/program", 0o755),
        ]


def test_a_strict_umask_made_an_image_whose_user_could_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `umask 077`, which other pages ask for. A builder copies files with their modes."""
    before = os.umask(0o077)
    try:
        for name in ("files", "etcd_operator"):
            (tmp_path / name / "inner").mkdir(parents=True)
            (tmp_path / name / "inner" / "one.py").write_text("")
        (tmp_path / "files" / "program").touch(mode=0o700)
        monkeypatch.setattr(operator_image, "REPOSITORY", tmp_path)
        monkeypatch.setattr(operator_image, "PACKAGES", (tmp_path / "etcd_operator",))
        monkeypatch.setattr(operator_image, "dependencies", lambda _: tmp_path)
        monkeypatch.setattr(operator_image, "_compile", lambda _: None)
        operator_image.prepare_context()
    finally:
        os.umask(before)

    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "build").rglob("*")}
    assert found == {
        "image": 0o700,  # not copied itself
        **dict.fromkeys(("dependencies", "code", "etcd_operator", "inner", "program"), 0o755),
        "one.py": 0o644,
    }


def test_our_dockerfile_is_understood_whole() -> None:
    recipe = dockerfile.read(operator_image.DOCKERFILE.read_text())
    assert set(recipe.copies) == {operator_image.DEPENDENCIES, operator_image.CODE}
    assert recipe.config["Entrypoint"]
    assert recipe.config["User"] not in ("", "0", "root")


def test_the_image_says_what_it_is_as_the_project_and_the_chart_do() -> None:
    labels = dockerfile.read(operator_image.DOCKERFILE.read_text()).config["Labels"]
    root = operator_image.REPOSITORY
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((root / "charts" / "etcd-operator" / "Chart.yaml").read_text())

    assert labels == {
        "org.opencontainers.image.title": project["name"],
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.version": project["version"],
    }
    assert chart["appVersion"] == project["version"]


def test_a_word_that_would_be_lost_is_refused() -> None:
    with pytest.raises(ClusterError, match="RUN"):
        dockerfile.read("FROM base\nRUN make\n")
