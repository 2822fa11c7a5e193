"""The verdict on a claim: a word, the numbers behind it, and a sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from winze.readings import Point
from winze.readings.wording import number

SUPPORTED, CONTRADICTED, MIXED = "supported", "contradicted", "mixed"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
WORDS = (SUPPORTED, CONTRADICTED, MIXED, INCONCLUSIVE, NOT_RUN)
LEAST = 3  # seeds below which a statement that depends on chance is inconclusive
NAN = math.nan


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval, from `n` seeds; `effect` is Cohen's d of paired differences."""

    estimate: float
    low: float
    high: float
    n: int
    effect: float = NAN

    def __str__(self) -> str:
        ends = f" [{number(self.low)}, {number(self.high)}]" if math.isfinite(self.low + self.high) else ""
        return f"{number(self.estimate)}{ends}"


@dataclass(frozen=True)
class Region:
    """The values for which a claim holds; with `open` its edges belong to neither side."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def word(self, interval: Interval, least: int = LEAST) -> str:
        """Supported where the interval lies wholly inside, contradicted where it lies wholly outside."""
        if interval.n < least or math.isnan(interval.low) or math.isnan(interval.high):
            return INCONCLUSIVE
        inside = self.low <= interval.low and interval.high <= self.high
        if self.open:
            inside = self.low < interval.low and interval.high < self.high
        if inside:
            return SUPPORTED
        outside = interval.high < self.low or interval.low > self.high
        return CONTRADICTED if outside else INCONCLUSIVE


@dataclass(frozen=True)
class Verdict:
    """The verdict on one cell of a claim. `values` has the numbers by point and seed."""

    word: str
    sentence: str
    estimate: float = NAN
    low: float = NAN
    high: float = NAN
    n: int = 0
    effect: float = NAN
    values: Mapping[Point, Mapping[int, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.word}: {self.sentence}"


def row_word(cells: Iterable[Verdict]) -> str:
    """The verdict on a claim from those on its cells.

    Supported where no cell is contradicted and most of those that ran are supported, contradicted the other way round,
    mixed where cells disagree, not run where none ran, else inconclusive.
    """
    counted = Counter(one.word for one in cells)
    ran = counted.total() - counted[NOT_RUN]
    if not ran:
        return NOT_RUN
    if counted[SUPPORTED] and counted[CONTRADICTED]:
        return MIXED
    for word in (SUPPORTED, CONTRADICTED):
        if 2 * counted[word] > ran:
            return word
    return INCONCLUSIVE


def tally(words: Iterable[str]) -> str:
    """The number of verdicts of each kind, as text."""
    counted = Counter(words)
    return ", ".join(f"{counted[word]} {word}" for word in WORDS if counted[word]) or "no claims"


def student(values: Sequence[float]) -> Interval:
    """The mean of paired differences (or of levels) over seeds, with Student's 95 % interval.

        mean ± t(.975, n - 1) s / √n,   d = mean / s

    One value has no interval; equal values have one of length zero.
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=np.float64)
    n, mean = len(array), float(array.mean())
    if abs(mean) <= 1e-12 * np.abs(array).max(initial=0.0):  # rounding of a mean of exactly zero
        mean = 0.0
    if n < 2:
        return Interval(mean, -math.inf, math.inf, n)
    spread = float(array.std(ddof=1))
    half = float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
    without = math.copysign(math.inf, mean) if mean else 0.0
    return Interval(mean, mean - half, mean + half, n, mean / spread if spread > 0 else without)
