"""Maps: how alike the features of any two places are, and a measure over layers and training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import facts
from winze.readings.over_seeds import Arms, layer_numbers, mean_tunnel, means_of
from winze.readings.wording import label, number, short
from winze.report import style
from winze.report.scan.scans import Scans, UnreadError, holding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def cka_map(scans: Scans, threshold: float = 0.95, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw CKA between all pairs of places, scans side by side; lines mark where the tunnel begins."""
    return _squares(scans, "cka", "CKA", threshold, theme, vmin=0, vmax=1)


def distance_map(
    scans: Scans, array: str = "l1", said: str = "mean L1 distance", threshold: float = 0.95, theme: str = "light"
) -> matplotlib.figure.Figure:
    """Draw a stored matrix of distances between all pairs of places; places of another width have none."""
    return _squares(scans, array, said, threshold, theme, vmin=0)


def change_map(scans: Scans, array: str, across: str, up: str, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw stored CKA between the places of a network at two times."""
    return _squares(scans, array, "CKA", 0.95, theme, (across, up), vmin=0, vmax=1)


def training_map(
    arms: Arms, theme: str = "light", *, measure: str, cap: float | None = None
) -> matplotlib.figure.Figure:
    """Draw the mean of a measure over layers (up) and readings during training (across), a panel for each arm.

    Values above `cap` have its colour. A line marks where the tunnel of the mean curve begins.
    """
    drawn = {arm: one for arm, one in means_of(arms).items() if facts.over_steps(one, measure)[0]}
    if not drawn:
        raise UnreadError(f"no {label(measure)} was read while the network was trained")
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(drawn), tall=3.2)
        for axes, (arm, one) in zip(grid, drawn.items(), strict=True):
            when, values = facts.over_steps(one, measure)
            top = float(np.nanmax(values)) if cap is None else cap
            extent = (0.5, len(when) + 0.5, 0.5, len(values) + 0.5)
            image = _image(axes, values, extent, colours, vmin=0, vmax=top, aspect="auto")
            shown = list(range(0, len(when), -(-len(when) // 6)))
            axes.set_xticks([spot + 1 for spot in shown], [number(when[spot]) for spot in shown])
            axes.set(xlabel="training step", ylabel="layer", title=f"{short(arm.replace('_', ' '), 30)}")
            _label_layers(axes, list(layer_numbers(one).values()))
            if facts.has(one, "probe"):
                start = mean_tunnel(arms[arm], resamples=0).start
                _mark(axes, None if start is None else start.index, len(values), across=False)
            over = cap is not None and bool((values > cap).any())
            bar = drawing.colorbar(image, ax=axes, label=label(measure), extend="max" if over else "neither")
            bar.outline.set_visible(False)
        return drawing


def _squares(
    scans: Scans,
    array: str,
    said: str,
    threshold: float,
    theme: str,
    sides: tuple[str, str] = ("layer", "layer"),
    **limits: float,
) -> matplotlib.figure.Figure:
    found = holding(scans, lambda one: one.arrays.get(array) is not None and one.arrays[array].size > 0, f"{said} map")
    with style.use(theme) as colours:
        across = min(3, len(found))
        down = -(-len(found) // across)
        drawing = style.figure(2.9 * across + 1, 3.2 * down)
        grid = drawing.subplots(down, across, squeeze=False)
        for axes in grid.flat[len(found) :]:
            axes.set_axis_off()
        for axes, (name, one) in zip(grid.flat, found.items(), strict=False):
            values = one.arrays[array]
            edge = len(values) + 0.5
            image = _image(axes, values, (0.5, edge, 0.5, edge), colours, **limits)
            axes.set(xlabel=sides[0], ylabel=sides[1], title=short(name, 36))
            _label_layers(axes, list(layer_numbers(one).values()), across=True)
            inside = facts.entrance(one, threshold)
            start = None if inside is None or inside.tunnel.start is None else inside.tunnel.start.index
            _mark(axes, start, len(values))
        bar = drawing.colorbar(image, ax=grid, shrink=0.85, label=said)
        bar.outline.set_visible(False)
        return drawing


def _image(
    axes: matplotlib.axes.Axes,
    values: facts.Array,
    extent: tuple[float, float, float, float],
    colours: style.Theme,
    **looks: Any,
) -> Any:
    from matplotlib.ticker import MaxNLocator

    axes.set_facecolor(colours.shade)  # NaN shows as the background
    image = axes.imshow(values, origin="lower", cmap="viridis", extent=extent, interpolation="nearest", **looks)
    axes.grid(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
    return image


def _label_layers(axes: matplotlib.axes.Axes, numbers: list[int], across: bool = False) -> None:
    """Write the paper's numbers of layers at the axis upwards, or at both."""
    shown = range(0, len(numbers), max(1, len(numbers) // 8))
    for axis in (axes.yaxis, axes.xaxis) if across else (axes.yaxis,):
        axis.set_ticks([spot + 1 for spot in shown], [str(numbers[spot]) for spot in shown])


def _mark(axes: matplotlib.axes.Axes, start: int | None, count: int, across: bool = True) -> None:
    """Draw lines behind the tunnel's start that are seen on bright and on dark cells."""
    if start is None or start + 1 >= count:
        return
    for colour, dash in (("#ffffff", "-"), ("#1b1f24", ":")):
        axes.axhline(start + 1.5, color=colour, lw=1, ls=dash)
        if across:
            axes.axvline(start + 1.5, color=colour, lw=1, ls=dash)
