"""How large a ResNet's feature maps are, and where its tunnel starts. This is not in the thesis.

    winze run tunnel/stem --scale cpu    # ResNet-18 with an eighth of the channels on digits, 12 run-minutes
    winze run tunnel/stem --scale gpu    # ResNet-18 on CIFAR-10, 3 seeds, 23 run-minutes on an H200

The thesis gives its ResNets a 7 x 7 convolution and a pool, without the stride, and finds the tunnel of ResNet-18 at
layer 13. `maps` is the side of the first block's feature maps as a share of the image's: 1/4 with stride 2, 1/2 with
stride 1, and 1 with a 3 x 3 convolution and no pool.
"""

import math

from winze.lab import Axis, Question, Recipe, Scale, lower, rises, tunnel_at
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import OOD_LOST
from winze.report.experiment import over_depth, tunnel_starts

STEMS = dict(zip((0.25, 0.5, 1), use.STEMS.values(), strict=True))
cpu = use.on_digits({"network.name": "winze/resnet18x0.125"}, "ResNet-18 with an eighth of the channels")

recipe = Recipe(
    "tunnel/stem",
    **use.scanned(),
    shows="the larger a ResNet-18's feature maps, the later its tunnel starts",
    study=use.resnets,
    axes={"maps": Axis("network.options", STEMS)},
    scales=use.scales(
        cpu,
        Scale(
            {**use.GRID, **use.TINY, "reading.pool": use.POOLED, "training": use.gentle(use.RESNET, 16)},
            seeds=3,
            departures=(use.ON_TINY, "16 epochs instead of 164, in bf16", use.GENTLE, use.ON_GRID),
        ),
        use.as_published(),
    ),
    questions=(
        Question(
            "does the tunnel start later the larger the feature maps?",
            rises("tunnel_start", over="maps", scale=math.log2),
        ),
        Question(
            "does the tunnel start at the thesis's layer 13 (within two layers)?",
            tunnel_at(0.95, 13),
            each="maps",
            paper=13,
            scales=("gpu", "paper"),
        ),
        Question(
            "do the largest feature maps lose less OOD accuracy than the smallest?",
            lower(OOD_LOST, {"maps": 1}, than={"maps": 0.25}),
            departure=use.FEW_IMAGES,
        ),
    ),
    figures=(tunnel_starts("maps"), over_depth("probe", colour="maps", ood=True)),
)
