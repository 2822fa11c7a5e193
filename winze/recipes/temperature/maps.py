"""Figures 6.3.3, 6.8.3 and 6.8.4: whether layers read the directions that their input has most of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Array, Readings
from winze.report import style
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure

PREFIX = "alignment/"


def alignment_maps(
    runs: Mapping[str, Sequence[Readings]], theme: str = "light", *, arms: Mapping[str, str]
) -> matplotlib.figure.Figure:
    """Draw the alignment of four layers with their inputs in the first run, a row an arm and a step.

    A bright diagonal: the layer reads first what its input has most of.
    """
    rows = [
        (f"{said}, step {step}", maps) for arm, said in arms.items() for step, maps in _maps(runs.get(arm, ())).items()
    ]
    if not rows:
        raise UnreadError(f"no alignment of {', '.join(arms)} was read")
    count, most = len(rows[0][1]), float(np.ceil(10 * max(maps.max() for _, maps in rows)) / 10)
    with style.use(theme) as colours:
        drawing = style.figure(1.75 * count + 1.1, 1.75 * len(rows) + 0.5)
        grid = drawing.subplots(len(rows), count, squeeze=False)
        for row, (said, maps) in zip(grid, rows, strict=True):
            for axes, one in zip(row, maps, strict=True):
                image = axes.imshow(one, vmin=0, vmax=most, cmap="viridis")
                axes.grid(False)
                axes.set(xticks=[], yticks=[])
            row[0].set_ylabel(said, color=colours.ink, fontsize=8)
        for axes, layer in zip(grid[0], _layers(runs, arms, count), strict=True):
            axes.set_title(f"layer {layer}", fontsize=8)
        bar = drawing.colorbar(image, ax=grid, shrink=0.6, label="absolute cosine", aspect=30)
        bar.outline.set_visible(False)
        return drawing


def drawn(last: int) -> list[int]:
    """Of the layers 0 to `last` those with a map: four, spread from the second on."""
    return sorted({round(1 + (last - 1) * part / 3) for part in range(4)})


def _maps(runs: Sequence[Readings]) -> dict[int, Array]:
    """The maps of the drawn layers in the first run, by step: a mean over runs would blur them."""
    if not runs:
        return {}
    steps = sorted(int(name.removeprefix(PREFIX)) for name in runs[0].arrays if name.startswith(PREFIX))
    return {step: runs[0].arrays[f"{PREFIX}{step}"] / 255 for step in steps}


def _layers(runs: Mapping[str, Sequence[Readings]], arms: Mapping[str, str], count: int) -> list[int]:
    """The numbers of the drawn layers."""
    first = next(runs[arm][0] for arm in arms if runs.get(arm))
    last = max(row.index or 0 for row in first.rows if row.measure == "alignment")
    return [index + 1 for index in drawn(last)][:count]
