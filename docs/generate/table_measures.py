"""The table of measures, from the registry."""

from math import isinf
from pathlib import Path

from winze.measure.registry import OURS, Measure, Number


def measures(_: Path) -> str:
    """One row per number: the measure that gives it, its bounds, which way is better, and what it is."""
    head = "| number | asked for by | bounds | better | what it is |\n|---|---|---|---|---|\n"
    return head + "".join(_row(one, number) for one in OURS.values() for number in one.numbers)


def _row(measure: Measure, number: Number) -> str:
    low, high = ("∞" if isinf(end) else f"{end:g}" for end in number.bounds)
    better = number.better or "-"
    return f"| `{number.name}` | `{measure.name}` | {low} to {high} | {better} | {number.meaning} |\n"
