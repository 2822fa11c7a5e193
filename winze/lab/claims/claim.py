"""A claim is a statement of a paper with its source and a check; a question is one of our own.

Claim("a smaller alpha_min lowers the rank", "fig. 7b", rises(last("effective_rank"), over="alpha"), each="blocks")
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from winze.lab.axes import PointGrid
from winze.lab.claims.quantities import Quantities, Quantity, resolved
from winze.lab.claims.verdict import INCONCLUSIVE, LEAST, NOT_RUN, Interval, Region, Verdict, row_word, student
from winze.readings import Array, Point, Readings, ReadingsError
from winze.readings.point import brief
from winze.readings.wording import number

ROUNDING = 1e-12  # the slope of equal values is 0, not the 1e-17 of rounding
HALF_LAYER = 0.5  # layers are integers: three equal ones do not make an interval of length 0
RunReadings = Mapping[Point, Mapping[int, Readings]]
"""Readings by point and seed."""
CellValues = Mapping[str, Any] | None
"""Values that replace those of a cell."""
PerCell = float | Mapping[Any, float]
"""One number for all cells, or one per value of the axes in `each` (a tuple of values where `each` names several)."""


class Check(ABC):
    """The test behind a claim.

    `quantity` is the number that it takes from each run (None where it takes several). `claimed` is what it claims: a
    mapping by the key of a cell, where cells without one are not judged, or one for all.
    """

    quantity: str | Quantity | None
    claimed: Any

    @property
    def names(self) -> Sequence[Mapping[str, str]]:
        """The cells that it makes of one, as values on an axis of its own."""
        return ({},)

    @property
    @abstractmethod
    def axes(self) -> tuple[str, ...]:
        """The axes along which it compares."""

    @abstractmethod
    def points(self, cell: Point, grid: PointGrid) -> tuple[Point, ...]:
        """The runs that one cell needs; none where the cell would be compared with itself."""

    @abstractmethod
    def judge(self, cell: Point, key: Any, grid: PointGrid, runs: RunReadings, quantities: Quantities) -> Verdict:
        """The verdict on one cell, whose values on the axes of `each` are `key`."""


@dataclass(frozen=True)
class Statement:
    """A check quantified over cells.

    `each`: axes of which each value is a cell; `only`: the cells that are judged, by their values on these axes (None:
    all). `at`: values that all cells share; any other axis is at its default. `paper`: the published number, one or one
    per cell. `scales`: the scales at which it is judged (None: every scale that runs its points). `post_hoc`: the
    reason, if it was written or sharpened after its readings were seen. `headline`: whether README shows it.
    """

    text: str
    check: Check
    each: str | tuple[str, ...] = ()
    at: Mapping[str, Any] = field(default_factory=dict)
    paper: str | float | Mapping[Any, str | float] = ""
    scales: tuple[str, ...] | None = None
    departure: str = ""
    post_hoc: str = ""
    only: Collection[Any] | None = None
    source: str = ""
    headline: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes whose values define the cells."""
        return (self.each,) if isinstance(self.each, str) else self.each

    def cells(self, grid: PointGrid) -> list[Point]:
        """The cells that a grid of points can judge: those of which it runs all points that the check needs."""
        seen = dict.fromkeys(
            Point({axis: point[axis] for axis in self.axes}) | self.at
            for point in grid.points
            if point.lies_at(self.at)
        )
        found = []
        for cell in (cell | name for cell in seen for name in self.check.names):
            asked = (self.check.claimed, self.only)
            if any(self.key(cell) not in one for one in asked if isinstance(one, Collection)):
                continue
            needed = self.check.points(cell, grid)
            if needed and all(point in grid for point in needed):
                found.append(cell)
        return found

    def key(self, cell: Point) -> Any:
        """The values of a cell on the axes of `each`: one value, or a tuple."""
        values = tuple(cell[axis] for axis in self.axes)
        return values[0] if len(values) == 1 else values

    def published(self, cell: Point) -> str | float:
        """The paper's number for a cell."""
        if not isinstance(self.paper, Mapping):
            return self.paper
        keys = (self.key(cell), *cell.without(*self.axes, *self.at).values())
        return next((self.paper[key] for key in keys if key in self.paper), "")


@dataclass(frozen=True)
class Claim(Statement):
    """A statement of the paper: a quote or close paraphrase that stands alone, its source, and a check."""

    def __init__(self, text: str, source: str, check: Check, **rest: Any) -> None:
        super().__init__(text, check, source=source, **rest)


