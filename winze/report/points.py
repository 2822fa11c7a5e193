"""Numbers of whole networks side by side: a column for each, a point for every seed, the paper's own beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Readings
from winze.report import style
from winze.report.by_arm import Arms
from winze.report.names import short
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Told = Mapping[tuple[str, str], float]
"""The paper's number by group and series."""
APART = 0.16  # columns between two series of one group


@dataclass(frozen=True)
class Group:
    """A column: its name, and for each series, such as a task, the measure and the data that are read there."""

    name: str
    series: Mapping[str, tuple[str, str]]


def points(
    arms: Arms,
    theme: str = "light",
    *,
    groups: Sequence[Group],
    what: str,
    told: Mapping[str, Told] | None = None,
    whose: str = "the paper's",
) -> matplotlib.figure.Figure:
    """Draw a panel for each arm: every seed as a dot, their mean as a bar, and what the paper told as a diamond."""
    drawn = {arm: runs for arm, runs in arms.items() if any(numbers_of(runs, *one) for g in groups for one in _read(g))}
    if not drawn:
        raise UnreadError(f"no {what} was read")
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(drawn), shared=True)
        for axes, (arm, runs) in zip(grid, drawn.items(), strict=True):
            _panel(axes, runs, groups, colours)
            _tell(axes, groups, (told or {}).get(arm, {}), whose, colours)
            axes.set(ylabel=what, title=f"{short(arm.replace('_', ' '), 30)}, {len(runs)} seeds")
        style.legend(drawing)
        return drawing


def _panel(axes: matplotlib.axes.Axes, runs: Sequence[Readings], groups: Sequence[Group], colours: style.Theme) -> None:
    for column, group in enumerate(groups):
        for series, (measure, data) in group.series.items():
            spot, x = _spot(groups, column, series)
            colour, values = colours.scans[spot], numbers_of(runs, measure, data)
            axes.plot(np.full(len(values), x), values, "o", color=colour, alpha=0.6, markersize=3, mew=0)
            if values:
                axes.plot(x, np.mean(values), "_", color=colour, markersize=11, mew=2, label=series)
    axes.set_xticks(range(len(groups)), [group.name for group in groups])
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.grid(False, axis="x")


def _tell(axes: matplotlib.axes.Axes, groups: Sequence[Group], told: Told, whose: str, colours: style.Theme) -> None:
    looks: dict[str, Any] = {"color": colours.faint, "mfc": "none", "markersize": 7, "zorder": 1}
    for column, group in enumerate(groups):
        for series in group.series:
            if (group.name, series) in told:
                axes.plot(_spot(groups, column, series)[1], told[group.name, series], "D", label=whose, **looks)


def _spot(groups: Sequence[Group], column: int, series: str) -> tuple[int, float]:
    """The number of a series, and where it stands within its group."""
    names = list(dict.fromkeys(name for group in groups for name in group.series))
    return names.index(series), column + APART * (names.index(series) - (len(names) - 1) / 2)


def _read(group: Group) -> list[tuple[str, str]]:
    return list(group.series.values())


def numbers_of(runs: Sequence[Readings], measure: str, data: str) -> list[float]:
    """Every run's number of the whole network on some data."""
    rows = [row for one in runs for row in one.rows if row.measure == measure and row.data == data]
    return [row.value for row in rows]
