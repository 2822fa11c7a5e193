"""Where the tunnel starts: probes and ranks at every layer of MLPs, VGG-19 and ResNet-34 (table 5.2.1, figure 5.2.1).

    winze run tunnel/main --scale cpu    # MLP-4 and MLP-8 on digits, minutes on 2 cores
    winze run tunnel/main --scale gpu    # MLP-12, VGG-19, ResNet-34 on CIFAR-10, 3 seeds

The first layers (the extractor) make classes linearly separable; the rest (the tunnel) adds no accuracy, presses the
features down to a rank of about the number of classes, and harms them for other data.

Layers are numbered as convolutions and linear layers, without the projections of ResNets, whose block k is then layer
2k + 1 (of 34). The number with projections, under which the end of the third stage is 29, where the thesis sees a
spike, is kept and told beside it.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, at_least, at_most, higher, level, tunnel_at
from winze.lab.quantities import OOD, KeptInTunnel, Over, PeakLayer, TunnelLayer, Whole, drop, first, hidden
from winze.lab.study import Study, train_and_read
from winze.recipes.tunnel.claims import keeps_accuracy
from winze.recipes.tunnel.numbers import spike
from winze.recipes.tunnel.settings import (
    COUNTED,
    FAST,
    NORM,
    OTHER_DIGITS,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    REFERENCE,
    SMALL,
    SYSTEM,
    TEN_OF_CIFAR100,
    TINY,
    URL,
    VGG,
    cifar100,
    cinic10,
    mlp12,
    resnet34,
    vgg19,
)

START = {  # table 5.2.1: the layer at which probes reach 95 % and 98 % of the network's accuracy
    "mlp12": ("MLP-12 on CIFAR-10", 4, 5),
    "vgg19": ("VGG-19 on CIFAR-10", 8, 8),
    "resnet34": ("ResNet-34 on CIFAR-10", 20, 29),
    "mlp12_cifar100": ("MLP-12 on CIFAR-100", 7, 7),
    "vgg19_cifar100": ("VGG-19 on CIFAR-100", 8, 8),
    "resnet34_cifar100": ("ResNet-34 on CIFAR-100", 29, 30),
    "vgg19_cinic10": ("VGG-19 on CINIC-10", 7, 7),
    "resnet34_cinic10": ("ResNet-34 on CINIC-10", 17, 17),
}
NAMES = {"mlp8": "MLP-8", "mlp12": "MLP-12", "vgg19": "VGG-19", "resnet34": "ResNet-34"}
BIG = ("mlp12", "vgg19", "resnet34")


recipe = Recipe(
    name="tunnel/main",
    system=SYSTEM,
    shows="deep layers add no accuracy, lower the rank to about the number of classes, and harm other data",
    paper=PAPER,
    url=URL,
    arms={
        "mlp4": {"network": "winze/mlp4x256"},
        "mlp8": {"network": "winze/mlp8x256"},
        "mlp12": mlp12,
        "vgg19": vgg19,
        "resnet34": resnet34,
        "mlp12_cifar100": mlp12 | cifar100,
        "vgg19_cifar100": vgg19 | cifar100,
        "resnet34_cifar100": resnet34 | cifar100,
        "vgg19_cinic10": vgg19 | cinic10,
        "resnet34_cinic10": resnet34 | cinic10,
    },
    scales={
        "smoke": Scale(
            Study("winze/mlp8x256", "digits[0-4]", replace(SMALL, epochs=4), ood=("digits[5-9]",), limit=300),
            seeds=(0,),
            arms=("mlp4", "mlp8"),
            departures=(OTHER_DIGITS, "4 epochs on 300 samples"),
        ),
        "cpu": Scale(
            Study("winze/mlp8x256", "digits[0-4]", SMALL, ood=("digits[5-9]",)),
            seeds=(0, 1, 2),
            arms=("mlp4", "mlp8"),
            departures=(
                OTHER_DIGITS,
                "MLPs of 4 and 8 layers, 256 wide, with momentum .9 and rate .03, for 150 epochs",
            ),
        ),
        "gpu": Scale(
            Study("winze/vgg19", "cifar10", VGG, ood=("tinyimagenet",), size=32, probe="adam", pool="flatten"),
            seeds=(0, 1, 2),
            arms=BIG,
            changes={
                "mlp12": {"training.epochs": 200},
                "vgg19": FAST,
                "resnet34": FAST,
            },
            departures=(
                TINY,
                "MLP-12 for 200 epochs instead of 1000",
                "VGG-19 and ResNet-34 in bf16",
            ),
        ),
        "paper": Scale(
            Study("winze/vgg19", "cifar10", VGG, ood=(TEN_OF_CIFAR100,), size=32, probe="adam", pool="flatten"),
            seeds=(0, 1, 2),
            arms=tuple(START),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "accuracy_kept_in_tunnel": KeptInTunnel(0.95),
        "rank_at_the_end": hidden("numerical_rank"),
        "rank_at_the_end_over_first": hidden("numerical_rank") / first("numerical_rank"),
        "rank_spike": Over("numerical_rank", spike),
        "other_data_lost_at_the_end": drop("probe", OOD),
        "other_data_peak_after_start": PeakLayer("probe", OOD) - TunnelLayer(0.95),
    },
    claims=(
        *(
            Claim(
                f"the tunnel of {name} starts at layer {layer} ({threshold:.0%} of the accuracy)",
                tunnel_at(arm, threshold, layer, within=2),
                paper=layer,
            )
            for arm, (name, *layers) in START.items()
            for threshold, layer in zip((0.95, 0.98), layers, strict=True)
        ),
        Claim("the first three layers of MLP-8 are its extractor", at_most("tunnel_start", "mlp8", 3), paper="about 4"),
        *(keeps_accuracy(arm, name) for arm, name in NAMES.items()),
        *(
            Claim(
                f"the rank collapses to about the number of classes in {NAMES[arm]} (at most twice as many)",
                at_most("rank_at_the_end", arm, 2 * classes),
                paper=f"about {classes}",
            )
            for arm, classes in {"mlp8": 5, "mlp12": 10, "vgg19": 10}.items()
        ),
        Claim(
            "the rank of MLP-8 falls to less than a third from its first to its last layer",
            at_most("rank_at_the_end_over_first", "mlp8", 1 / 3),
            paper="collapses",
        ),
        Claim(
            "the rank at the end of ResNet-34 stays higher than that of VGG-19",
            higher("rank_at_the_end", "resnet34", than="vgg19"),
            paper="higher",
        ),
        Claim(
            "the rank of ResNet-34 has a spike at layer 29, the end of its penultimate stage",
            at_least("rank_spike", "resnet34", 1),
            paper="spike at 29",
            departure="29 with projections is 27 without",
        ),
        *(
            Claim(
                f"features of {NAMES[arm]} for other data get worse in the tunnel (by 5 points or more)",
                at_least("other_data_lost_at_the_end", arm, 0.05),
                paper="falls",
                departure={"gpu": TINY} if arm in BIG else {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS},
            )
            for arm in NAMES
        ),
        Claim(
            "a deeper network loses more on other data than a shallow one",
            higher("other_data_lost_at_the_end", "mlp8", than="mlp4"),
            paper="longer tunnel, larger fall",
            departure={"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS},
        ),
        *(
            Claim(
                f"features of {NAMES[arm]} serve other data best where the tunnel begins (within two layers)",
                level("other_data_peak_after_start", arm, 0, within=2),
                paper="peak at the entry",
                departure={"gpu": TINY},
            )
            for arm in BIG
        ),
    ),
    departures=(NORM, PICTURES, REFERENCE, COUNTED, OWN_NORMALISATION),
    measures=("probe", "accuracy", "numerical_rank", "effective_rank", "loss", "correct/*"),
)
