"""Several curves over depth in one panel an arm: the mean over seeds, and a band that spans them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Readings
from winze.report import facts, style
from winze.report.by_arm import Arms
from winze.report.means import layer_numbers
from winze.report.names import short
from winze.report.profile import depth_axis
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Shown = Callable[[facts.Array], facts.Array]


@dataclass(frozen=True)
class Curve:
    """A measure on some data (None: the network's own), what it is called, and how it is drawn.

    `colour` is its number among the house's colours. What stands `beside` others is drawn only where one of them is.
    """

    said: str
    measure: str
    data: str | None = None
    colour: int = 0
    dash: str = "-"
    beside: bool = False


def curves(
    arms: Arms,
    theme: str = "light",
    *,
    lines: Sequence[Curve],
    up: str,
    across: str = "layer",
    shown: Shown = lambda values: values,
    titles: Mapping[str, str] | None = None,
) -> matplotlib.figure.Figure:
    """Draw a panel for each arm that has one of the curves, with the paper's layer numbers at the axis.

    `shown` is done to every curve first, such as dividing it by its highest value.
    """
    drawn = {
        arm: runs
        for arm, runs in arms.items()
        if runs and any(_has(runs, one) and not _is_own(runs, one, lines) for one in lines if not one.beside)
    }
    if not drawn:
        raise UnreadError(f"no {up} was read")
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(drawn), shared=True)
        for axes, (arm, runs) in zip(grid, drawn.items(), strict=True):
            _panel(axes, runs, lines, shown, colours)
            said = (titles or {}).get(arm, arm.replace("_", " "))
            axes.set(ylabel=up, title=f"{short(said, 40)}, {len(runs)} seed{'s' if len(runs) > 1 else ''}")
            axes.set_xlabel(across)
        style.legend(drawing)
        return drawing


def _panel(
    axes: matplotlib.axes.Axes, runs: Sequence[Readings], lines: Sequence[Curve], shown: Shown, colours: style.Theme
) -> None:
    numbers = np.array(list(layer_numbers(runs[0]).values()))
    for line in lines:
        if not _has(runs, line) or _is_own(runs, line, lines):
            continue
        values = np.stack([shown(facts.column(one, line.measure, line.data)) for one in runs])
        known = np.isfinite(values).all(0)
        x, values = numbers[known], values[:, known]
        colour, marker = (
            colours.scans[line.colour % len(colours.scans)],
            style.MARKERS[line.colour % len(style.MARKERS)],
        )
        axes.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.12, lw=0)
        spots = style.sparse(len(x))
        axes.plot(
            x, values.mean(0), line.dash, color=colour, marker=marker, markevery=spots, label=short(line.said, 40)
        )
    depth_axis(axes, numbers)


def _has(runs: Sequence[Readings], line: Curve) -> bool:
    sizes = {len(facts.places(one)) for one in runs}
    return len(sizes) == 1 and all(facts.has(one, line.measure, line.data) for one in runs)


def _is_own(runs: Sequence[Readings], line: Curve, lines: Sequence[Curve]) -> bool:
    """Whether a curve of another set is that of the network's own set, which is drawn already."""
    drawn = any((one.measure, one.data) == (line.measure, None) for one in lines)
    return drawn and any(line.data == facts.home(one) for one in runs)
