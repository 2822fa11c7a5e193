"""What every node of a small network shows over the plane of its inputs, layer by layer, with the weights between.

Arrays of the readings: `maps/STEP` [layer, node, y, x] in bytes, `weights/STEP` [layer, node, node before] into all of
these layers but the first, `weights_in/STEP` [node, input]; `maps_layers` and `maps_nodes` number what is shown;
`points` and `points_labels` are training samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Array, Readings
from winze.report import style
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Arms = Mapping[str, Sequence[Readings]]
ACROSS, DOWN = 1.75, 1.12  # from one map to the next, where a map is 1 wide
WIDTH = 11.0, 8.0  # inches of a panel alone, and of one among several
WIDEST = 1.8  # points of the line of the largest weight
LEVELS, FINE = 9, 96  # bands of a map, and the dots along its sides when it is drawn


def node_maps(arms: Arms, theme: str = "light", *, arm: str) -> matplotlib.figure.Figure:
    """Draw the node maps of an arm's network at the end of training: a row a node, a column a layer."""
    readings = _holding(arms, arm)
    return _drawn(readings, _steps(readings)[-1:], theme)


def maps_over_training(arms: Arms, theme: str = "light", *, arm: str) -> matplotlib.figure.Figure:
    """Draw the node maps of an arm's network at every step at which they were kept."""
    readings = _holding(arms, arm)
    steps = _steps(readings)
    if len(steps) < 2:
        raise UnreadError(f"the node maps of {arm} were kept at one step only")
    return _drawn(readings, steps, theme)


