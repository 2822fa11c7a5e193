"""Small networks on CIFAR-10, whose weights come with winze: VGG-19 with a quarter of the channels, ResNet-20, a ViT.

    winze run tunnel/small --scale cpu    # smaller ones on digits
    winze run tunnel/small --scale gpu    # the networks that `winze scan NAME --pretrained` loads, 3 seeds

The thesis reads full VGG-19 and ResNet-34, and no ViT. Whether its picture holds in networks that a laptop scans in
seconds is our own question. `python docs/weights.py RUN...` puts the weights of runs into the package.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from winze.lab import Recipe, Scale
from winze.lab.quantities import OOD, KeptInTunnel, TunnelLayer, Whole, drop, hidden
from winze.lab.study import Study, train_and_read
from winze.recipes.tunnel.claims import has_tunnel, keeps_accuracy, loses_other_data
from winze.recipes.tunnel.numbers import TunnelShare
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    COUNTED,
    GRID,
    NORM,
    ON_GRID,
    OTHER_DIGITS,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    POOLED,
    REFERENCE,
    RESNET,
    SYSTEM,
    TINY,
    URL,
    VGG,
    VIT,
    quick,
    shortened,
)
from winze.report.starts import tunnel_starts

NAMES = {"vgg19": "VGG-19 with a quarter of the channels", "resnet20": "ResNet-20", "vit": "a ViT of 6 blocks"}
STAND_INS = {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS, "gpu": TINY, "paper": TINY}
digits = Study("winze/vgg19x0.125", "digits[0-4]", CONVOLUTIONS, ood=("digits[5-9]",), pool="flatten")
pictures = Study("winze/vgg19x0.25", "cifar10", VGG, ood=("tinyimagenet",), **GRID)


recipe = Recipe(
    name="tunnel/small",
    system=SYSTEM,
    shows="whether small networks, which come with winze, have tunnels",
    paper=PAPER,
    url=URL,
    arms={
        "vgg19": {},
        "resnet20": {"network": "winze/resnet20", "places": "blocks"},
        "vit": {"network": "winze/vit6x128", "places": "blocks", "pool": "mean"},
    },
    scales={
        "smoke": Scale(
            replace(digits, network="winze/vgg19x0.0625", training=shortened(CONVOLUTIONS, 1), limit=200),
            seeds=(0,),
            changes={
                "resnet20": {"network": "winze/resnet20x0.25"},
                "vit": {"network": "winze/vit2x32", "training": replace(VIT, epochs=1, warmup=0, augment=())},
            },
            departures=(OTHER_DIGITS, "smaller networks, 1 epoch on 200 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            arms=("vgg19", "resnet20"),
            changes={"resnet20": {"network": "winze/resnet20x0.5"}},
            departures=(OTHER_DIGITS, "VGG-19 with an eighth of the channels, ResNet-20 with half; no ViT"),
        ),
        "gpu": Scale(
            replace(pictures, training=quick(VGG, 60)),
            seeds=(0, 1, 2),
            changes={
                "resnet20": {"training": quick(RESNET, 60), "pool": POOLED},
                "vit": {"training": replace(VIT, epochs=100, precision="bf16-mixed")},
            },
            departures=(TINY, "60 epochs of VGG and ResNet, 100 of the ViT, in bf16", ON_GRID),
        ),
        "paper": Scale(
            pictures,
            seeds=(0, 1, 2),
            changes={"resnet20": {"training": RESNET, "pool": POOLED}, "vit": {"training": VIT}},
            departures=(TINY, ON_GRID, "the thesis has full VGG-19 and ResNet-34: its trainings, and a usual one"),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "share_of_layers_before_the_tunnel": TunnelShare(),
        "accuracy_kept_in_tunnel": KeptInTunnel(0.95),
        "rank_at_the_end": hidden("numerical_rank"),
        "other_data_lost_at_the_end": drop("probe", OOD),
    },
    claims=tuple(
        claim
        for arm, name in NAMES.items()
        for claim in (
            has_tunnel(arm, name, {"vgg19": "42 % of VGG-19", "resnet20": "59 % of ResNet-34"}.get(arm, "open")),
            keeps_accuracy(arm, name),
            loses_other_data(arm, name, "open" if arm == "vit" else "falls", STAND_INS),
        )
    ),
    departures=(NORM, PICTURES, REFERENCE, COUNTED, OWN_NORMALISATION),
    measures=("probe", "accuracy", "numerical_rank", "effective_rank", "loss"),
    figures={"Start of the tunnel": partial(tunnel_starts, within=0.75)},
)
