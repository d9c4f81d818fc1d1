"""Writes what the operator's image is made of, as CycloneDX, from requirements/operator.lock.

`python docs/make_sbom.py build/sbom.cdx.json`. Same lock, same bytes: no time, no serial number.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "operator.lock"

_PACKAGE = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)")
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


def bill(lock: str) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "etcd-operator"}},
        "components": components(lock),
    }


def main(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(bill(LOCK.read_text()), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