def sample_points(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw samples that the networks learnt from, a colour a class."""
    found = next((one for runs in arms.values() for one in runs if "points" in one.arrays), None)
    if found is None:
        raise UnreadError("these readings hold no points")
    with style.use(theme) as colours:
        drawing = style.figure(4.0, 4.2)
        axes = drawing.add_subplot()
        points, labels = found.arrays["points"], found.arrays["points_labels"]
        for label, colour in zip(np.unique(labels), colours.scans, strict=False):
            x, y = points[labels == label].T
            axes.scatter(x, y, s=10, lw=0, color=colour, label=f"class {label}")
        axes.set(xlabel="x", ylabel="y", aspect="equal")
        style.legend(drawing)
        return drawing


def _holding(arms: Arms, arm: str) -> Readings:
    found = next((one for one in arms.get(arm, ()) if _steps(one)), None)
    if found is None:
        raise UnreadError(f"no node maps of {arm} were kept")
    return found


def _steps(readings: Readings) -> list[int]:
    return sorted(int(name.removeprefix("maps/")) for name in readings.arrays if name.startswith("maps/"))


def _drawn(readings: Readings, steps: list[int], theme: str) -> matplotlib.figure.Figure:
    from matplotlib.lines import Line2D

    layers, nodes = (len(readings.arrays[f"maps_{what}"]) for what in ("layers", "nodes"))
    wide = WIDTH[len(steps) > 1]
    tall = wide * (nodes * DOWN + 0.6) / ((layers + 1) * ACROSS)
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(steps), wide=wide, tall=tall)
        drawing.set_size_inches(wide * min(2, len(steps)), drawing.get_figheight())
        for axes, step in zip(grid, steps, strict=True):
            _panel(axes, readings, step, colours)
            if len(steps) > 1:
                axes.set_title("before training" if step == 0 else f"after {step:,} steps")
        said = {"weight above 0": colours.probe, "weight below 0": colours.rank}
        handles = [Line2D([], [], color=colour) for colour in said.values()]
        drawing.legend(handles, said, loc="outside lower center", ncols=2)
        return drawing


def _panel(axes: matplotlib.axes.Axes, readings: Readings, step: int, colours: style.Theme) -> None:
    """The inputs, then each layer, with lines between: one pair of axes, in which a map is a square of side 1."""
    maps = readings.arrays[f"maps/{step}"].astype(np.float64)
    layers, nodes = (readings.arrays[f"maps_{what}"].tolist() for what in ("layers", "nodes"))
    side = np.linspace(0, 255, maps.shape[-1])
    inputs = np.stack(np.broadcast_arrays(side[None, :], side[:, None]))
    columns = [(f"h{_below(layer)}", shown) for layer, shown in zip(layers, maps, strict=True)]
    for column, (name, shown) in enumerate([("input", inputs), *columns]):
        for row, one in enumerate(shown):
            _map(axes, one, *_corner(column, row, len(shown), len(nodes)))
        axes.text(column * ACROSS + 0.5, 0.12, name, ha="center", va="bottom", fontsize=8)
    weights = [readings.arrays[f"weights_in/{step}"], *readings.arrays[f"weights/{step}"]]
    for column, one in enumerate(weights):
        _lines(axes, one.astype(np.float64), column, len(nodes), colours)
    for row, node in enumerate(nodes):
        aside = len(columns) * ACROSS + 1.08, -row * DOWN - 0.5
        axes.text(*aside, f"{node}", ha="left", va="center", fontsize=7, color=colours.faint)
        if "points" in readings.arrays:
            _over(axes, readings, _corner(len(columns), row, len(nodes), len(nodes)))
    axes.set(xlim=(-0.05, len(columns) * ACROSS + 1.3), ylim=(-len(nodes) * DOWN, 0.45), aspect="equal")
    axes.set_axis_off()
    axes.set_rasterization_zorder(1)  # what lies below becomes one picture: as shapes a page would be megabytes


def _corner(column: int, row: int, rows: int, of: int) -> tuple[float, float]:
    """Where a map's lower left corner lies; a column of fewer rows stands in the middle."""
    return column * ACROSS, -(row + (of - rows) / 2) * DOWN - 1


def _map(axes: matplotlib.axes.Axes, shades: Array, x: float, y: float) -> None:
    """A map in bands, as contours would show them, and much faster: drawn from a grid that is made fine linearly."""
    between = np.linspace(0, len(shades) - 1, FINE)
    to_fine = np.stack([np.interp(between, np.arange(len(shades)), unit) for unit in np.eye(len(shades))], 1)
    bands = np.minimum(to_fine @ shades @ to_fine.T / 255 * LEVELS // 1, LEVELS - 1)
    looks: dict[str, Any] = {"origin": "lower", "cmap": "viridis", "vmin": 0, "vmax": LEVELS - 1, "zorder": 0}
    axes.imshow(bands, extent=(x, x + 1, y, y + 1), interpolation="nearest", **looks)


def _lines(axes: matplotlib.axes.Axes, weights: Array, column: int, rows: int, colours: style.Theme) -> None:
    """A line for each weight into the next column: its colour is the sign, its width the size."""
    from matplotlib.collections import LineCollection

    most = np.nanmax(np.abs(weights), initial=0.0) or 1.0
    order = np.argwhere(np.isfinite(weights))  # those of a network that is lost are left out
    order = order[np.argsort(np.abs(weights)[tuple(order.T)])].tolist()
    ends = []
    for to, start in order:
        left, right = _corner(column, start, weights.shape[1], rows), _corner(column + 1, to, len(weights), rows)
        ends.append([(left[0] + 1.02, left[1] + 0.5), (right[0] - 0.02, right[1] + 0.5)])
    sizes = [weights[to, start] / most for to, start in order]
    shown = LineCollection(
        ends,
        colors=[colours.probe if size > 0 else colours.rank for size in sizes],
        linewidths=[WIDEST * abs(size) for size in sizes],
        zorder=2,
    )
    axes.add_collection(shown)


def _over(axes: matplotlib.axes.Axes, readings: Readings, corner: tuple[float, float]) -> None:
    """The training points on a map, which spans -1 to 1 both ways."""
    points, labels = readings.arrays["points"].astype(np.float64), readings.arrays["points_labels"]
    for label, colour in enumerate(("#ffffff", "#000000")):
        x, y = ((points[labels == label] + 1) / 2 + corner).T
        axes.scatter(x, y, s=0.8, lw=0, color=colour, zorder=0.5)


def _below(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
