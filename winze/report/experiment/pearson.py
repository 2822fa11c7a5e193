"""Pearson's r of two numbers of the whole network over the values of an axis, at every reading during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from winze.readings import Array, Point, Readings, facts
from winze.readings.wording import label
from winze.report.experiment.drawing import Drawing, PointRuns, draw_curves
from winze.report.scan.scans import UnreadError


def correlations(runs: Sequence[Readings], one: str, other: str) -> tuple[Array, Array]:
    """The steps that all runs have, and Pearson's r over the runs at each; NaN where one number does not vary."""
    pairs = [[course(readings, measure) for measure in (one, other)] for readings in runs]
    steps = sorted(set.intersection(*(set(curve) for pair in pairs for curve in pair)))
    values = np.array([[[curve[step] for step in steps] for curve in pair] for pair in pairs])  # run, measure, step
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = values - values.mean(0) if len(steps) else np.zeros((len(runs), 2, 0))
        shared = (centred[:, 0] * centred[:, 1]).sum(0)
        return np.array(steps), shared / np.sqrt((centred**2).sum(0).prod(0))


def course(readings: Readings, measure: str) -> Mapping[int, float]:
    """A number of the whole network by step."""
    rows = [row for row in readings.rows if row.measure == measure and row.index is None and row.step]
    return {row.step: row.value for row in rows if row.step is not None}


def over_training_r(one: str, other: str, over: str, panel: str) -> Drawing:
    """Pearson's r over the values of an axis at every reading: the mean over seeds, and their span."""

    def draw(runs: PointRuns, theme: str = "light") -> Any:
        curves = {}
        for name in dict.fromkeys(point[panel] for point in runs):
            inside = [seeds for point, seeds in runs.items() if point[panel] == name and seeds]
            count = min(map(len, inside), default=0)
            found = [correlations([seeds[spot] for seeds in inside], one, other) for spot in range(count)]
            if len(inside) > 2 and found and len(found[0][0]):
                length = facts.whole(inside[0][0], "epoch_steps")
                curves[Point({panel: name})] = {"": (found[0][0] / length, np.array([r for _, r in found]))}
        if not curves:
            raise UnreadError("no correlation: fewer than three values of the axis were read")
        return draw_curves(curves, theme, colour=None, panel=panel, across="epoch", up="Pearson's r")

    return Drawing(f"Pearson's r of {label(one)} and {label(other)}", draw, (over, panel))
