"""The SBOM contains everything in the lock."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCK = (ROOT / "requirements" / "operator.lock").read_text()

_spec = importlib.util.spec_from_file_location("make_sbom", ROOT / "docs" / "make_sbom.py")
assert _spec
assert _spec.loader
make_sbom = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_sbom)


def test_every_locked_package_is_in_the_sbom_with_its_hashes() -> None:
    found = make_sbom.bill(LOCK)["components"]
    pinned = re.findall(r"^(\S+)==(\S+)", LOCK, re.MULTILINE)
    hashes = [
        one for each in found for place in each["externalReferences"] for one in place["hashes"]
    ]

    assert [(one["name"], one["version"]) for one in found] == pinned
    assert len(hashes) == LOCK.count("--hash=sha256:")
    assert all(one["externalReferences"] for one in found)


def test_a_reference_is_unique_and_names_the_package() -> None:
    found = make_sbom.bill(LOCK)["components"]
    references = [one["bom-ref"] for one in found]

    assert len(set(references)) == len(references)
    assert "pkg:pypi/kopf@" in " ".join(references)


STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u13
Description: GNU C Library
 Version: of a continued line

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: adduser
Status: install ok installed
Architecture: all
Version: 1:3.134
"""


def test_packages_of_the_base_image_are_in_the_sbom_if_its_record_is_given() -> None:
    python = make_sbom.bill(LOCK)["components"]
    found = make_sbom.bill(LOCK, STATUS)["components"]

    assert found[: len(python)] == python
    assert [one["purl"] for one in found[len(python) :]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64",
        "pkg:deb/debian/adduser@1%3A3.134?arch=all",
    ]
    assert [one["version"] for one in found[len(python) :]] == ["2.36-9+deb12u13", "1:3.134"]
