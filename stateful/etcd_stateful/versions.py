"""The etcd versions that this operator supports.

A floor is the oldest supported patch of a minor. It is at least the patch that etcd's upgrade guide
requires before the next minor, and it has the membership fixes that this operator relies on (etcd's
CHANGELOG).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,6})", re.ASCII)
_HEAD: Final = re.compile(_FORM.pattern + r"(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of etcd, ordered by its numbers."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Minor(NamedTuple):
    """A minor of etcd, such as 3.6."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


FLOORS: Final = (Version(3, 5, 32), Version(3, 6, 12), Version(3, 7, 1))
DEFAULT_VERSION: Final = "3.7.3"

LONGEST_VERSION: Final = 64
"""Characters of a version in a status. The CRDs allow no more, and the API server would refuse the
whole status; a private build of etcd may report a longer one."""


@lru_cache(maxsize=64)
def parse_version(text: str) -> Version | None:
    """The version in `3.7.3` or `v3.7.3`; None for anything else.

    Cached, because one pass over a cluster parses the same version about ten times.
    """
    match = _FORM.fullmatch(text)
    return Version(int(match[1]), int(match[2]), int(match[3])) if match else None


@lru_cache(maxsize=64)
def reported_version(text: str) -> Version | None:
    """The version that a member reports. A custom build may have a suffix, as in `3.6.14-acme.1`,
    while the tag of its image is the number alone."""
    match = _HEAD.match(text)
    return parse_version(match[0]) if match else None


def minor_of(version: Version) -> Minor:
    return Minor(version.major, version.minor)


def minor_in(text: str) -> Minor | None:
    """The minor in `3.6`, `3.6.16`, `v3.6.16` or `3.6.16-acme.1`; None for anything else."""
    version = reported_version(text if text.count(".") > 1 else f"{text}.0")
    return minor_of(version) if version else None


def number_of(text: str) -> str:
    """The reported version without a suffix, as in the tag of its image; `text` if it is none."""
    return str(reported_version(text) or text)


def made_for(template_hash: str, image: str) -> Version | None:
    """The version that a pod was made to run, from its annotation (`EtcdCluster.template_hash`).

    The tag of the image is only a fallback: admission may replace the image of new pods by a mirror
    or a digest.
    """
    _, _, made_of = template_hash.partition("-")
    tag = image.partition("@")[0].rpartition(":")[2]
    return parse_version(made_of.partition("-")[0]) or parse_version(tag)


def is_supported(version: Version) -> bool:
    """Whether the version is a floor or a newer patch of the same minor."""
    return any(minor_of(version) == minor_of(floor) and version >= floor for floor in FLOORS)


def supported_in_words() -> str:
    """For messages: `3.5.32+, 3.6.12+, 3.7.1+`."""
    return ", ".join(f"{floor}+" for floor in FLOORS)
