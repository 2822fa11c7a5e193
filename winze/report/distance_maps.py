"""How far apart the features of any two layers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winze.report import style
from winze.report.by_arm import Arms
from winze.report.names import short
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure

KINDS = {"distances": "streams h", "distances_branches": "branches f"}
"""The arrays that may be drawn; streams are counted from 0, branches from 1."""


def distance_maps(arms: Arms, theme: str = "light", least: int = 8) -> matplotlib.figure.Figure:
    """Draw the mean distance between all pairs of layers of each arm's first network: streams above, branches below.

    Networks of fewer than `least` layers are left out.
    """
    from matplotlib.ticker import MaxNLocator

    first = {arm: next((one for one in runs if "distances" in one.arrays), None) for arm, runs in arms.items()}
    found = {arm: one for arm, one in first.items() if one is not None and len(one.arrays["distances"]) > least}
    if not found:
        raise UnreadError(f"no distances between {least} layers or more were kept")
    with style.use(theme) as colours:
        drawing = style.figure(3.0 * len(found) + 0.4, 5.8)
        grid = drawing.subplots(len(KINDS), len(found), squeeze=False)
        for row, (name, said) in zip(grid, KINDS.items(), strict=True):
            start = list(KINDS).index(name) - 0.5
            for axes, (arm, one) in zip(row, found.items(), strict=True):
                table = one.arrays[name]
                end = start + len(table)
                axes.set_facecolor(colours.shade)
                shown = axes.imshow(table, origin="lower", vmin=0, cmap="viridis", extent=(start, end, start, end))
                axes.grid(False)
                axes.set(xlabel="layer", ylabel="layer", title=f"{short(arm.replace('_', ', '), 28)}: {said}")
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
                drawing.colorbar(shown, ax=axes, shrink=0.8).outline.set_visible(False)
        return drawing
