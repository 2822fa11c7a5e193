"""A claim is a sentence of the paper with a check; a check says what is compared, and where the truth would lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from winze.lab.verdicts import LEAST, NOT_ENOUGH, NOT_RUN, Interval, Region, Verdict, student
from winze.readings import Readings, ReadingsError
from winze.report.names import number

ROUNDING = 1e-12  # equal values have no slope, which sums of floats give as 1e-17
Quantity = Callable[[Readings], float]
Quantities = Mapping[str, Quantity]
Runs = Mapping[str, Mapping[int, Readings]]
"""What was read, by arm and seed."""


@runtime_checkable
class Check(Protocol):
    """What a claim rests on: the arms it looks at, the quantity it reads there (None: its own), and its judgement."""

    @property
    def arms(self) -> tuple[str, ...]: ...
    @property
    def quantity(self) -> str | None: ...
    def judge(self, runs: Runs, quantities: Quantities) -> Verdict: ...


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with its check, and the paper's own number.

    `scales`: where it is judged (None: at every scale that runs its arms). `departure`: in what the check differs from
    the paper, such as a stand-in for data; by scale where that depends on it.
    """

    text: str
    check: Check
    paper: str | float = ""
    scales: tuple[str, ...] | None = None
    departure: str | Mapping[str, str] = ""

    def departure_at(self, scale: str) -> str:
        """In what the check differs from the paper at this scale."""
        return self.departure if isinstance(self.departure, str) else self.departure.get(scale, "")


def verdict(claim: Claim, runs: Runs, quantities: Quantities | None = None) -> Verdict:
    """Judge a claim by what was read; a claim whose arms were not run reads `not run`."""
    absent = [arm for arm in claim.check.arms if not runs.get(arm)]
    if absent:
        return Verdict(NOT_RUN, f"there are no readings of {', '.join(absent)}")
    return claim.check.judge(runs, quantities or {})


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of one quantity over arms, seed by seed: Σ w q(arm), of logarithms with `ratio`.

    Its mean over the seeds that all arms share has Student's 95 % interval. A `certain` statement has no chance in
    it: one seed is enough, and the worst seed decides.
    """

    quantity: str
    arms: tuple[str, ...]
    weights: tuple[float, ...]
    region: Region
    what: str
    ratio: bool = False
    certain: bool = False

    def judge(self, runs: Runs, quantities: Quantities) -> Verdict:
        if self.quantity not in quantities:
            raise ValueError(f"there is no quantity {self.quantity!r}; there are {', '.join(quantities) or 'none'}")
        values, unread = _values(quantities[self.quantity], {arm: runs[arm] for arm in self.arms})
        shared = sorted(set.intersection(*(set(one) for one in values.values())))
        if not shared:
            why = next(iter(unread.values()), f"{' and '.join(self.arms)} share no seed")
            return Verdict(NOT_RUN, why, values=values)
        values = {arm: {seed: one[seed] for seed in shared} for arm, one in values.items()}
        for arm, one in values.items():
            for seed, value in one.items():
                if not math.isfinite(value) or (self.ratio and value <= 0):
                    note = getattr(value, "note", "") or ("a ratio wants positive numbers" if self.ratio else "")
                    why = f"{self._name} of {arm}, seed {seed}, is {number(value)}{': ' if note else ''}{note}"
                    return Verdict(NOT_ENOUGH, why, n=len(shared), values=values)
        return self._judged(values, unread)

    @property
    def _name(self) -> str:
        return self.quantity.replace("_", " ")

    def _judged(self, values: dict[str, dict[int, float]], unread: dict[tuple[str, int], str]) -> Verdict:
        table = np.array([list(one.values()) for one in values.values()], dtype=np.float64)
        compared, weights = np.log(table) if self.ratio else table, np.array(self.weights)
        per_seed = weights @ compared
        per_seed[np.abs(per_seed) < ROUNDING * (np.abs(weights) @ np.abs(compared))] = 0.0
        interval = student(per_seed.tolist())
        if self.certain:
            worst = float(per_seed.min())
            interval = Interval(worst, worst, worst, interval.n)
        elif len(self.weights) == 1:
            interval = replace(interval, effect=student((per_seed - self._claimed).tolist()).effect)
        word = self.region.word(interval, 1 if self.certain else LEAST)
        shown = interval
        if self.ratio:
            ends = (interval.estimate, interval.low, interval.high)
            middle, low, high = (math.exp(end) if end < 700 else math.inf for end in ends)
            shown = Interval(middle, low, high, interval.n, interval.effect)
        means = ", ".join(f"{arm} {number(float(row.mean()))}" for arm, row in zip(values, table, strict=True))
        counted = f"{interval.n} seed{'s' if interval.n > 1 else ''}"
        parts = [f"{self._name}: {means} ({counted})"]
        if len(self.arms) > 1 and not self.certain:
            parts.append(f"{self.what} {shown}")
        elif not self.certain and interval.n > 1:
            parts.append(f"95 % [{number(shown.low)}, {number(shown.high)}]")
        if interval.n < LEAST and not self.certain:
            parts.append(f"below {LEAST} seeds nothing is certain")
        parts += [f"{arm}, seed {seed}: {why}" for (arm, seed), why in unread.items()]
        return Verdict(word, "; ".join(parts), shown.estimate, shown.low, shown.high, shown.n, shown.effect, values)

    @property
    def _claimed(self) -> float:
        """The level that is claimed: the middle of the region, or its one edge; effects are distances from it."""
        edges = [edge for edge in (self.region.low, self.region.high) if math.isfinite(edge)]
        return sum(edges) / len(edges)


def lower(quantity: str, arm: str, than: str, by: float = 0.0) -> Contrast:
    """The quantity of one arm is lower than another's, by more than `by`."""
    return Contrast(quantity, (arm, than), (1.0, -1.0), Region(high=-by, open=True), "difference")


