"""Images that runs stored, one panel per point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Array
from winze.report import style
from winze.report.experiment.drawing import Drawing, PointRuns
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure


def image_sheets(
    title: str, array: str, sheet: Callable[[Mapping[str, Array]], Array], across: int = 2, below: str = ""
) -> Drawing:
    """What the first seed of every point stored under `array`; `sheet(arrays)` lays it out as one image.

    An image is [height, width, channel], with one channel or three.
    """

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        found = {str(point): seeds[0].arrays for point, seeds in runs.items() if seeds and array in seeds[0].arrays}
        if not found:
            raise UnreadError(f"no {array} were stored")
        sheets = {name: sheet(arrays).squeeze() for name, arrays in found.items()}
        wide = style.WIDE if len(sheets) == 1 else 9.2 / across
        tall = max(one.shape[0] / one.shape[1] for one in sheets.values()) * wide + 0.3 + 0.2 * bool(below)
        with style.use(theme):
            drawing, grid = style.panels(len(found), across, wide, tall)
            for axes, (name, shown) in zip(grid, sheets.items(), strict=True):
                axes.imshow(shown, cmap="gray" if shown.ndim == 2 else None, interpolation="nearest")
                axes.set(title=name, xticks=[], yticks=[], xlabel=below)
                axes.grid(False)
            return drawing

    return Drawing(title, draw)


def tiled(images: Array) -> Array:
    """Images [row, column, channel, height, width] in bytes or from 0 to 1, on a white grid as one, channels last."""
    line, white = max(1, images.shape[-1] // 16), 255 if images.dtype == np.uint8 else 1
    framed = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, line), (0, line)), constant_values=white)
    rows, columns, channels, height, width = framed.shape
    whole = framed.transpose(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels)
    return whole[:-line, :-line]
