"""Which versions of etcd this operator runs, and which steps between them etcd allows.

The floors are the patches that etcd's own upgrade guides demand before the next minor, and that
lack none of the fixes for membership this operator relies on (etcd's CHANGELOG).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,6})", re.ASCII)
_HEAD: Final = re.compile(_FORM.pattern + r"(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of etcd; compares as etcd's numbers do."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


FLOORS: Final = (Version(3, 5, 32), Version(3, 6, 12), Version(3, 7, 1))
DEFAULT_VERSION: Final = "3.7.3"


@lru_cache(maxsize=64)
def parse_version(text: str) -> Version | None:
    """The version in `3.7.3` or `v3.7.3`; None for anything else.

    Kept, as one look at a cluster asks some ten times for one and the same.
    """
    match = _FORM.fullmatch(text)
    return Version(int(match[1]), int(match[2]), int(match[3])) if match else None


@lru_cache(maxsize=64)
def reported_version(text: str) -> Version | None:
    """The version that a member says it runs. A build of one's own may add to it, as in
    `3.6.14-acme.1`, and comes from an image whose tag is the number alone."""
    match = _HEAD.match(text)
    return parse_version(match[0]) if match else None


def made_for(template_hash: str, image: str) -> Version | None:
    """The version that a pod was made to run, by its annotation (`EtcdCluster.template_hash`).

    Its image says so only as long as nobody puts another in its place: admission may name a mirror
    in new pods, or a digest.
    """
    _, _, made_of = template_hash.partition("-")
    tag = image.partition("@")[0].rpartition(":")[2]
    return parse_version(made_of.partition("-")[0]) or parse_version(tag)


def is_supported(version: Version) -> bool:
    """Whether it is a floor or a newer patch of the same minor."""
    return any(
        version.major == floor.major and version.minor == floor.minor and version >= floor
        for floor in FLOORS
    )


def supported_in_words() -> str:
    """For messages: `3.5.32+, 3.6.12+, 3.7.1+`."""
    return ", ".join(f"{floor.major}.{floor.minor}.{floor.patch}+" for floor in FLOORS)
