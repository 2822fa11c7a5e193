"""A number that can say why it is missing."""

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
