"""Embeddings: the samples at chosen places, in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Readings, facts
from winze.readings.wording import short
from winze.report import style
from winze.report.scan.scans import Scans, UnreadError, holding

if TYPE_CHECKING:
    import matplotlib.figure

MOST = 6


def chosen(readings: Readings, most: int = MOST) -> list[int]:
    """At most this many of the places that have an embedding: the first, the last, the tunnel's start, and between."""
    stored = [index for index, _ in facts.indexed(readings, "embedding")]
    if len(stored) <= most:
        return stored
    picks = {stored[round(spot)] for spot in np.linspace(0, len(stored) - 1, most)}
    found = facts.entrance(readings)
    start = None if found is None or found.tunnel.start is None else found.tunnel.start.index
    if start in stored and start not in picks:
        inner = picks - {stored[0], stored[-1]}
        picks = picks - {min(inner, key=lambda pick: abs(pick - start))} | {start}
    return sorted(picks)


def class_names(readings: Readings) -> list[str]:
    """A name for every label in the embeddings: the stored class names, else the number."""
    labels = readings.arrays.get("embedding/labels")
    names = readings.conventions.classes or []
    count = 0 if labels is None or not labels.size else int(labels.max()) + 1
    return [str(names[spot]) if spot < len(names) else str(spot) for spot in range(count)]


def embedding(scans: Scans, at: Sequence[int] | None = None, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the samples at some places (indexes from 0; left open, up to six over the depth), coloured by class."""
    found = holding(scans, lambda one: bool(chosen(one)), "embedding")
    rows = {name: list(chosen(one) if at is None else at) for name, one in found.items()}
    for name, one in found.items():
        missing = [index for index in rows[name] if f"embedding/{index}" not in one.arrays]
        if missing:
            raise UnreadError(f"no embedding of place {missing[0]}; there are: {chosen(one, 10**6)}")
    with style.use(theme) as colours:
        wide = max(len(row) for row in rows.values())
        across = wide if len(found) > 1 or wide < 4 else -(-wide // 2)
        fits = 30 if across == 1 else 14
        down = sum(-(-len(row) // across) for row in rows.values())
        drawing = style.figure(max(3.2, 2.1 * across), 2.2 * down + 0.5)
        grid = drawing.subplots(down, across, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        top = 0
        for name, one in found.items():
            cells = grid[top:].flat
            for axes, index in zip(cells, rows[name], strict=False):
                axes.set_axis_on()
                _scatter(axes, one, index, colours)
                axes.set_title(", ".join(filter(None, (short(name, fits), f"layer {index + 1}"))), fontsize=8)
            top += -(-len(rows[name]) // across)
        handles, names = grid.flat[0].get_legend_handles_labels()
        if 0 < len(names) <= 20:
            drawing.legend(
                handles, names, loc="outside lower center", markerscale=2, ncols=min(len(names), max(3, 2 * across))
            )
        kind = next((one.conventions.embedding for one in found.values()), None)
        if kind:
            drawing.suptitle({"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}.get(str(kind), str(kind)), fontsize=9)
        return drawing


def _scatter(axes: object, readings: Readings, index: int, colours: style.Theme) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    points = readings.arrays[f"embedding/{index}"]
    labels = readings.arrays.get("embedding/labels")
    names = class_names(readings)
    axes.set(xticks=[], yticks=[])
    if labels is None or len(labels) != len(points):
        axes.scatter(points[:, 0], points[:, 1], s=5, color=colours.probe, lw=0)
        return
    for spot in np.unique(labels):
        mine = points[labels == spot]
        colour = colours.scans[spot % len(colours.scans)]
        marker = style.MARKERS[spot // len(colours.scans) % len(style.MARKERS)]
        name = short(names[spot], 16)
        axes.scatter(mine[:, 0], mine[:, 1], s=6, color=colour, marker=marker, lw=0, alpha=0.8, label=name)