@dataclass(frozen=True)
class Question(Statement):
    """A question of our own, which the paper does not answer; counted apart."""


@dataclass(frozen=True)
class Judged:
    """A statement with the verdict on each of its cells at a scale, and the word that follows from them."""

    statement: Statement
    cells: tuple[tuple[Point, Verdict], ...]
    scale: str = ""

    @property
    def word(self) -> str:
        return row_word(verdict for _, verdict in self.cells)

    @property
    def names(self) -> list[str]:
        """The labels of the cells: strings alone, numbers with their axis; empty for a single cell."""
        return _own_names([cell.without(*self.statement.at) for cell, _ in self.cells])

    @property
    def told(self) -> list[str]:
        """Every cell in one line: its name, verdict and numbers."""
        lines = zip(self.names, (verdict for _, verdict in self.cells), strict=True)
        return [f"{name}: {verdict}" if name else verdict.sentence for name, verdict in lines]


def judge(statement: Statement, grid: PointGrid, runs: RunReadings, quantities: Quantities | None = None) -> Judged:
    """Judge a statement by readings; a cell whose points have none is `not run`."""

    def verdict(cell: Point) -> Verdict:
        absent = [str(point) for point in statement.check.points(cell, grid) if not runs.get(point)]
        if absent:
            return Verdict(NOT_RUN, f"no readings of {'; '.join(absent)}")
        return statement.check.judge(cell, statement.key(cell), grid, runs, quantities or {})

    return Judged(statement, tuple((cell, verdict(cell)) for cell in statement.cells(grid)))


