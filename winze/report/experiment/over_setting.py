"""A number of a whole run against a setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Label, Point, Readings, ReadingsError, facts
from winze.readings.point import shown
from winze.readings.wording import label, short
from winze.report import style
from winze.report.experiment import drawing as common
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Quantity = Callable[[Readings], float]
APART = 0.14  # columns between two lines at one name


def over_setting(
    quantity: str | Quantity | Mapping[str, str | Quantity],
    x: str,
    line: str | None = None,
    panel: common.AxisNames | None = None,
    *,
    paper: Mapping[Any, float] | None = None,
    at: common.PointsAt | None = None,
    title: str | None = None,
    across: str | None = None,
    up: str | None = None,
    log: bool = False,
    shared: bool = True,
) -> common.Drawing:
    """One number per run, or several by name, over the values of an axis: a dot per seed, a line through the means.

        over_setting(DuringTraining("accuracy"), x="rate", line="network", paper={(0.1, "resnet50d"): 0.908})

    A text is a measure of the whole network, of which the last reading counts. Values that are names have no order:
    they are columns without lines. `paper`: published numbers as hollow diamonds, by the values on `x`, then `line`,
    the axes of `panel` and the name of the quantity, those that are given. `log` is about the axis of the setting.
    Panels and `at` are as in `over_depth`.
    """
    wanted = quantity if isinstance(quantity, Mapping) else {"": quantity}
    said = up or ", ".join(dict.fromkeys(label(one if isinstance(one, str) else str(one)) for one in wanted.values()))
    below = across or x.replace("_", " ")
    keys = common.as_axes(x, line, panel)

    def draw(runs: common.PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        found: dict[Point, dict[str, list[float]]] = {}
        for point, seeds in common.chosen(runs, at).items():
            for name, one in wanted.items():
                known = [value for readings in seeds if math.isfinite(value := _number(one, readings))]
                if known:
                    found.setdefault(point, {})[name] = known
        if not found:
            raise UnreadError(f"no {said} was read")
        labels = list(dict.fromkeys(point[x] for point in found))
        named = any(isinstance(one, str | bool) for one in labels)
        labels = labels if named else sorted(labels)
        places = {one: float(spot) if named else float(one) for spot, one in enumerate(labels)}
        lines = dict.fromkeys((point[line] if line else "", name) for point in found for name in found[point])
        panels = common.grouped(found, panel, common.as_axes(x, line))
        with style.use(theme) as colours:
            looks = common.looks_of((own if line else name for own, name in lines), colours)
            drawing, grid = style.panels(len(panels), shared=shared)
            for axes, (heading, points) in zip(grid, panels.items(), strict=True):
                for spot, (own, name) in enumerate(lines):
                    inside = [p for p in points if (p[line] if line else "") == own and name in found[p]]
                    inside = inside if named else sorted(inside, key=lambda p: places[p[x]])
                    aside = APART * (spot - (len(lines) - 1) / 2) * named
                    spots, look = [places[p[x]] + aside for p in inside], looks[own if line else name]
                    text = ", ".join(filter(None, (common.name_of(line, own) if line else "", name)))
                    for where, point in zip(spots, inside, strict=True):
                        values = found[point][name]
                        dots: Any = {"color": look["color"], "alpha": 0.5, "markersize": 4, "zorder": 2}
                        axes.plot([where] * len(values), values, ".", **dots)
                        key = (*(point[axis] for axis in keys), *([name] if name else []))
                        told = (paper or {}).get(key if len(key) > 1 else key[0])
                        if told is not None:
                            hollow: Any = {**look, "marker": "D", "mfc": colours.paper, "markersize": 6, "zorder": 4}
                            axes.plot(where, told, ls="none", label="paper", **hollow)
                    means = [float(np.mean(found[point][name])) for point in inside]
                    drawn: Any = {**look, "markersize": 5, "zorder": 3, "ls": "none" if named else "-"}
                    axes.plot(spots, means, label=short(text, 40) or "_nolegend_", **drawn)
                _ticks(axes, places, named, log)
                count = common.seeds_of(len(next(iter(found[point].values()))) for point in points)
                axes.set(xlabel=below, ylabel=said, title=short(f"{heading}, {count}" if heading else count, 60))
            style.legend(drawing, columns=6)
            return drawing

    heading = title or f"{said[:1].upper()}{said[1:]} by {below}"
    return common.Drawing(heading, draw, common.as_axes(keys, tuple(at or ())))


def _number(quantity: str | Quantity, readings: Readings) -> float:
    if isinstance(quantity, str):
        sets = (facts.home(readings), "")
        rows = [row for row in readings.rows if row.measure == quantity and row.index is None]
        return next((row.value for row in reversed(rows) if row.data in sets or not sets[0]), math.nan)
    try:
        return float(quantity(readings))
    except ReadingsError:
        return math.nan


def _ticks(axes: matplotlib.axes.Axes, places: Mapping[Label, float], named: bool, log: bool) -> None:
    if log and not named:
        axes.set_xscale("log")
    turned: Any = {"rotation": 30, "ha": "right"} if named and sum(len(str(one)) + 2 for one in places) > 40 else {}
    axes.set_xticks(list(places.values()), list(map(shown, places)), **turned)
    axes.minorticks_off()
    if named:
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.grid(False, axis="x")
