"""Kubernetes quantities: parsed, to compare and convert sizes."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal
from typing import Final

_FORM: Final = re.compile(
    r"([+-]?(?:[0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64}))(?:(n|u|m|k|Ki|[MGTPE]i?)|([eE][+-]?[0-9]{1,3}))?"
)
"""With more digits than the CRD admits, as the API server writes some values with more of them."""

_FACTORS: Final[dict[str | None, Decimal]] = {
    None: Decimal(1),
    "n": Decimal("0.000000001"),
    "u": Decimal("0.000001"),
    "m": Decimal("0.001"),
    "k": Decimal(1000),
    "Ki": Decimal(1024),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("MGTPE", start=2)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("MGTPE", start=2)},
}

_DIGITS: Final = Context(prec=200)
"""Enough for every value of the form above."""

_MOST_BINARY: Final = Decimal(2**63 - 1)
"""The API server stores no more than this of a quantity with a binary unit, such as `100Ei`."""

PLACES: Final = 9
"""How many decimal places the API server keeps."""


def parse_quantity(text: str) -> Decimal | None:
    """The value of a quantity such as `500m`, `2Gi` or `8589934592`; None for other text.

    As in Kubernetes, a value with more than PLACES decimal places is rounded away from zero.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    value = _DIGITS.multiply(Decimal(match[1] + (match[3] or "")), _FACTORS[match[2]])
    if match[2] and match[2].endswith("i"):
        value = min(value, _MOST_BINARY)
    return _rounded(value, PLACES)


def _rounded(value: Decimal, places: int) -> Decimal:
    """The value, away from zero where it has more decimal places."""
    moved = value.scaleb(places, _DIGITS).to_integral_value(ROUND_UP, _DIGITS)
    rounded = moved.scaleb(-places, _DIGITS)
    return value if rounded == value else rounded


def is_less(left: str, right: str) -> bool:
    """Whether `left` is less than `right`; False if either is not a quantity."""
    one, other = parse_quantity(left), parse_quantity(right)
    return one is not None and other is not None and one < other


def same_quantity(left: object, right: object, places: int = PLACES) -> bool:
    """Whether both are the same value once rounded to so many decimal places, however it is
    written: the API server stores `1000m` as `1`."""
    if not isinstance(left, str | int | float) or not isinstance(right, str | int | float):
        return False
    one, other = parse_quantity(str(left)), parse_quantity(str(right))
    if one is None or other is None:
        return False
    return _rounded(one, places) == _rounded(other, places)
