"""A figure of an experiment, and what all of them share: the points that are drawn, panels, names and colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Array, Label, Point, Readings
from winze.readings.over_seeds import Arms, means_of
from winze.readings.point import brief, shown
from winze.readings.wording import short
from winze.report import style
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

PointRuns = Mapping[Point, Sequence[Readings]]
"""The readings of every point, one per seed."""
AxisNames = str | tuple[str, ...]
PointsAt = Mapping[str, Label | tuple[Label, ...]]
"""Which points are drawn: one value of an axis, or several."""
SeedCurve = tuple[Array, Array]
"""Where a curve was read, and its values [seed, x]."""
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Drawing:
    """What a recipe shows as a figure; `draw(runs, theme)` raises `UnreadError` where nothing was read for it.

    `axes` are the axes of the experiment that the figure names, so that a recipe can check them.
    """

    title: str
    draw: Callable[[PointRuns, str], matplotlib.figure.Figure]
    axes: tuple[str, ...] = ()


def of_scans(title: str, draw: Callable[..., Any], take: Callable[[Arms], Any] = means_of, **looks: Any) -> Drawing:
    """A figure of scans by name, drawn of every point's mean readings, or of what `take` makes of its runs."""

    def drawn(runs: PointRuns, theme: str = "light") -> Any:
        there = {brief(point): list(seeds) for point, seeds in runs.items() if seeds}
        if not there:
            raise UnreadError("no runs")
        return draw(take(there), theme=theme, **looks)

    return Drawing(title, drawn)


def first_seeds(arms: Arms) -> dict[str, Readings]:
    """The first run of every point, of what has no mean."""
    return {name: runs[0] for name, runs in arms.items()}


def as_axes(*given: AxisNames | None) -> tuple[str, ...]:
    """The names of axes, given one by one or as tuples, without doubles."""
    flat = (name for one in given if one for name in ((one,) if isinstance(one, str) else one))
    return tuple(dict.fromkeys(flat))


def chosen(runs: PointRuns, at: PointsAt | None) -> dict[Point, list[Readings]]:
    """The points that ran and have these values."""
    wanted = {axis: one if isinstance(one, tuple) else (one,) for axis, one in (at or {}).items()}
    return {
        point: list(seeds)
        for point, seeds in runs.items()
        if seeds and all(point[axis] in labels for axis, labels in wanted.items())
    }


def grouped(points: Iterable[Point], by: AxisNames | None, inside: Iterable[str] = ()) -> dict[str, list[Point]]:
    """Points by name: their values on the axes `by` and on all others on which they differ, but for those `inside`."""
    found: dict[str, list[Point]] = {}
    there = list(points)
    first = as_axes(by)
    rest = [axis for axis in there[0] if len({point[axis] for point in there}) > 1] if there else []
    axes = dict.fromkeys((*first, *(axis for axis in rest if axis not in set(inside))))
    for point in there:
        found.setdefault(", ".join(name_of(axis, point[axis]) for axis in axes), []).append(point)
    return found


def name_of(axis: str, label: Label) -> str:
    """A value in words: numbers need the name of their axis."""
    return shown(label) if isinstance(label, str) else f"{axis.replace('_', ' ')} {shown(label)}"


def seeds_of(counts: Iterable[int]) -> str:
    """How many seeds the points of a panel have."""
    low, *_, high = sorted([*counts] * 2)
    return f"{low} seed{'s' if low > 1 else ''}" if low == high else f"{low} to {high} seeds"


def looks_of(labels: Iterable[Label], colours: style.Theme) -> dict[Label, dict[str, Any]]:
    """The colour and marker of each value: numbers on a ramp from the least to the largest, names apart."""
    there = list(dict.fromkeys(labels))
    numbers = sorted(label for label in there if not isinstance(label, str | bool))
    names = [label for label in there if label not in numbers]
    ramp = zip(numbers, colours.ramp_colours(len(numbers)), strict=True)
    # a ramp begins in blue and ends in green, the first of the others
    free = (colours.rank, *colours.others[1:], colours.others[0]) if numbers else colours.scans
    apart = ((name, free[spot % len(free)]) for spot, name in enumerate(names))
    return {
        label: {"color": colour, "marker": style.MARKERS[spot % len(style.MARKERS)]}
        for spot, (label, colour) in enumerate([*ramp, *apart])
    }


def draw_curves(
    curves: Mapping[Point, Mapping[str, SeedCurve]],
    theme: str,
    *,
    colour: str | None,
    panel: AxisNames | None,
    across: str,
    up: str,
    log: bool = False,
    shared: bool = True,
    finish: Callable[[matplotlib.axes.Axes, Array], None] | None = None,
) -> matplotlib.figure.Figure:
    """Draw the mean of every curve, by point and name, with a band from the lowest to the highest seed.

    Values of the axis `colour` differ in colour and a point's further curves in their dashes; without it names differ
    in colour. Points that differ on any other axis are in panels of their own. `finish` completes a panel's x axis.
    """
    found = {point: dict(lines) for point, lines in curves.items() if lines}
    if not found:
        raise UnreadError(f"no {up} was read")
    with style.use(theme) as colours:
        names = [name for lines in found.values() for name in lines]
        looks = looks_of((point[colour] for point in found) if colour else names, colours)
        panels = grouped(found, panel, as_axes(colour))
        drawing, grid = style.panels(len(panels), shared=shared)
        for axes, (title, points) in zip(grid, panels.items(), strict=True):
            for point in points:
                for spot, (name, (x, values)) in enumerate(found[point].items()):
                    look = looks[point[colour] if colour else name]
                    said = ", ".join(filter(None, (name_of(colour, point[colour]) if colour else "", name)))
                    axes.fill_between(x, values.min(0), values.max(0), color=look["color"], alpha=0.12, lw=0)
                    dash = DASHES[spot % 4 if colour else spot // len(colours.scans) % 4]
                    where: Any = {"markevery": style.sparse(len(x)), "label": short(said, 40) or "_nolegend_"}
                    axes.plot(x, values.mean(0), dash, **look, **where)
            count = seeds_of(len(next(iter(found[point].values()))[1]) for point in points)
            axes.set(xlabel=across, ylabel=up, title=short(f"{title}, {count}" if title else count, 60))
            if log:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(style.power_of_ten)
            if finish is not None:
                finish(axes, np.unique(np.concatenate([x for one in points for x, _ in found[one].values()])))
        style.legend(drawing, columns=6)
        return drawing
