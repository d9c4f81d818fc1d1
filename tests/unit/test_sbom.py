"""The bill of materials says what the lock says, all of it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements" / "operator.lock").read_text()

_spec = importlib.util.spec_from_file_location("make_sbom", ROOT / "docs" / "make_sbom.py")
assert _spec
assert _spec.loader
make_sbom = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_sbom)


def test_every_locked_package_is_in_it_with_its_hashes() -> None:
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
