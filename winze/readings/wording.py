"""How measures, places and numbers are written in figures, tables and sentences."""

from __future__ import annotations

import math

from winze.measure.registry import number_named
from winze.place import Place


def label(measure: str) -> str:
    """The name of a measure in words, as its entry in the registry has it."""
    return number_named(measure).words


def data_name(name: str) -> str:
    """A data set as figures call it: of many classes their number, not their list.

    >>> data_name("tinyimagenet100[26,86,2,55,75,93,16,73,54,95]")
    'tinyimagenet100, 10 classes'
    >>> data_name("digits[5-9]")
    'digits[5-9]'
    """
    whole, _, classes = name.partition("[")
    count = len(classes.split(","))
    return f"{whole}, {count} classes" if count > 4 and "-" not in classes else name


def speed(share: float) -> str:
    """How much faster, from the share of the time that is left; within 5 % is as fast."""
    if share > 1.05:
        return f"{share:.1f}x slower" if share >= 1.1 else f"{100 * (share - 1):.0f} % slower"
    return f"{1 / share:.1f}x faster" if share < 0.95 else "as fast"


def speed_up(value: float, low: float, high: float) -> str:
    """How many times faster, with the interval of it; one that holds 1 shows no clear change."""
    spread = f"{low:.1f}x to {high:.1f}x"
    if low <= 1 <= high:
        return f"no clear change in speed ({spread})"
    return f"{value:.1f}x faster ({spread})" if value > 1 else f"{1 / value:.1f}x slower ({spread})"


def number(value: float) -> str:
    """Four significant digits at most, thousands apart; a gap is a dash."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """A share as percent with one digit, which 100 % does not need."""
    text = f"{100 * share:.1f}"
    return f"{text.removesuffix('.0')} %"


def points(gain: float) -> str:
    """A difference of accuracies in percentage points: whole from 10 on, one digit below."""
    size = abs(100 * gain)
    return f"{100 * gain:+.0f}" if size >= 9.95 else f"{100 * gain:+.1f}"


def short(name: str, most: int = 30) -> str:
    """A long name without its middle: the end of a module's name says most."""
    if len(name) <= most:
        return name
    head = (most - 1) // 3
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def layer(place: Place) -> str:
    """`layer 8, `features.22`: printed numbers begin at 1."""
    return f"layer {place.index + 1}, `{place.name}`"
