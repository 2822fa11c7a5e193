"""A measure over the depth of the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Array, Readings, facts
from winze.readings.over_seeds import layer_numbers
from winze.readings.wording import data_name, label
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
from winze.report.scan.profile import depth_axis

if TYPE_CHECKING:
    import matplotlib.figure

Measures = str | Mapping[str, str | tuple[str, str | None]]


def over_depth(
    measure: Measures,
    colour: str | None = None,
    panel: AxisNames | None = None,
    *,
    ood: bool = False,
    at: PointsAt | None = None,
    title: str | None = None,
    across: str = "layer",
    up: str | None = None,
    log: bool = False,
    shared: bool = True,
    shown: Callable[[Array], Array] = lambda curve: curve,
) -> Drawing:
    """One measure, or several by name, at every place: the mean over seeds, and a band that spans them.

        over_depth("effective_rank", colour="alpha", panel="blocks")
        over_depth({"own data": "probe", "SVHN": ("probe", "svhn")}, panel="network", up="probe accuracy")

    Values of `colour` are lines in one panel, those of `panel` (and of any axis not named on which the points differ)
    panels; `at` chooses points. `ood`: on the first OOD set. A pair is a measure and a data set. Places carry the
    paper's layer numbers where the readings have them. `shown` is applied to every curve first.
    """
    wanted: dict[str, tuple[str, str | None]] = {
        name: (one, None) if isinstance(one, str) else one
        for name, one in ({"": measure} if isinstance(measure, str) else measure).items()
    }
    said = up or ", ".join(dict.fromkeys(label(one) for one, _ in wanted.values()))

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        there = chosen(runs, at)
        sets = {name for seeds in there.values() for one in seeds for name in facts.others(one)[:1]} if ood else set()
        told = said + (f", {data_name(sets.pop()) if len(sets) == 1 else 'OOD data'}" if ood else "")
        curves = {point: _read(seeds, wanted, ood, shown) for point, seeds in there.items()}
        looks: Any = {"colour": colour, "panel": panel, "across": across, "up": told, "log": log, "shared": shared}
        return draw_curves(curves, theme, finish=partial(depth_axis, bottom=False), **looks)

    named = title or f"{said[:1].upper()}{said[1:]} over depth{' on OOD data' if ood else ''}"
    return Drawing(named, draw, as_axes(colour, panel, tuple(at or ())))


def _read(
    seeds: Sequence[Readings], wanted: Mapping[str, tuple[str, str | None]], ood: bool, shown: Callable[[Array], Array]
) -> dict[str, SeedCurve]:
    """The curves that all seeds have at the same places; a set that is the network's own is not drawn twice."""
    found: dict[str, SeedCurve] = {}
    for name, (measure, data) in wanted.items():
        if (measure, None) in wanted.values() and data is not None and data == facts.home(seeds[0]):
            continue
        sets = [next(iter(facts.others(one)), "") if ood else data for one in seeds]
        if all(facts.has(one, measure, of) for one, of in zip(seeds, sets, strict=True)):
            curves = [shown(facts.column(one, measure, of)) for one, of in zip(seeds, sets, strict=True)]
            if len({len(curve) for curve in curves}) == 1:
                found[name] = np.array(list(layer_numbers(seeds[0]).values())), np.stack(curves)
    return found
