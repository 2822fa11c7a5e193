"""What is left at each layer: probes and ranks before and after the task with squares (thesis, figure 4.2.2).

    winze run erosion/layers --scale cpu    # an MLP on digits
    winze run erosion/layers --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 2 points x 3 seeds

Probes and numerical ranks are read on the original images.
"""

from dataclasses import dataclass

import numpy as np

from winze.lab import Recipe, at_least, at_most, several
from winze.lab.claims.quantities import At, RunNumber, hidden
from winze.readings import Readings
from winze.readings.over_seeds import layer_numbers
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._settings import after
from winze.recipes.erosion._work import CLEAN
from winze.report.experiment import over_depth

BEFORE, AFTER = "numerical_rank before", "numerical_rank"


@dataclass(frozen=True)
class Ranks(RunNumber):
    """The share of layers whose rank fell, or the mean over layers of the rank after over that before."""

    fallen: bool = False
    measure: str = AFTER

    @property
    def measures(self) -> tuple[str, ...]:
        return AFTER, BEFORE

    def __call__(self, readings: Readings) -> float:
        count, layers = readings.conventions["layer_count"], layer_numbers(readings).values()
        inside = np.array([layer < count for layer in layers])  # logits have no more rank than there are classes
        ratio = (readings.curve(AFTER) / readings.curve(BEFORE))[inside]
        return float((ratio < 1).mean() if self.fallen else np.mean(ratio))


second = (At("probe", 1) - after(1, CLEAN)).named("probe of layer 2 above the whole network, after task 1")
fallen = Ranks(fallen=True).named("share of layers whose rank falls")
remaining = Ranks().named("rank after over rank before, mean over layers")
lost = (hidden("probe before") - hidden("probe")).named("probe accuracy lost at the last hidden layer")

recipe = Recipe(
    "erosion/layers",
    **use.OVER_DEPTH,
    shows="the task with squares lowers probes and ranks at every layer",
    axes=use.AXES,
    scales=use.scales(),
    claims=(
        use.claim(
            "after task 1 a probe at the second layer is as accurate as the whole network on original images",
            "fig. 4.2.2",
            at_least(second, 0.0),
            paper="matches",
        ),
        use.claim(
            "task 1 lowers the rank far at every layer: at nine tenths of the layers or more, to half on average",
            "fig. 4.2.2",
            several("number", {"layers": at_least(fallen, 0.9), "rank": at_most(remaining, 0.5)}),
            paper="far lower at each layer",
            departure="the two margins are ours; the thesis shows curves",
            headline=True,
        ),
    ),
    questions=(use.question("does the probe at the last hidden layer lose 10 points or more?", at_least(lost, 0.1)),),
    figures=(
        over_depth(
            {"before": "probe before", "after": "probe"}, panel=use.EACH, up="probe accuracy on original images"
        ),
        over_depth(
            {"before": BEFORE, "after": AFTER}, panel=use.EACH, up="numerical rank on original images", shared=False
        ),
    ),
)
