"""How far apart the features of any two layers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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

    Colours are logarithmic, since late layers are far larger. Networks of fewer than `least` layers are left out.
    """
    from matplotlib.colors import LogNorm

    first = {arm: next((one for one in runs if "distances" in one.arrays), None) for arm, runs in arms.items()}
    found = {arm: one for arm, one in first.items() if one is not None and len(one.arrays["distances"]) > least}
    if not found:
        raise UnreadError(f"no distances between {least} layers or more were kept")
    with style.use(theme) as colours:
        drawing = style.figure(2.5 * len(found) + 1.1, 5.2)
        grid = drawing.subplots(len(KINDS), len(found), squeeze=False, sharey="row")
        for row, (start, (name, said)) in zip(grid, enumerate(KINDS.items()), strict=True):
            tables = [one.arrays[name].astype(np.float64) for one in found.values()]
            apart = np.concatenate([table[table > 0] for table in tables])  # the diagonal has no logarithm
            looks: dict[str, Any] = {"origin": "lower", "cmap": "viridis", "norm": LogNorm(apart.min(), apart.max())}
            for axes, arm, table in zip(row, found, tables, strict=True):
                ends = start - 0.5, start - 0.5 + len(table)
                axes.set_facecolor(colours.shade)
                shown = axes.imshow(np.where(table > 0, table, np.nan), extent=(*ends, *ends), **looks)
                axes.grid(False)
                axes.set_xlabel("layer")
                if start == 0:
                    axes.set_title(short(arm.replace("_", ", "), 28))
            row[0].set_ylabel(f"layer, {said}")
            bar = drawing.colorbar(shown, ax=row, shrink=0.9, pad=0.02, format=style.power_of_ten, label="distance")
            bar.outline.set_visible(False)
            bar.minorticks_off()
        return drawing
