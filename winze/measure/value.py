"""A number with the reason why it is missing, and the interval of a share."""

from __future__ import annotations

import math

CONSTANT = "constant features: every sample is the same"


class Value(float):
    """A float with a `note`, empty where the number needs no comment.

    >>> Value(2.5)
    2.5
    >>> missing(CONSTANT).note
    'constant features: every sample is the same'
    """

    note: str

    def __new__(cls, number: float, note: str = "") -> Value:
        value = super().__new__(cls, number)
        value.note = note
        return value


def missing(why: str) -> Value:
    """Give NaN with its reason."""
    return Value(math.nan, why)


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n samples (Wilson, 1927)."""
    z = 1.959963984540054
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)
