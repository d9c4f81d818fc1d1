"""Kubernetes quantities: every way to write them, and comparison of different spellings.

The API server stores a canonical spelling. If it were not recognised as the same value, the
operator would put the object back again and again.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful.api.quantity import parse_quantity, same_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("8589934592", "8589934592"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1n", "0.000000001"),
        ("1u", "0.000001"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("1M", "1000000"),
        ("1G", "1000000000"),
        ("1T", "1000000000000"),
        ("1P", "1000000000000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("1Mi", "1048576"),
        ("1Gi", "1073741824"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("5e-1", "0.5"),
        ("12e+6", "12000000"),
    ],
)
def test_every_spelling_has_its_value(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 Gi",
        "1Gi ",
        "1Gi\n",
        "\n1",
        "Gi",
        ".",
        "-",
        "1K",
        "1ki",
        "1mi",
        "1i",
        "1GiB",
        "1GB",
        "1Gi1",
        "1e",
        "1e3Gi",
        "0x10",
        "1_000",
        "1,5",
        "\u0661",
        "nan",
        "inf",
        "$(X)",
        "9" * 5000,
        "1e9999",
    ],
)
def test_any_other_text_has_no_value(text: str) -> None:
    assert parse_quantity(text) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("0.0005", "500u"),
        ("1024Mi", "1Gi"),
        ("1Gi", "1073741824"),
        ("1Gi", 1073741824),
        (2, "2"),
        ("1.5Gi", "1536Mi"),
        ("5e-1", "500e-3"),
        ("1e3", "1k"),
        ("+2", "2"),
        # The API server rounds it up, and the StatefulSet was written over for ever.
        ("0.3333333333333333", "333333334n"),
        ("0.3333333333Gi", "357913941297541940n"),
        ("-0.1n", "-1n"),
        ("1e-20", "1n"),
        # As many digits as the CRD lets in: Decimal(1) / 3, and what the API server makes of it.
        ("0.3333333333333333333333333333", "333333334n"),
        ("0.472803852808414852538885Ei", "545105729363791863963005174n"),
        # It caps those with a binary unit.
        ("100Ei", "9223372036854775807"),
        ("100E", "100e18"),
        # As stored before the CRD had a schema.
        (0.5, "500m"),
        (1e-07, "100n"),
    ],
)
def test_two_spellings_of_one_value_are_equal(left: object, right: object) -> None:
    assert same_quantity(left, right)
    assert same_quantity(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", "2"),
        ("0.3333333333333333", "333333333n"),
        ("1G", "1Gi"),
        ("1m", "1M"),
        ("1", None),
        (None, None),
        ("x", "x"),
        ("", ""),
        ([], []),
        ({"a": 1}, {"a": 1}),
        (0.5, "5m"),
        (float("nan"), "0"),
        ("8Ei", "8E"),
    ],
)
def test_other_values_are_not_equal(left: object, right: object) -> None:
    assert not same_quantity(left, right)


@pytest.mark.parametrize("text", ["1e999", "99999999999999999999.99999999999999999999E", "1e-999"])
def test_no_value_is_too_long_to_be_rounded(text: str) -> None:
    assert parse_quantity(text) is not None


@given(st.text(max_size=12))
def test_any_text_has_a_value_or_none(text: str) -> None:
    value = parse_quantity(text)

    assert value is None or value.is_finite()


@given(st.integers(0, 10**6), st.sampled_from(["", "k", "M", "Ki", "Mi", "Gi"]))
def test_a_thousand_thousandths_are_one(number: int, unit: str) -> None:
    whole = parse_quantity(f"{number}{unit}")

    assert whole is not None
    assert same_quantity(f"{whole * 1000}m", f"{number}{unit}")
