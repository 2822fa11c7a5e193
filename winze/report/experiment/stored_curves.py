"""Curves that runs stored as arrays, in panels of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winze.readings import Array
from winze.report import style
from winze.report.experiment.drawing import Drawing, PointRuns
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure


class Line(NamedTuple):
    """A curve and what the legend says of it; lines of one name in a panel share a colour."""

    name: str
    x: Array
    y: Array


class Words(NamedTuple):
    """The title of a panel, what stands at its axes, and which of them ("", "x", "y" or "xy") are logarithmic."""

    title: str
    across: str
    up: str
    log: str = ""


Panels = dict[Words, list[Line]]


def spectrum(x: Array, values: Array) -> list[Line]:
    """One line per column, named σ1, σ2, ..., with colours on a ramp."""
    return [Line(f"σ{number}", x, curve) for number, curve in enumerate(values.T, 1)]


def stored_curves(title: str, read: Callable[[Any], Panels], across: int = 2, wide: float = 4.6) -> Drawing:
    """A figure of what `read(runs)` finds, `across` panels in a row.

    A line whose x has no order is drawn as dots, one that hides another (the same values under another name) dashed.
    """

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        panels = read({point: seeds for point, seeds in runs.items() if seeds})
        if not any(panels.values()):
            raise UnreadError(f"no curves of {title!r} were stored")
        with style.use(theme) as colours:
            drawing, grid = style.panels(len(panels), across, wide)
            for axes, (words, lines) in zip(grid, panels.items(), strict=True):
                names = list(dict.fromkeys(line.name for line in lines))
                ramp = colours.ramp_colours(len(names)) if names[0] == "σ1" else colours.scans
                for number, line in enumerate(lines):
                    hides = any(np.allclose(line.y, one.y) for one in lines[:number] if one.name != line.name)
                    mark = "." if (np.diff(line.x) < 0).any() else "--" if hides else "-"
                    new: Any = {} if line.name in (one.name for one in lines[:number]) else {"label": line.name}
                    axes.plot(line.x, line.y, mark, color=ramp[names.index(line.name)], ms=3, lw=1.3, **new)
                axes.set(title=words.title, xlabel=words.across, ylabel=words.up)
                for side, axis in {"x": axes.xaxis, "y": axes.yaxis}.items():
                    if side in words.log:
                        axes.set(**{f"{side}scale": "log"})
                        axis.set_major_formatter(style.power_of_ten)
                        axis.set_minor_formatter("")
                if 1 < len(names) <= 5:
                    axes.legend(fontsize=7)
            return drawing

    return Drawing(title, draw)
