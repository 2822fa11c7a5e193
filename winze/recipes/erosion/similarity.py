"""Which layers change: CKA between all layers before and after the task with squares (thesis, figure 4.2.1).

    winze run erosion/similarity --scale cpu    # an MLP on digits
    winze run erosion/similarity --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 2 points x 3 seeds

Rows are layers after task 0, columns layers after task 1, both on the original test set. CKA is the unbiased one of
minibatches, of features averaged over positions.
"""

from functools import partial

import numpy as np

from winze.lab import Recipe, at_least, at_most
from winze.lab.claims.quantities import Over
from winze.readings import Array
from winze.recipes.erosion import _settings as use
from winze.report.experiment import of_scans, over_depth
from winze.report.scan.cka_map import change_map

CKA = "cka_before_after"


def first_quarter_over_rest(curve: Array) -> float:
    """How much higher a curve is in the first quarter of the places than in the rest."""
    cut = max(1, len(curve) // 4)
    return float(np.nanmean(curve[:cut]) - np.nanmean(curve[cut:]))


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
        of_scans("CKA before and after", change_map, array=CKA, across="layer after task 1", up="layer after task 0"),
        over_depth("cka_to_before", panel="network", up="CKA of a layer before and after"),
    ),
)
