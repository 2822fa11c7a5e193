"""Which layers change: CKA between all layers before and after the task with squares (thesis, figure 4.2.1).

    winze run erosion/similarity --scale cpu    # an MLP on digits
    winze run erosion/similarity --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 2 points x 3 seeds

Rows are layers after task 0, columns layers after task 1, both on the original test set. CKA is the unbiased one of
minibatches, of features averaged over positions.
"""

from functools import partial
from typing import Any

import numpy as np

from winze.lab import Recipe, at_least, at_most
from winze.lab.claims.quantities import Over
from winze.readings import Array
from winze.recipes.erosion import _settings as use
from winze.report import style
from winze.report.experiment import Drawing, PointRuns, UnreadError, over_depth

CKA = "cka_before_after"


def first_quarter_over_rest(curve: Array) -> float:
    """How much higher a curve is in the first quarter of the places than in the rest."""
    cut = max(1, len(curve) // 4)
    return float(np.nanmean(curve[:cut]) - np.nanmean(curve[cut:]))


def draw_map(runs: PointRuns, theme: str = "light") -> Any:
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


claim = partial(use.claim, source="fig. 4.2.1")
late = Over("cka_to_before", lambda cka: float(np.nanmean(cka[len(cka) // 2 :])))
deep = late.named("CKA of the deeper half before and after")
early = Over("cka_to_before", first_quarter_over_rest).named("CKA of the first quarter above the rest")
recipe = Recipe(
    "erosion/similarity",
    **use.OVER_DEPTH,
    shows="the task with squares replaces the features of all but the first layers",
    axes=use.AXES,
    scales=use.scales(axes=use.RANDOM_FIRST | {"cpu": use.FIRST}),
    claims=(
        claim(
            "layers of the deeper half are dissimilar before and after task 1 (mean CKA of 0.5 or less)",
            check=at_most(deep, 0.5),
            paper="dark diagonal",
            headline=True,
        ),
        claim(
            "the first layers (a quarter) stay more similar than the rest",
            check=at_least(early, 0.0),
            paper="lighter top left",
        ),
    ),
    figures=(
        Drawing("CKA before and after", draw_map),
        over_depth("cka_to_before", panel="network", up="CKA of a layer before and after"),
    ),
)
