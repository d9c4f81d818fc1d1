"""Writes what the operator's image is made of, as CycloneDX, from requirements/operator.lock.

    python docs/make_sbom.py build/sbom.cdx.json [var/lib/dpkg/status of the image's base]

Same input, same bytes: no time, no serial number.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "operator.lock"

_PACKAGE = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)")
_FIELD = re.compile(r"^([A-Za-z-]+): (.*)$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, Any]]:
    """One for each locked package, with the hashes of all files that may stand for it."""
    found: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if match := _PACKAGE.match(line):
            name, version = match.groups()
            purl = f"pkg:pypi/{name}@{version}"
            found.append(
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                    "externalReferences": [],
                }
            )
        if found:
            found[-1]["externalReferences"] += [
                {
                    "type": "distribution",
                    "url": f"https://pypi.org/project/{found[-1]['name']}/{found[-1]['version']}/",
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                }
                for digest in _HASH.findall(line)
            ]
    return found


def debian_components(status: str) -> list[dict[str, Any]]:
    """One for each package that is installed, by dpkg's own record (`man 5 deb-control`)."""
    fields = (dict(_FIELD.findall(stanza)) for stanza in status.split("\n\n"))
    return [_debian(one) for one in fields if one.get("Status", "").endswith(" installed")]


def _debian(package: dict[str, str]) -> dict[str, Any]:
    name, version, architecture = (package[key] for key in ("Package", "Version", "Architecture"))
    purl = f"pkg:deb/debian/{name}@{quote(version, safe='.-~')}?arch={architecture}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill(lock: str, status: str = "") -> dict[str, Any]:
    """Of the packages that are locked, and of those of the base where its record is given."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "etcd-operator"}},
        "components": components(lock) + debian_components(status),
    }


def main(place: Path, status: Path | None = None) -> None:
    found = bill(LOCK.read_text(), status.read_text() if status else "")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