@dataclass(frozen=True)
class Contrast(Check):
    """A weighted sum of one quantity over points, seed by seed: Σ w q(point), of logarithms with `ratio`.

    `claimed` is where the sum should lie, the same for all cells or by key; `what` names the sum in words.
    `terms` are (values that replace those of the cell, weight); with `over` they are all values of that axis, weighted
    so that the sum is the least-squares slope over `scale(value)` of the numbers, or over their order. The mean over
    the seeds that all points share has Student's 95 % interval. A `certain` statement does not depend on chance: one
    seed is enough, and the worst seed decides. A quantity that counts layers (`Number.spread`) has an interval over
    samples too; the interval of the contrast covers both.
    """

    quantity: str | Quantity
    claimed: Region | Mapping[Any, Region]
    what: str
    terms: tuple[tuple[Mapping[str, Any], float], ...] = (({}, 1.0),)
    over: str = ""
    scale: Callable[[float], float] | None = None
    ratio: bool = False
    certain: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.over, *(axis for one, _ in self.terms for axis in one)))))

    def points(self, cell: Point, grid: PointGrid) -> tuple[Point, ...]:
        found = tuple(point for point, _ in self._weighted(cell, grid))
        return found if len(set(found)) == len(found) else ()

    def judge(self, cell: Point, key: Any, grid: PointGrid, runs: RunReadings, quantities: Quantities) -> Verdict:
        quantity, name = resolved(self.quantity, quantities)
        weighted = self._weighted(cell, grid)
        values, unread = _values(quantity, {point: runs[point] for point, _ in weighted})
        shared = sorted(set.intersection(*map(set, values.values())))
        if not shared:
            return Verdict(NOT_RUN, next(iter(unread.values()), "the points share no seed"), values=values)
        values = {point: {seed: one[seed] for seed in shared} for point, one in values.items()}
        for point, one in values.items():
            for seed, value in one.items():
                if not math.isfinite(value) or (self.ratio and value <= 0):
                    note = getattr(value, "note", "") or ("a ratio needs positive numbers" if self.ratio else "")
                    why = f"{name} at {point}, seed {seed}, is {number(value)}{': ' if note else ''}{note}"
                    return Verdict(INCONCLUSIVE, why, n=len(shared), values=values)
        weights = np.array([weight for _, weight in weighted])
        table = np.array([list(one.values()) for one in values.values()], dtype=np.float64)
        region = self.claimed[key] if isinstance(self.claimed, Mapping) else self.claimed
        interval = self._interval(table, weights, region)
        if not self.certain and (around := self._over_samples(quantity, weighted, runs, shared)) is not None:
            low, high = min(interval.low, around[0]), max(interval.high, around[1])
            wide = 0.0 if high - low > 1e-9 else HALF_LAYER * float(np.abs(weights).max())
            interval = replace(interval, low=low - wide, high=high + wide)
        word = region.word(interval, 1 if self.certain else LEAST)
        if self.ratio:
            ends = (interval.estimate, interval.low, interval.high)
            middle, low, high = (math.exp(end) if end < 700 else math.inf for end in ends)
            interval = replace(interval, estimate=middle, low=low, high=high)
        told = zip(_own_names(list(values)), (number(float(row.mean())) for row in table), strict=True)
        means = ", ".join(f"{mean} at {own}" if own else mean for own, mean in told)
        parts = [f"{name}: {means} ({interval.n} seed{'s' if interval.n > 1 else ''})"]
        if len(values) > 1 and not self.certain:
            parts.append(f"{self.what} {interval}")
        elif not self.certain and interval.n > 1:
            parts.append(f"95 % [{number(interval.low)}, {number(interval.high)}]")
        if interval.n < LEAST and not self.certain:
            parts.append(f"fewer than {LEAST} seeds")
        parts += [f"{point}, seed {seed}: {why}" for (point, seed), why in unread.items()]
        return Verdict(word, "; ".join(parts), **asdict(interval), values=values)

    def _interval(self, table: Array, weights: Array, region: Region) -> Interval:
        """The contrast over seeds, of values [point, seed]; of the worst seed alone for a `certain` statement."""
        compared = np.log(table) if self.ratio else table
        per_seed = weights @ compared
        per_seed[np.abs(per_seed) < ROUNDING * (np.abs(weights) @ np.abs(compared))] = 0.0
        interval = student(per_seed.tolist())
        if self.certain:
            worst = float(per_seed.min())
            return Interval(worst, worst, worst, interval.n)
        if len(weights) == 1:  # the effect is the distance from the claimed level: the region's middle, or its one edge
            edges = [edge for edge in (region.low, region.high) if math.isfinite(edge)]
            return replace(interval, effect=student((per_seed - sum(edges) / len(edges)).tolist()).effect)
        return interval

    def _weighted(self, cell: Point, grid: PointGrid) -> list[tuple[Point, float]]:
        if not self.over:
            return [(grid.complete(cell | values), weight) for values, weight in self.terms]
        labels = grid.labels(self.over, cell)
        if self.scale is not None:  # on which strings have no position
            labels = tuple(label for label in labels if not isinstance(label, str | bool))
        if len(labels) < 2:
            return []
        scale = self.scale or float
        x = np.array([spot if isinstance(one, str | bool) else scale(float(one)) for spot, one in enumerate(labels)])
        x = x - x.mean()
        weights = (x / (x**2).sum()).tolist()
        return [(grid.complete(cell | {self.over: one}), weight) for one, weight in zip(labels, weights, strict=True)]

    def _over_samples(
        self, quantity: Quantity, weighted: Sequence[tuple[Point, float]], runs: RunReadings, seeds: Sequence[int]
    ) -> tuple[float, float] | None:
        """The contrast's interval over samples, averaged over seeds; None for quantities that have none."""
        ends, spread = np.zeros(2), getattr(quantity, "spread", lambda _: None)
        for point, weight in weighted:
            pairs = [spread(runs[point][seed]) for seed in seeds]
            if None in pairs:
                return None
            ends += np.sort(weight * np.array(pairs).mean(0))
        return float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class Several(Check):
    """Checks by name, each a cell, such as one per task; `what` names their axis.

    The published numbers of a claim (`paper`) may be by name too.
    """

    what: str
    checks: Mapping[str, Contrast]
    quantity = claimed = None

    @property
    def names(self) -> Sequence[Mapping[str, str]]:
        return [{self.what: name} for name in self.checks]

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(axis for check in self.checks.values() for axis in check.axes))

    def points(self, cell: Point, grid: PointGrid) -> tuple[Point, ...]:
        return self.checks[str(cell[self.what])].points(cell.without(self.what), grid)

    def judge(self, cell: Point, key: Any, grid: PointGrid, runs: RunReadings, quantities: Quantities) -> Verdict:
        return self.checks[str(cell[self.what])].judge(cell.without(self.what), key, grid, runs, quantities)


several = Several


def lower(quantity: str | Quantity, at: CellValues = None, *, than: Mapping[str, Any], by: float = 0.0) -> Contrast:
    """The quantity at one point is lower than at another, by more than `by`."""
    return _difference(quantity, at, than, Region(high=-by, open=True))


