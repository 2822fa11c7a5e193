"""What evidence says about a claim: a word, the numbers behind it, and a sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from winze.report.names import number

BORNE_OUT, NOT_BORNE_OUT = "borne out", "not borne out"
NOT_ENOUGH, NOT_RUN = "not enough evidence", "not run"
WORDS = (BORNE_OUT, NOT_BORNE_OUT, NOT_ENOUGH, NOT_RUN)
LEAST = 3  # seeds below which nothing that depends on chance is certain
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
    """Where the truth lies if a claim holds; with `open` its edges belong to neither side."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def word(self, interval: Interval, least: int = LEAST) -> str:
        """Borne out where the interval lies wholly inside, not borne out where it lies wholly outside."""
        if interval.n < least or math.isnan(interval.low) or math.isnan(interval.high):
            return NOT_ENOUGH
        inside = self.low <= interval.low and interval.high <= self.high
        if self.open:
            inside = self.low < interval.low and interval.high < self.high
        if inside:
            return BORNE_OUT
        outside = interval.high < self.low or interval.low > self.high
        return NOT_BORNE_OUT if outside else NOT_ENOUGH


@dataclass(frozen=True)
class Verdict:
    """What became of a claim. `values` has each arm's numbers by seed."""

    word: str
    sentence: str
    estimate: float = NAN
    low: float = NAN
    high: float = NAN
    n: int = 0
    effect: float = NAN
    values: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.word}: {self.sentence}"


def tally(verdicts: Iterable[Verdict]) -> str:
    """How many verdicts of each kind, in words."""
    counted = Counter(verdict.word for verdict in verdicts)
    return ", ".join(f"{counted[word]} {word}" for word in WORDS if counted[word]) or "no claims"


def student(values: Sequence[float]) -> Interval:
    """The mean of paired differences (or of levels) over seeds, with Student's 95 % interval.

        mean ± t(.975, n - 1) s / √n,   d = mean / s

    One value has no interval; equal values have one of length zero.
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=np.float64)
    n, mean = len(array), float(array.mean())
    if n < 2:
        return Interval(mean, -math.inf, math.inf, n)
    spread = float(array.std(ddof=1))
    half = float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n, _effect(mean, spread))


def _effect(mean: float, spread: float) -> float:
    if spread > 0:
        return mean / spread
    return math.copysign(math.inf, mean) if mean else 0.0
