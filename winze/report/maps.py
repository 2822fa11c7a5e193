"""The CKA map: how alike the features of any two places are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winze.report import facts, style
from winze.report.names import short
from winze.report.scans import Scans, holding

if TYPE_CHECKING:
    import matplotlib.figure


def cka_map(scans: Scans, threshold: float = 0.95, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw CKA between all pairs of places, scans side by side; lines mark where the tunnel begins."""
    from matplotlib.ticker import MaxNLocator

    found = holding(scans, lambda one: one.arrays.get("cka") is not None and one.arrays["cka"].size > 0, "CKA map")
    with style.use(theme) as colours:
        across = min(3, len(found))
        down = -(-len(found) // across)
        drawing = style.figure(3.4 * across + 1, 3.3 * down)
        grid = drawing.subplots(down, across, squeeze=False)
        for axes in grid.flat[len(found) :]:
            axes.set_axis_off()
        for axes, (name, one) in zip(grid.flat, found.items(), strict=False):
            cka = one.arrays["cka"]
            edge = len(cka) + 0.5
            axes.set_facecolor(colours.shade)  # NaN shows as the background
            image = axes.imshow(cka, origin="lower", vmin=0, vmax=1, cmap="viridis", extent=(0.5, edge, 0.5, edge))
            axes.grid(False)
            axes.set(xlabel="layer", ylabel="layer", title=short(name, 36))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
            inside = facts.entrance(one, threshold)
            if inside is not None and inside.tunnel.start is not None and inside.tunnel.start.index + 1 < len(cka):
                for colour, dash in (("#ffffff", "-"), ("#1b1f24", ":")):  # seen on bright and on dark cells
                    axes.axvline(inside.tunnel.start.index + 1.5, color=colour, lw=1, ls=dash)
                    axes.axhline(inside.tunnel.start.index + 1.5, color=colour, lw=1, ls=dash)
        bar = drawing.colorbar(image, ax=grid, shrink=0.85, label="CKA")
        bar.outline.set_visible(False)
        return drawing
