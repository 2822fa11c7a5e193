"""One picture a proposition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Array, Readings
from winze.report import style
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

PANELS = {  # title, x, y, the axes that are logarithmic
    "P1": ("P1: rank of softmax(c B), B of rank 2", "c", "rank", "x"),
    "P2": ("P2: σ₁ − σₙ stays below its bound", "bound", "σ₁ − σₙ", ""),
    "P3": ("P3: rank of softmax(c x yᵀ), 8 x 8", "c", "rank", "x"),
    "P4": ("P4: ‖W A‖ of the most it can be", "A turned from drawn (0) to aligned (1)", "share", ""),
    "P5": ("P5: σ₁ of a product of layers", "layers", "σ₁", "y"),
    "P6": ("P6: distance from the limit", "T", "largest error", "xy"),
    "P7": ("P7: what is learnt along and across 1", "step", "norm", ""),
}


def propositions(arms: Mapping[str, Sequence[Readings]], theme: str = "light") -> matplotlib.figure.Figure:
    """Draw what each proposition speaks of, over the random cases it was put to."""
    found = {law: arms[law][0].arrays for law in PANELS if arms.get(law) and "law/x" in arms[law][0].arrays}
    if not found:
        raise UnreadError("no proposition was put to the test")
    with style.use(theme) as colours:
        across = min(4, len(found))
        down = -(-len(found) // across)
        drawing = style.figure(2.9 * across, 2.6 * down)
        grid = drawing.subplots(down, across, squeeze=False)
        for axes in grid.flat[len(found) :]:
            axes.set_axis_off()
        for axes, (law, arrays) in zip(grid.flat, found.items(), strict=False):
            _panel(axes, law, arrays, colours)
        return drawing


def _panel(axes: matplotlib.axes.Axes, law: str, arrays: Mapping[str, Array], colours: style.Theme) -> None:
    from matplotlib.ticker import MaxNLocator

    title, x, y, logarithmic = PANELS[law]
    curves = {name.removeprefix("law/"): values for name, values in arrays.items() if name != "law/x"}
    for number, (name, values) in enumerate(curves.items()):
        if law == "P2":
            end = float(np.max(arrays["law/x"]))
            axes.plot([0, end], [0, end], color=colours.faint, lw=1, ls=":")
            axes.scatter(arrays["law/x"], values, s=4, color=colours.probe, lw=0)
        else:
            axes.plot(arrays["law/x"], values, color=colours.scans[number], label=name)
    axes.set_title(title, fontsize=8.5)
    axes.set(xlabel=x, ylabel=y)
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if side in logarithmic:
            axes.set(**{f"{side}scale": "log"})
            axis.set_major_formatter(style.power_of_ten)
            axis.set_minor_formatter("")
    if law == "P5":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(curves) > 1:
        axes.legend(fontsize=7)
