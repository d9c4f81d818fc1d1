"""The supported versions of etcd, and how versions are parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful.versions import (
    DEFAULT_VERSION,
    FLOORS,
    Version,
    is_supported,
    made_for,
    parse_version,
    reported_version,
    supported_in_words,
)


@pytest.mark.parametrize(
    ("text", "supported"),
    [
        ("3.1.8", False),
        ("3.2.13", False),
        ("3.4.45", False),
        ("3.5.0", False),
        ("3.5.31", False),
        ("3.5.32", True),
        ("3.5.33", True),
        ("3.5.999999", True),
        ("3.6.0", False),
        ("3.6.11", False),
        ("3.6.12", True),
        ("3.6.32", True),
        ("3.7.0", False),
        ("3.7.1", True),
        ("3.7.3", True),
        ("3.8.0", False),
        ("3.8.99", False),
        ("2.7.3", False),
        ("4.7.3", False),
        ("0.0.0", False),
    ],
)
def test_each_minor_has_a_lowest_supported_patch(text: str, supported: bool) -> None:
    version = parse_version(text)

    assert version is not None
    assert is_supported(version) is supported


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.6.14", "3.6.14"),
        ("v3.6.14", "3.6.14"),
        ("3.6.14-acme.1", "3.6.14"),
        ("3.6.14+git.5", "3.6.14"),
        ("3.6.0-rc.1", "3.6.0"),
        ("3.6", "None"),
        ("acme-3.6.14", "None"),
        ("3.6.1234567", "None"),
        ("", "None"),
    ],
)
def test_the_version_reported_by_a_member_may_have_the_suffix_of_a_private_build(
    text: str, version: str
) -> None:
    assert str(reported_version(text)) == version


def test_the_lowest_patches_and_the_default_are_supported() -> None:
    default = parse_version(DEFAULT_VERSION)

    assert default is not None
    assert is_supported(default)
    assert all(is_supported(floor) for floor in FLOORS)


def test_versions_compare_by_number() -> None:
    assert Version(3, 7, 10) > Version(3, 7, 9)
    assert Version(3, 10, 0) > Version(3, 9, 99)


@given(
    st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 999_999), st.sampled_from(["", "v"])
)
def test_a_version_is_parsed_from_its_text(major: int, minor: int, patch: int, v: str) -> None:
    version = Version(major, minor, patch)

    assert parse_version(f"{v}{version}") == version


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "3.7",
        "3.7.",
        ".7.3",
        "3.7.3.4",
        "3.7.3-rc.1",
        "3.7.3+x",
        "V3.7.3",
        "vv3.7.3",
        " 3.7.3",
        "3.7.3 ",
        "3.7.3\n",
        "3.-7.3",
        "3.7.x",
        "\u0663.\u0667.\u0663",
        "latest",
        "3.7." + "9" * 5000,
    ],
)
def test_other_text_is_no_version(text: str) -> None:
    assert parse_version(text) is None


@given(st.text(max_size=16) | st.from_regex(r"v?\d{1,5}(\.\d{1,5}){2}", fullmatch=True))
def test_any_text_is_parsed_as_a_version_or_none(text: str) -> None:
    version = parse_version(text)

    assert version is None or parse_version(str(version)) == version


def test_the_supported_versions_are_described_in_words() -> None:
    assert supported_in_words() == "3.5.32+, 3.6.12+, 3.7.1+"


@pytest.mark.parametrize(
    ("template_hash", "image", "version"),
    [
        ("0123456789abcdef-3.7.3", "quay.io/coreos/etcd:v3.7.3", Version(3, 7, 3)),
        ("0123456789abcdef-3.7.3-Managed", "mirror.example/etcd:v1.2.3", Version(3, 7, 3)),
        ("0123456789abcdef-3.7.3-a-b-c", "mirror.example/etcd@sha256:01", Version(3, 7, 3)),
        ("", "quay.io:443/coreos/etcd:v3.7.3", Version(3, 7, 3)),
        ("of before", "mirror.example/etcd:v3.7.3@sha256:01", Version(3, 7, 3)),
        ("0123456789abcdef", "quay.io:443/coreos/etcd", None),
        ("", "", None),
    ],
)
def test_the_version_of_a_pod_is_known_even_if_admission_rewrites_its_image(
    template_hash: str, image: str, version: Version | None
) -> None:
    assert made_for(template_hash, image) == version