def higher(quantity: str | Quantity, at: CellValues = None, *, than: Mapping[str, Any], by: float = 0.0) -> Contrast:
    """The quantity at one point is higher than at another, by more than `by`."""
    return _difference(quantity, at, than, Region(low=by, open=True))


def not_below(quantity: str | Quantity, at: CellValues = None, *, than: Mapping[str, Any], margin: float) -> Contrast:
    """The quantity at one point is no more than `margin` below that at another."""
    return higher(quantity, at, than=than, by=-margin)


def alike(quantity: str | Quantity, at: CellValues = None, *, to: Mapping[str, Any], within: float) -> Contrast:
    """The quantity at one point differs from that at another by no more than `within`."""
    return _difference(quantity, at, to, Region(-within, within))


def _difference(quantity: str | Quantity, at: CellValues, other: Mapping[str, Any], region: Region) -> Contrast:
    return Contrast(quantity, region, "difference", ((at or {}, 1.0), (other, -1.0)))


def level(quantity: str | Quantity, value: PerCell, *, within: float, at: CellValues = None) -> Contrast:
    """The quantity is `value`, to within `within`."""
    return _level(quantity, value, lambda one: Region(one - within, one + within), at)


def at_most(quantity: str | Quantity, value: PerCell, *, at: CellValues = None) -> Contrast:
    """The quantity is no more than `value`."""
    return _level(quantity, value, lambda one: Region(high=one), at)


def at_least(quantity: str | Quantity, value: PerCell, *, at: CellValues = None) -> Contrast:
    """The quantity is no less than `value`."""
    return _level(quantity, value, lambda one: Region(low=one), at)


def _level(quantity: str | Quantity, value: PerCell, region: Callable[[float], Region], at: CellValues) -> Contrast:
    regions = {key: region(one) for key, one in value.items()} if isinstance(value, Mapping) else region(value)
    return Contrast(quantity, regions, "level", ((at or {}, 1.0),))


def share(
    quantity: str | Quantity,
    at: CellValues = None,
    *,
    of: Mapping[str, Any],
    at_least: float | None = None,
    at_most: float | None = None,
) -> Contrast:
    """The quantity at one point, divided by that at another, lies between these bounds."""
    if at_least is None and at_most is None:
        raise ValueError(f"share of {quantity!r}: give at_least= or at_most=, or both")
    low = -math.inf if at_least is None else math.log(at_least)
    high = math.inf if at_most is None else math.log(at_most)
    return Contrast(quantity, Region(low, high), "ratio", ((at or {}, 1.0), (of, -1.0)), ratio=True)


def rises(quantity: str | Quantity, *, over: str, scale: Callable[[float], float] | None = None) -> Contrast:
    """The quantity grows over an axis: its least-squares slope over the values (`scale` of them) is above 0."""
    return Contrast(quantity, Region(low=0.0, open=True), "slope", over=over, scale=scale)


def falls(quantity: str | Quantity, *, over: str, scale: Callable[[float], float] | None = None) -> Contrast:
    """The quantity shrinks over an axis: its least-squares slope over the values (`scale` of them) is below 0."""
    return Contrast(quantity, Region(high=0.0, open=True), "slope", over=over, scale=scale)


def holds(quantity: str | Quantity) -> Contrast:
    """A statement that does not depend on chance, whose quantity is 1 where it is true; one seed is enough."""
    return Contrast(quantity, Region(low=1.0), "truth", certain=True)


def _own_names(points: list[Point]) -> list[str]:
    """The labels of points: the axes on which they differ, strings without the axis; a single point has none."""
    varying = [axis for axis in points[0] if len({point[axis] for point in points}) > 1] if points else []
    return [brief(Point({axis: point[axis] for axis in varying})) for point in points]


def _values(
    quantity: Quantity, runs: RunReadings
) -> tuple[dict[Point, dict[int, float]], dict[tuple[Point, int], str]]:
    """The quantity by point and seed, and the reasons why some are missing."""
    values: dict[Point, dict[int, float]] = {point: {} for point in runs}
    unread: dict[tuple[Point, int], str] = {}
    for point, seeds in runs.items():
        for seed, readings in sorted(seeds.items()):
            try:
                values[point][seed] = quantity(readings)
            except ReadingsError as error:
                unread[point, seed] = str(error)
    return values, unread
