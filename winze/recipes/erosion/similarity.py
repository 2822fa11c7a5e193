"""Which layers change: CKA between all layers before and after the task with squares (thesis, figure 4.2.1).

    winze run erosion/similarity --scale cpu    # an MLP on digits
    winze run erosion/similarity --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 2 points x 3 seeds

Rows are layers after task 0, columns layers after task 1, both on the original test set. CKA is the unbiased one of
minibatches, of features averaged over positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from winze.lab import Axis, Claim, Recipe, at_least, at_most
from winze.recipes.erosion import _settings as use
from winze.report import style
from winze.report.experiment import Drawing, PointRuns, UnreadError, over_depth

if TYPE_CHECKING:
    import matplotlib.figure

CKA = "cka_before_after"


def draw_map(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the mean CKA over seeds, one panel per point."""
    found = {point: [one.arrays[CKA] for one in seeds if CKA in one.arrays] for point, seeds in runs.items()}
    found = {point: maps for point, maps in found.items() if maps}
    if not found:
        raise UnreadError("no CKA before and after was read")
    with style.use(theme):
        drawing, grid = style.panels(len(found), tall=3.2)
        for axes, (point, maps) in zip(grid, found.items(), strict=True):
            edge = len(maps[0]) + 0.5
            shown = np.mean(maps, axis=0)
            image = axes.imshow(shown, vmin=0, vmax=1, cmap="viridis", extent=(0.5, edge, edge, 0.5))
            axes.grid(False)
            axes.set(xlabel="layer after task 1", ylabel="layer after task 0", title=str(point["network"]))
        drawing.colorbar(image, ax=grid, shrink=0.85, label="CKA").outline.set_visible(False)
        return drawing


recipe = Recipe(
    "erosion/similarity",
    **use.ABOUT | {"measures": (*use.COURSE, *use.DEPTH)},
    shows="the task with squares replaces the features of all but the first layers",
    axes={"network": Axis("", use.NETWORKS), "first": Axis("first", ("random", "none"))},
    scales=use.scales(
        smoke_axes=use.MLP | use.RANDOM_FIRST,
        cpu_axes=use.MLP | use.RANDOM_FIRST,
        gpu_axes=use.LARGE | use.RANDOM_FIRST,
        departures=(use.SHORTER, use.GRIDDED),
    ),
    claims=(
        Claim(
            "layers of the deeper half are dissimilar before and after task 1 (mean CKA of 0.5 or less)",
            "fig. 4.2.1",
            at_most(use.deep_cka, 0.5),
            each=("network", "first"),
            paper="dark diagonal",
            headline=True,
        ),
        Claim(
            "the first layers (a quarter) stay more similar than the rest",
            "fig. 4.2.1",
            at_least(use.early_cka, 0.0),
            each=("network", "first"),
            paper="lighter top left",
        ),
    ),
    figures=(
        Drawing("CKA before and after", draw_map),
        over_depth("cka_to_before", panel="network", up="CKA of a layer before and after"),
    ),
)
