"""The operator's image is reproducible."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from localkube import operator_image

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

UNCHECKED_HASH = 1
"""In a compiled module's head: its source is known by its hash, and never looked at."""


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.verify
def test_dependencies_built_twice_have_the_same_layer(tmp_path: Path) -> None:
    """From the index of packages on; one of the two may have been built long ago."""
    before = operator_image.dependencies("app")

    operator_image.make_dependencies(tmp_path, "app")

    assert digest(tmp_path / "layer.tar") == digest(before / "layer.tar")


def test_an_image_built_twice_has_the_same_digest() -> None:
    image = operator_image.assemble()
    before = digest(image.archive)
    image.archive.unlink()

    again = operator_image.assemble()

    assert again.names == image.names
    assert digest(again.archive) == before


def test_compiled_modules_are_not_compiled_again() -> None:
    """Those checked by the time of their source would be compiled again at every start."""
    compiled = list((operator_image.dependencies("app") / "files").rglob("*.pyc"))
    kinds = {struct.unpack("<I", path.read_bytes()[4:8])[0] for path in compiled}

    assert len(compiled) > 1000
    assert kinds == {UNCHECKED_HASH}
