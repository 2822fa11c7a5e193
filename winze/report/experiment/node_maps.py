"""What every node of a small network shows over the plane of its inputs, and how far apart its layers are.

Arrays of the readings: `maps/STEP` [layer, node, y, x] in bytes, `weights/STEP` [layer, node, node before] into all of
these layers but the first, `weights_in/STEP` [node, input]; `maps_layers` and `maps_nodes` number what is shown;
`points` and `points_labels` are training samples, `distances` and `distances_branches` tables between all layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Array
from winze.report import style
from winze.report.experiment.drawing import AxisNames, Drawing, PointRuns, PointsAt, as_axes, chosen, grouped
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

ACROSS, DOWN = 1.75, 1.12  # from one map to the next, where a map is 1 wide
LEVELS = np.linspace(-0.01, 255.01, 10)  # the bands of a map
BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
Arrays = dict[str, Array]


def node_maps(at: PointsAt, title: str, training: bool = False) -> Drawing:
    """The maps of a network, a row per node and a column per layer, at the end or at every step that was kept."""

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        from matplotlib.lines import Line2D

        arrays = _holding(runs, "maps_layers", at)
        steps = sorted(int(name.removeprefix("maps/")) for name in arrays if name.startswith("maps/"))
        if training and len(steps) < 2:
            raise UnreadError("node maps were kept at one step only")
        wide, steps = (8.0, steps) if training else (11.0, steps[-1:])
        tall = wide * (len(arrays["maps_nodes"]) * DOWN + 0.6) / ((len(arrays["maps_layers"]) + 1) * ACROSS)
        with style.use(theme) as colours:
            drawing, grid = style.panels(len(steps), wide=wide, tall=tall)
            drawing.set_size_inches(wide * min(2, len(steps)), drawing.get_figheight())
            for axes, step in zip(grid, steps, strict=True):
                _panel(axes, arrays, step, colours)
                if training:
                    axes.set_title("before training" if step == 0 else f"after {step:,} steps")
            said = {"weight above 0": colours.probe, "weight below 0": colours.rank}
            handles = [Line2D([], [], color=colour) for colour in said.values()]
            drawing.legend(handles, said, loc="outside lower center", ncols=2)
            return drawing

    return Drawing(title, draw, tuple(at))


def _panel(axes: matplotlib.axes.Axes, arrays: Arrays, step: int, colours: style.Theme) -> None:
    """The inputs, then each layer, with the weights between as lines; a map is a square of side 1."""
    layers, nodes = (arrays[f"maps_{what}"].tolist() for what in ("layers", "nodes"))
    side = np.linspace(0, 1, arrays[f"maps/{step}"].shape[-1])
    inputs = 255 * np.stack(np.broadcast_arrays(side[None, :], side[:, None]))
    names = ["input", *(f"h{layer}".translate(BELOW) for layer in layers)]
    for column, (name, maps) in enumerate(zip(names, [inputs, *arrays[f"maps/{step}"]], strict=True)):
        for row, one in enumerate(maps):
            x, y = _corner(column, row, len(maps), len(nodes))
            axes.contourf(x + side, y + side, one, LEVELS, cmap="viridis", zorder=0)
        axes.text(column * ACROSS + 0.5, 0.12, name, ha="center", va="bottom", fontsize=8)
    for column, weights in enumerate([arrays[f"weights_in/{step}"], *arrays[f"weights/{step}"]]):
        _lines(axes, weights.astype(np.float64), column, len(nodes), colours)
    for row, node in enumerate(nodes):
        x, y = _corner(len(layers), row, len(nodes), len(nodes))
        axes.text(x + 1.08, y + 0.5, f"{node}", ha="left", va="center", fontsize=7, color=colours.faint)
        for points, colour in zip(_by_class(arrays), ("#ffffff", "#000000"), strict=False):
            axes.scatter(x + (points[0] + 1) / 2, y + (points[1] + 1) / 2, s=0.8, lw=0, color=colour, zorder=0.5)
    axes.set(xlim=(-0.05, len(layers) * ACROSS + 1.3), ylim=(-len(nodes) * DOWN, 0.45), aspect="equal")
    axes.set_axis_off()
    axes.set_rasterization_zorder(1)  # what lies below becomes one image: as shapes a page would be megabytes


def _lines(axes: matplotlib.axes.Axes, weights: Array, column: int, rows: int, colours: style.Theme) -> None:
    """A line per weight into the next column: its colour is the sign, its width the size; NaN has none."""
    from matplotlib.collections import LineCollection

    order = sorted(np.argwhere(np.isfinite(weights)).tolist(), key=lambda spot: abs(weights[tuple(spot)]))
    sizes = np.array([weights[to, start] for to, start in order]) / (np.nanmax(np.abs(weights), initial=0.0) or 1.0)
    ends = []
    for to, start in order:
        left, right = _corner(column, start, weights.shape[1], rows), _corner(column + 1, to, len(weights), rows)
        ends.append([(left[0] + 1.02, left[1] + 0.5), (right[0] - 0.02, right[1] + 0.5)])
    tints = [colours.probe if size > 0 else colours.rank for size in sizes]
    axes.add_collection(LineCollection(ends, colors=tints, linewidths=1.8 * np.abs(sizes), zorder=2))


def _corner(column: int, row: int, rows: int, of: int) -> tuple[float, float]:
    """The lower left corner of a map; a column of fewer rows stands in the middle."""
    return column * ACROSS, -(row + (of - rows) / 2) * DOWN - 1


def _by_class(arrays: Arrays) -> list[Array]:
    """The training points [axis, point] of each class."""
    labels = arrays.get("points_labels", np.empty(0))
    return [arrays["points"][labels == label].astype(np.float64).T for label in np.unique(labels)]


def _holding(runs: PointRuns, array: str, at: PointsAt | None = None) -> Arrays:
    """The arrays of the first readings that have this one."""
    found = (one.arrays for seeds in chosen(runs, at).values() for one in seeds if array in one.arrays)
    arrays = next(found, None)
    if arrays is None:
        raise UnreadError(f"no {array.replace('_', ' ')} were kept")
    return arrays


def sample_points(title: str) -> Drawing:
    """Training samples, a colour per class."""

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        with style.use(theme) as colours:
            drawing = style.figure(4.0, 4.2)
            axes = drawing.add_subplot(xlabel="x", ylabel="y", aspect="equal")
            for label, (x, y) in enumerate(_by_class(_holding(runs, "points"))):
                axes.scatter(x, y, s=10, lw=0, color=colours.scans[label], label=f"class {label}")
            style.legend(drawing)
            return drawing

    return Drawing(title, draw)


def distance_tables(panel: AxisNames, at: PointsAt, title: str) -> Drawing:
    """The mean distance between any two layers of each point's first network, on a logarithmic scale."""

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        from matplotlib.colors import LogNorm

        there = grouped(chosen(runs, at), panel)
        found = {name: _holding({point: runs[point]}, "distances") for name, (point, *_) in there.items()}
        if not found:
            raise UnreadError("no distances between layers were kept")
        with style.use(theme) as colours:
            drawing = style.figure(2.5 * len(found) + 1.1, 5.2)
            grid = drawing.subplots(2, len(found), squeeze=False, sharey="row")
            for start, (array, what) in enumerate(
                {"distances": "streams h", "distances_branches": "branches f"}.items()
            ):
                tables = {name: arrays[array].astype(np.float64) for name, arrays in found.items()}
                apart = np.concatenate([table[table > 0] for table in tables.values()])  # the diagonal has no logarithm
                looks: Any = {"origin": "lower", "cmap": "viridis", "norm": LogNorm(apart.min(), apart.max())}
                for axes, (name, table) in zip(grid[start], tables.items(), strict=True):
                    ends = start - 0.5, start - 0.5 + len(table)
                    axes.set_facecolor(colours.shade)
                    image = axes.imshow(np.where(table > 0, table, np.nan), extent=(*ends, *ends), **looks)
                    axes.grid(False)
                    axes.set(xlabel="layer", title="" if start else name)
                grid[start][0].set_ylabel(f"layer, {what}")
                drawing.colorbar(image, ax=grid[start], format=style.power_of_ten, label="distance").minorticks_off()
            return drawing

    return Drawing(title, draw, as_axes(panel, tuple(at)))
