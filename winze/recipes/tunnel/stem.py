"""How large a ResNet's feature maps are, and where its tunnel begins. This is not in the thesis.

    winze run tunnel/stem --scale cpu    # ResNet-18 with an eighth of the channels on digits
    winze run tunnel/stem --scale gpu    # ResNet-18 on CIFAR-10, 3 seeds

The thesis gives its ResNets a 7 x 7 convolution and a pool, and not the stride; it finds the tunnel of ResNet-18 at
layer 13. `quarter` has the stride 2, as ImageNet's ResNets: pictures of 32 x 32 enter the first block as 8 x 8. `half`
has the stride 1 (16 x 16), and `full` a 3 x 3 convolution without a pool (32 x 32). Under which does it begin there?
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, lower, rises, tunnel_at
from winze.lab.quantities import OOD, PeakLayer, TunnelLayer, Whole, drop, hidden
from winze.lab.study import Study, train_and_read
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    ON_GRID,
    OTHER_DIGITS,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    POOLED,
    REFERENCE,
    RESNET,
    SYSTEM,
    TEN_OF_CIFAR100,
    TINY,
    URL,
    gentle,
    shortened,
)
from winze.report.starts import tunnel_starts

STEMS = {
    "quarter": {"stem": "thesis", "stem_stride": 2},
    "half": {"stem": "thesis", "stem_stride": 1},
    "full": {"stem": "cifar"},
}  # by the side of the first block's maps, against the picture's
DOUBLINGS = (0.0, 1.0, 2.0)
PUBLISHED = 13
STAND_INS = {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS, "gpu": TINY}

digits = Study(
    "winze/resnet18x0.125", "digits[0-4]", CONVOLUTIONS, ood=("digits[5-9]",), places="blocks", pool="flatten"
)
recipe = Recipe(
    name="tunnel/stem",
    system=SYSTEM,
    shows="the larger a ResNet's feature maps, the later its tunnel begins",
    paper=f"an experiment of our own, beside: {PAPER}",
    url=URL,
    arms={arm: {"options": options} for arm, options in STEMS.items()},
    scales={
        "smoke": Scale(
            replace(digits, network="winze/resnet18x0.0625", training=shortened(CONVOLUTIONS, 1), limit=200),
            seeds=(0,),
            departures=(OTHER_DIGITS, "ResNet-18 with 4 channels, 1 epoch on 200 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            departures=(OTHER_DIGITS, "ResNet-18 with an eighth of the channels, 30 epochs; pictures of 8 x 8"),
        ),
        "gpu": Scale(
            Study(
                "winze/resnet18",
                "cifar10",
                gentle(RESNET, 16),
                ood=("tinyimagenet",),
                places="blocks",
                **GRID | {"pool": POOLED},
            ),
            seeds=(0, 1, 2),
            departures=(TINY, "16 epochs instead of 164, in bf16", GENTLE, ON_GRID),
        ),
        "paper": Scale(
            Study("winze/resnet18", "cifar10", RESNET, ood=(TEN_OF_CIFAR100,), places="blocks", **FLAT),
            seeds=(0, 1, 2),
            departures=("there is no published setting: the training of the thesis",),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "rank_at_the_end": hidden("numerical_rank"),
        "other_data_lost_at_the_end": drop("probe", OOD),
        "other_data_peak_layer": PeakLayer("probe", OOD),
    },
    claims=(
        Claim(
            "the larger the maps of the first block, the later the tunnel begins",
            rises("tunnel_start", tuple(STEMS), DOUBLINGS),
            paper="open",
        ),
        *(
            Claim(
                f"the tunnel of ResNet-18 starts at layer {PUBLISHED}: maps of {side} x {side}",
                tunnel_at(arm, 0.95, PUBLISHED),
                paper=PUBLISHED,
                scales=("gpu", "paper"),
            )
            for arm, side in zip(STEMS, (8, 16, 32), strict=True)
        ),
        Claim(
            "ResNets with the largest maps lose less on other data than those with the smallest",
            lower("other_data_lost_at_the_end", "full", than="quarter"),
            paper="open",
            departure=STAND_INS,
        ),
    ),
    departures=(PICTURES, REFERENCE, COUNTED, OWN_NORMALISATION),
    measures=("probe", "accuracy", "numerical_rank", "loss"),
    figures={"Start of the tunnel": tunnel_starts},
)
