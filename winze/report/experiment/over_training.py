"""A number of the whole network over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Readings, facts
from winze.readings.wording import label
from winze.report.experiment.drawing import (
    AxisNames,
    Drawing,
    PointRuns,
    PointsAt,
    SeedCurve,
    as_axes,
    chosen,
    draw_curves,
)

if TYPE_CHECKING:
    import matplotlib.figure


def over_training(
    measure: str | Mapping[str, str],
    colour: str | None = None,
    panel: AxisNames | None = None,
    *,
    at: PointsAt | None = None,
    title: str | None = None,
    across: str | None = None,
    up: str | None = None,
    log: bool = False,
    shared: bool = True,
) -> Drawing:
    """One measure, or several by name, at every step at which it was read: the mean over seeds, and their span.

        over_training("accuracy", colour="algorithm", panel=("network", "data"))

    Colours, panels and `at` are as in `over_depth`. Training is counted in epochs where all runs have `epoch_steps`,
    else in steps, and `across` says what steps are where they are none of training; steps that not all seeds have are
    left out.
    """
    wanted = {"": measure} if isinstance(measure, str) else dict(measure)
    said = up or ", ".join(dict.fromkeys(map(label, wanted.values())))

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        there = chosen(runs, at)
        curves = {point: _read(seeds, wanted) for point, seeds in there.items()}
        lengths = {point: facts.whole(there[point][0], "epoch_steps") for point, lines in curves.items() if lines}
        epochs = across is None and bool(np.isfinite(list(lengths.values())).all())
        if epochs:
            for point, length in lengths.items():
                curves[point] = {name: (x / length, values) for name, (x, values) in curves[point].items()}
        below = across or ("epoch" if epochs else "training step")
        return draw_curves(curves, theme, colour=colour, panel=panel, across=below, up=said, log=log, shared=shared)

    named = title or f"{said[:1].upper()}{said[1:]} over training"
    return Drawing(named, draw, as_axes(colour, panel, tuple(at or ())))


def _read(seeds: Sequence[Readings], wanted: Mapping[str, str]) -> dict[str, SeedCurve]:
    found: dict[str, SeedCurve] = {}
    for name, measure in wanted.items():
        rows = [[row for row in one.rows if row.measure == measure and row.index is None] for one in seeds]
        curves = [{row.step: row.value for row in one if row.step is not None} for one in rows]
        steps = sorted(set.intersection(*map(set, curves)))
        if steps:
            found[name] = np.array(steps), np.array([[curve[step] for step in steps] for curve in curves])
    return found
