"""Checks of what several runs read during training: Pearson's r over an axis, and a measure at equal loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from winze.lab.axes import PointGrid
from winze.lab.claims.claim import Check, RunReadings
from winze.lab.claims.quantities import Quantities
from winze.lab.claims.verdict import NOT_RUN, Region, Verdict, student
from winze.readings import Point, Readings
from winze.readings.wording import label
from winze.report.experiment.pearson import correlations, course


@dataclass(frozen=True)
class AcrossPoints(Check):
    """One number of the runs of several points with one seed, whose mean over seeds is judged by `region`.

    `of_seed` makes it of the runs in the order of the points: all values of the axis `over`, three at least, or those
    at `terms`; NaN where the runs do not have it.
    """

    said: str
    region: Region
    of_seed: Callable[[Sequence[Readings]], float]
    over: str = ""
    terms: tuple[tuple[Mapping[str, Any], float], ...] = ()
    quantity: None = None
    claimed: None = None

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.over, *(axis for values, _ in self.terms for axis in values)))))

    def points(self, cell: Point, grid: PointGrid) -> tuple[Point, ...]:
        along = [{self.over: label} for label in grid.labels(self.over, cell)] if self.over else []
        chosen = [values for values, _ in self.terms] if self.terms else along if len(along) > 2 else []
        return tuple(grid.complete(cell | values) for values in chosen)

    def judge(self, cell: Point, key: Any, grid: PointGrid, runs: RunReadings, quantities: Quantities) -> Verdict:
        own = {point: runs[point] for point in self.points(cell, grid)}
        shared = sorted(set.intersection(*(set(seeds) for seeds in own.values())))
        found = [self.of_seed([seeds[seed] for seeds in own.values()]) for seed in shared]
        per_seed = [value for value in found if np.isfinite(value)]
        if not per_seed:
            return Verdict(NOT_RUN, f"{self.said}: not read together during training")
        interval = student(per_seed)
        word = self.region.word(interval)
        seeds = f"{len(per_seed)} seed{'s' if len(per_seed) > 1 else ''}"
        return Verdict(word, f"{self.said}: {interval} ({seeds})", **asdict(interval))


def correlates_negatively(one: str, other: str, over: str) -> AcrossPoints:
    """r < 0: Pearson's r of two measures over the values of an axis, averaged over all readings during training."""

    def mean_r(runs: Sequence[Readings]) -> float:
        _, values = correlations(runs, one, other)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    said = f"mean r over training of {label(one)} and {label(other)}"
    return AcrossPoints(said, Region(high=0.0, open=True), mean_r, over=over)


def higher_at_equal_loss(measure: str, loss: str, at: Mapping[str, Any], *, than: Mapping[str, Any]) -> AcrossPoints:
    """A measure is higher at one point than at another when both have the same loss: the lowest that both reach."""

    def difference(runs: Sequence[Readings]) -> float:
        curves = [(course(run, loss), course(run, measure)) for run in runs]
        paths = [[(losses[step], values[step]) for step in sorted({*losses} & {*values})] for losses, values in curves]
        if not all(paths):
            return float("nan")
        shared = max(min(own for own, _ in path) for path in paths)
        one, other = (_when_first(path, shared) for path in paths)
        return one - other

    said = f"difference of {label(measure)} at equal {label(loss)}"
    return AcrossPoints(said, Region(low=0.0, open=True), difference, terms=((at, 1.0), (than, -1.0)))


def _when_first(path: Sequence[tuple[float, float]], loss: float) -> float:
    """The value where a loss is first reached, on the straight line from the reading before; NaN above the first."""
    spot = next(spot for spot, (own, _) in enumerate(path) if own <= loss)
    (now, value), (before, past) = path[spot], path[max(spot - 1, 0)]
    if spot == 0:
        return value if now == loss else float("nan")
    return past + (value - past) * (before - loss) / (before - now)
