"""Beyond the thesis: does neural collapse (Papyan et al., 2020) begin where the tunnel does?

    winze run tunnel/neural_collapse --scale cpu    # VGG-19 with an eighth of the channels, ResNet-20 with half, digits
    winze run tunnel/neural_collapse --scale gpu    # VGG-19 and ResNet-34 on CIFAR-10, 3 seeds

NC1 is the scatter within classes in the directions of the class means, NC2 how far the class means are from a simplex
of equal lengths and angles. Both are known for the last layer of a converged network; here they are read at every
layer, beside the probe and the rank.
"""

from dataclasses import replace
from math import log

from winze.lab import Axis, Question, Reading, Recipe, Scale, at_least, at_most, best, derived, hidden
from winze.lab.claims.quantities import AtTunnel
from winze.measure import missing
from winze.recipes.tunnel import _settings as use
from winze.report.experiment import over_depth, profiles


def share_in_tunnel(start: float, end: float, top: float) -> float:
    """How much of a fall over depth, in logarithms, lies behind the start: log(start / end) / log(top / end)."""
    return log(start / end) / log(top / end) if 0 < end < top else missing("NC1 does not fall over depth")


nc1 = AtTunnel("nc1"), hidden("nc1"), best("nc1")
share = derived("share of the fall of NC1 that lies in the tunnel", share_in_tunnel, *nc1)
networks = {
    "vgg19": {},
    "resnet34": {**use.resnet, "network.name": "winze/resnet34", "reading.pool": use.POOLED},
}
cpu = use.on_digits(
    {},
    "VGG-19 with an eighth of the channels, ResNet-20 with half",
    at=(
        ({"network": "vgg19"}, {"network.name": "winze/vgg19x0.125"}),
        (
            {"network": "resnet34"},
            {"network.name": "winze/resnet20x0.5", "network.options": {}, "training": use.CONVOLUTIONS},
        ),
    ),
)
trainings = (
    ({"network": "vgg19"}, {"training": use.gentle(use.VGG, 30)}),
    ({"network": "resnet34"}, {"training": use.gentle(use.RESNET, 30)}),
)
recipe = Recipe(
    "tunnel/neural_collapse",
    **use.scanned("nc1", "nc2_norm", "nc2_angle"),
    shows="whether neural collapse begins where the tunnel does",
    study=replace(use.study, reading=Reading(measures=("probe", "rank", "collapse"))),
    axes={"network": Axis("", networks)},
    scales=use.scales(
        cpu,
        Scale(
            {**use.GRID, **use.TINY},
            seeds=3,
            at=trainings,
            departures=(use.ON_TINY, use.GENTLE, use.ON_GRID, "30 epochs in bf16"),
        ),
        Scale({"data.size": 32, "reading.pool": "flatten"}, seeds=3),
    ),
    questions=(
        Question(
            "does NC1 fall further in the tunnel, to half of its value at the tunnel's start or less?",
            at_most(
                (hidden("nc1") / AtTunnel("nc1")).named("NC1 at the last hidden layer over that at the start"), 0.5
            ),
            each="network",
        ),
        Question(
            "does most of the fall of NC1 over depth, in logarithms, lie in the tunnel?",
            at_least(share, 0.5),
            each="network",
        ),
        Question(
            "do the angles between class means come closer to a simplex in the tunnel?",
            at_most((hidden("nc2_angle") - AtTunnel("nc2_angle")).named("NC2 angles, change in the tunnel"), 0.0),
            each="network",
        ),
    ),
    figures=(
        profiles("network", second="nc1", title="Probes and NC1 over depth"),
        over_depth("nc2_angle", panel="network"),
    ),
)