def higher(quantity: str, arm: str, than: str, by: float = 0.0) -> Contrast:
    """The quantity of one arm is higher than another's, by more than `by`."""
    return Contrast(quantity, (arm, than), (1.0, -1.0), Region(low=by, open=True), "difference")


def level(quantity: str, arm: str, value: float, within: float) -> Contrast:
    """The quantity is `value`, give or take `within`."""
    return Contrast(quantity, (arm,), (1.0,), Region(value - within, value + within), "level")


def at_most(quantity: str, arm: str, value: float) -> Contrast:
    """The quantity is no more than `value`."""
    return Contrast(quantity, (arm,), (1.0,), Region(high=value), "level")


def at_least(quantity: str, arm: str, value: float) -> Contrast:
    """The quantity is no less than `value`."""
    return Contrast(quantity, (arm,), (1.0,), Region(low=value), "level")


def share(quantity: str, arm: str, of: str, *, at_least: float | None = None, at_most: float | None = None) -> Contrast:
    """The quantity of one arm, divided by another's, lies between these bounds."""
    if at_least is None and at_most is None:
        raise ValueError(f"share of {quantity!r}: give at_least= or at_most=, or both")
    low = -math.inf if at_least is None else math.log(at_least)
    high = math.inf if at_most is None else math.log(at_most)
    return Contrast(quantity, (arm, of), (1.0, -1.0), Region(low, high), "ratio", ratio=True)


def rises(quantity: str, arms: Sequence[str], at: Sequence[float] | None = None) -> Contrast:
    """The quantity grows over ordered arms: its least-squares slope over their order, or over `at`, is above 0."""
    return Contrast(quantity, tuple(arms), _slope(arms, at), Region(low=0.0, open=True), "slope")


def falls(quantity: str, arms: Sequence[str], at: Sequence[float] | None = None) -> Contrast:
    """The quantity shrinks over ordered arms: its least-squares slope over their order, or over `at`, is below 0."""
    return Contrast(quantity, tuple(arms), _slope(arms, at), Region(high=0.0, open=True), "slope")


def holds(quantity: str, arm: str) -> Contrast:
    """A statement without chance in it, whose quantity is 1 where it is true; one seed is enough."""
    return Contrast(quantity, (arm,), (1.0,), Region(low=1.0), "truth", certain=True)


def _slope(arms: Sequence[str], at: Sequence[float] | None) -> tuple[float, ...]:
    x = np.arange(len(arms), dtype=np.float64) if at is None else np.asarray(at, dtype=np.float64)
    if len(x) != len(arms) or len(set(x.tolist())) < 2:
        raise ValueError(f"a slope wants two arms or more, each at a place of its own; got {list(arms)} at {at}")
    x = x - x.mean()
    return tuple((x / (x**2).sum()).tolist())


def _values(quantity: Quantity, runs: Runs) -> tuple[dict[str, dict[int, float]], dict[tuple[str, int], str]]:
    """The quantity by arm and seed, and why it is missing where it is."""
    values: dict[str, dict[int, float]] = {arm: {} for arm in runs}
    unread: dict[tuple[str, int], str] = {}
    for arm, seeds in runs.items():
        for seed, readings in sorted(seeds.items()):
            try:
                values[arm][seed] = quantity(readings)
            except ReadingsError as error:
                unread[arm, seed] = str(error)
    return values, unread
