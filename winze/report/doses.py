"""What one setting does to a number of the whole network: arms as points along that setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Readings
from winze.report import facts, style
from winze.report.names import label
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


@dataclass(frozen=True)
class Panel:
    """A setting: what stands at its axis, and lines by name, each with the arm at every value; texts make no line.

    Colours of lines that are `ordered` run from dark to bright.
    """

    title: str
    setting: str
    lines: Mapping[str, Mapping[Any, str]]
    log: bool = False
    ordered: bool = False


def doses(
    arms: Mapping[str, Sequence[Readings]],
    theme: str = "light",
    panels: Sequence[Panel] = (),
    measure: str = "accuracy",
) -> matplotlib.figure.Figure:
    """Draw the last look at a measure over settings: a dot a run, a line through the means; a panel a setting."""
    seen = {arm: [row.value for one in runs if (row := facts.last_look(one, measure))] for arm, runs in arms.items()}
    known = [panel for panel in panels if any(seen.get(arm) for line in panel.lines.values() for arm in line.values())]
    if not known:
        raise UnreadError(f"no {label(measure)} was looked at during training")
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(known))
        for axes, panel in zip(grid, known, strict=True):
            _panel(axes, panel, seen, colours)
            axes.set(title=panel.title, xlabel=panel.setting, ylabel=f"test {label(measure)}")
        return drawing


def _panel(axes: matplotlib.axes.Axes, panel: Panel, seen: Mapping[str, Sequence[float]], colours: style.Theme) -> None:
    drawn: list[Any] = []
    lines = {name: line for name, line in panel.lines.items() if any(seen.get(arm) for arm in line.values())}
    palette = colours.ramp_colours(len(lines)) if panel.ordered else colours.scans
    for spot, (name, line) in enumerate(lines.items()):
        points = {value: seen[arm] for value, arm in line.items() if seen.get(arm)}
        colour, marker = palette[spot], style.MARKERS[spot % len(style.MARKERS)]
        for value, values in points.items():
            axes.plot([value] * len(values), values, ".", color=colour, alpha=0.6, markersize=4, zorder=2)
        looks: dict[str, Any] = {"marker": marker, "color": colour, "markersize": 5, "zorder": 3}
        dash = "none" if any(isinstance(value, str) for value in points) else "-"
        axes.plot(list(points), [np.mean(one) for one in points.values()], label=name, linestyle=dash, **looks)
        drawn += points
    if panel.log:
        axes.set_xscale("log")
    numbers = sorted({value for value in drawn if not isinstance(value, str)})
    if numbers:
        axes.set_xticks(numbers, [f"{value:g}" for value in numbers])
        axes.minorticks_off()
    if any(panel.lines):
        axes.legend()
