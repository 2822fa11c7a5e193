"""Depth, width and number of classes: what makes the tunnel longer (tables 5.3.1 and 5.3.2, figures 5.3.5 and 5.9.x).

    winze run tunnel/capacity --scale cpu    # MLP-6 and 12, VGG-19 of three widths, on digits
    winze run tunnel/capacity --scale gpu    # MLP-6 to 12, VGG-19 of three widths and of 3, 5, 10 classes, on CIFAR-10

Deeper MLPs have extractors of one length, so that all further layers are tunnel; wider networks have a longer tunnel,
and so have networks that learn fewer classes. Networks that learn 30 or 50 % of the classes take as many steps as
those that learn all. Arms are named after the network, its width where it is not 1, and the percentage of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from winze.lab import Claim, Recipe, Scale, lower, rises, share, tunnel_at
from winze.lab.claims import Contrast
from winze.lab.quantities import OOD, At, TunnelLayer, Whole, drop, hidden
from winze.lab.study import Study, train_and_read
from winze.lab.verdicts import Region
from winze.recipes.tunnel.cells import ARMS, CLASS_TABLE, DEPTHS, SHARES, STARTS, WIDTH_TABLE, WIDTHS, named
from winze.recipes.tunnel.claims import loses_other_data
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    MLP,
    NORM,
    ON_GRID,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    REFERENCE,
    SYSTEM,
    TEN_OF_CIFAR100,
    TINY,
    URL,
    VGG,
    as_many_steps,
    gentle,
    shortened,
)
from winze.report.starts import tunnel_starts

FULL = ("gpu", "paper")
NAMES = {"vgg16": "VGG-16", "vgg19": "VGG-19", "resnet18": "ResNet-18", "resnet34": "ResNet-34"}
SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "cinic10": "CINIC-10"}
LADDERS = {
    ("cpu",): ("vgg19_30", "vgg19"),
    FULL: ("vgg19_30", "vgg19_50", "vgg19"),
}  # by scale, from few classes to all
short_vgg = gentle(VGG, 16)
small_mlp = replace(MLP, epochs=60, evaluate_every=60)
on_digits: dict[str, Mapping[str, Any]] = {
    **{f"mlp{depth}": {"network": f"winze/mlp{depth}x256", "training": small_mlp} for depth in (6, 12)},
    "vgg19_narrow": {"network": "winze/vgg19x0.0625", "training": CONVOLUTIONS},
    "vgg19": {"network": "winze/vgg19x0.125", "training": CONVOLUTIONS},
    "vgg19_wide": {"network": "winze/vgg19x0.25", "training": CONVOLUTIONS},
    "vgg19_30": {
        "network": "winze/vgg19x0.125",
        "data": "digits[0-2]",
        "training": as_many_steps(CONVOLUTIONS, 0.3),
        "ood": (),
    },
}
recipe = Recipe(
    name="tunnel/capacity",
    system=SYSTEM,
    shows="depth and width lengthen the tunnel, and so do fewer classes",
    paper=PAPER,
    url=URL,
    arms=ARMS,
    scales={
        "smoke": Scale(
            Study("winze/mlp6x64", "digits", replace(MLP, epochs=1), limit=300),
            seeds=(0,),
            arms=("mlp6", "mlp12"),
            changes={arm: {"network": f"winze/{arm}x64", "training": shortened(MLP, 2)} for arm in ("mlp6", "mlp12")},
            departures=("digits instead of CIFAR-10", "MLPs 64 wide, 2 epochs on 300 samples"),
        ),
        "cpu": Scale(
            Study("winze/vgg19x0.125", "digits", CONVOLUTIONS, pool="flatten"),
            seeds=(0, 1, 2),
            arms=tuple(on_digits),
            changes=on_digits,
            departures=(
                "digits instead of CIFAR-10",
                "MLPs 256 wide, for 60 epochs; VGG-19 of widths 1/16, 1/8 and 1/4, for 30 epochs",
            ),
        ),
        "gpu": Scale(
            Study(
                "winze/vgg19",
                "cifar10",
                short_vgg,
                ood=("tinyimagenet",),
                **GRID,
            ),
            seeds=(0, 1, 2),
            arms=(*(f"mlp{depth}" for depth in DEPTHS), "vgg19_narrow", "vgg19", "vgg19_wide", "vgg19_30", "vgg19_50"),
            changes={
                **{f"mlp{depth}": {"training": replace(MLP, epochs=40), "pool": "flatten"} for depth in DEPTHS},
                **{named("vgg19", word): {"training": short_vgg} for word in WIDTHS},
                **{
                    f"vgg19_{percent}": {
                        "training": as_many_steps(short_vgg, percent / 100),
                        "ood": ("tinyimagenet",),
                    }
                    for percent in SHARES[:-1]
                },
            },
            departures=(
                TINY,
                "16 epochs of all classes (MLPs: 40) instead of 160 (1000); VGG in bf16",
                GENTLE,
                ON_GRID,
            ),
        ),
        "paper": Scale(
            Study("winze/vgg19", "cifar10", VGG, ood=(TEN_OF_CIFAR100,), **FLAT),
            seeds=(0, 1, 2),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "rank_at_layer_4": At("numerical_rank", 3),
        "rank_at_the_end": hidden("numerical_rank"),
        "other_data_lost_at_the_end": drop("probe", OOD),
    },
    claims=(
        *(
            Claim(
                f"the tunnel of MLP-{depth} starts at layer 4 (95 % of the accuracy)",
                tunnel_at(f"mlp{depth}", 0.95, 4),
                paper=4,
                scales=FULL,
            )
            for depth in DEPTHS
        ),
        Claim(
            "the extractor of MLP-12 is as long as that of MLP-6 (within two layers)",
            Contrast("tunnel_start", ("mlp12", "mlp6"), (1.0, -1.0), Region(-2, 2), "difference"),
            paper="same length",
        ),
        Claim(
            "the ranks of MLP-12 and MLP-6 overlap (at layer 4 within a factor of 2)",
            share("rank_at_layer_4", "mlp12", of="mlp6", at_least=0.5, at_most=2),
            paper="overlap",
        ),
        Claim(
            "the deeper an MLP, the more its last layer has lost of other data",
            rises("other_data_lost_at_the_end", [f"mlp{depth}" for depth in DEPTHS], DEPTHS),
            paper="falls in every tunnel",
            scales=FULL,
            departure={"gpu": TINY},
        ),
        *(
            loses_other_data(arm, f"VGG-19 after {percent} % of CIFAR-10", "fall", {"gpu": TINY}, FULL)
            for percent, arm in zip(SHARES, LADDERS[FULL], strict=True)
        ),
        *(
            Claim(
                f"the tunnel of {NAMES[network]}, width {said}, starts at layer {layer} (95 % of the accuracy)",
                tunnel_at(named(network, word), 0.95, layer),
                paper=layer,
                scales=FULL if network == "vgg19" else ("paper",),
            )
            for network, layers in WIDTH_TABLE.items()
            for (word, said), layer in zip((("narrow", "1/4"), ("", "1"), ("wide", "2")), layers, strict=True)
        ),
        *(
            Claim(
                f"the tunnel of a wide {NAMES[network]} begins earlier than that of a narrow one",
                lower("tunnel_start", named(network, "wide"), than=named(network, "narrow")),
                paper=f"{layers[0]} -> {layers[-1]}",
            )
            for network, layers in WIDTH_TABLE.items()
            if layers[-1] < layers[0]
        ),
        *(
            Claim(
                f"the tunnel of {NAMES[network]} after {percent} % of {SETS[data]} starts at layer {layer} (95 %)",
                tunnel_at(named(network, data, str(percent)), 0.95, layer),
                paper=layer,
                scales=FULL if (network, data) == ("vgg19", "cifar10") else ("paper",),
            )
            for (network, data), layers in CLASS_TABLE.items()
            for percent, layer in zip(SHARES, layers, strict=True)
        ),
        *(
            Claim(
                "the fewer classes of its data VGG-19 learns, the earlier its tunnel begins",
                rises("tunnel_start", ladder),
                paper="6, 7, 7",
                scales=scales,
            )
            for scales, ladder in LADDERS.items()
        ),
        Claim(
            "the fewer classes of CIFAR-10 ResNet-34 learns, the earlier its tunnel begins",
            rises("tunnel_start", ("resnet34_30", "resnet34_50", "resnet34")),
            paper="19, 19, 21",
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        COUNTED,
        OWN_NORMALISATION,
        "the classes that are learnt are the first ones; the thesis does not say which it took",
    ),
    measures=("probe", "accuracy", "numerical_rank", "loss", "correct/*"),
    figures={"Start of the tunnel": partial(tunnel_starts, told=STARTS, whose="the thesis, CIFAR-10 and others")},
)
