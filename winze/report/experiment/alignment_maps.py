"""The alignment of layers with their inputs, as maps: layers side by side, points and steps one below the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from winze.measure.alignment import stored_layers
from winze.readings import Array, Point
from winze.report import style
from winze.report.experiment.drawing import Drawing, PointRuns, PointsAt, chosen
from winze.report.scan.scans import UnreadError


def alignment_maps(title: str, at: PointsAt, row: Callable[[Point], str]) -> Drawing:
    """The stored alignment of four layers in the first run of each point, a row per point (named by `row`) and step.

    A bright diagonal: the layer reads first what its input has most of. A mean over runs would blur it.
    """

    def draw(runs: PointRuns, theme: str = "light") -> Any:
        rows: dict[str, Array] = {}
        for point, (first, *_) in chosen(runs, at).items():
            last = max((one.index or 0 for one in first.rows if one.measure == "alignment"), default=0)
            maps = {int(name[10:]): one for name, one in first.arrays.items() if name.startswith("alignment/")}
            rows |= {f"{row(point)}, step {step}": maps[step] / 255 for step in sorted(maps)}
        if not rows:
            raise UnreadError(f"{title}: no alignment was read")
        with style.use(theme) as colours:
            drawing = style.figure(8.1, 1.75 * len(rows) + 0.5)
            grid = drawing.subplots(len(rows), len(next(iter(rows.values()))), squeeze=False)
            for line, (said, matrices) in zip(grid, rows.items(), strict=True):
                for axes, matrix, layer in zip(line, matrices, stored_layers(last), strict=False):
                    shown = axes.imshow(matrix, vmin=0, vmax=max(one.max() for one in rows.values()))
                    axes.set(xticks=[], yticks=[], title=f"layer {layer + 1}")
                line[0].set_ylabel(said, color=colours.ink, fontsize=8)
            drawing.colorbar(shown, ax=grid, shrink=0.6, label="absolute cosine", aspect=30)
            return drawing

    return Drawing(title, draw)
