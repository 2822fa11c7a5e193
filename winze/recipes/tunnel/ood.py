"""What the tunnel does to other data: probes on sets never seen (figures 5.3.3, 5.3.4, 5.10.1 and 5.10.2).

    winze run tunnel/ood --scale cpu    # MLP-8 on some digits, probed on others
    winze run tunnel/ood --scale gpu    # CIFAR-10 and Tiny-ImageNet, 3 seeds

Networks that learnt CIFAR-10 are probed at every layer on ten other classes, on 5, 10, 20 and 50 classes of one set,
and on many sets, each as a share of its own best layer. Networks that learnt few, more or all classes of a set of a
hundred are probed on CIFAR-10. Sets that are not at hand are named in the readings and count as not run.

The thesis does not say how many classes its subsets had; at scale gpu they are 10, 30 and 100. Tiny-ImageNet stands in
for CIFAR-100 there, and some of its classes are close to classes of CIFAR-10 (cats, dogs, trucks).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import fmean

from winze.lab import Claim, Recipe, Scale, at_least, at_most, falls, level, rises
from winze.lab.quantities import OOD, KeptInTunnel, Over, PeakLayer, TunnelLayer, Whole, drop, hidden
from winze.lab.study import Study, train_and_read
from winze.recipes.tunnel.numbers import OverSets, Together, fall, spike, spread
from winze.recipes.tunnel.other_sets import (
    CIFAR_SETS,
    DIGITS,
    EACH_COUNT,
    EACH_SET,
    ELSEWHERE,
    HERE,
    SUBSETS,
    TINY_SETS,
    first_other,
    of_best,
    some,
)
from winze.recipes.tunnel.settings import (
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    MLP,
    NORM,
    ON_GRID,
    OTHER_DIGITS,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    POOLED,
    REFERENCE,
    RESNET,
    SMALL,
    SYSTEM,
    TEN_OF_CIFAR100,
    TINY,
    URL,
    VGG,
    as_many_steps,
    gentle,
    mlp12,
    resnet34,
    vgg19,
)
from winze.report.curves import curves

NETWORKS = {"mlp8": "MLP-8", "mlp12": "MLP-12", "vgg19": "VGG-19", "resnet34": "ResNet-34"}
SOURCES = ("few_classes", "more_classes", "all_classes")
LADDERS = {("cpu",): (*SOURCES[:2], "mlp8"), ("gpu", "paper"): SOURCES}  # by scale, from few classes to all
STAND_INS = {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS, "gpu": "Tiny-ImageNet stands in for CIFAR-100"}
gpu = Study(
    "winze/vgg19",
    "cifar10",
    gentle(VGG, 16),
    ood=("tinyimagenet", *TINY_SETS, *HERE, *ELSEWHERE),
    ood_limit=5000,
    **GRID,
)
paper = Study(
    "winze/vgg19",
    "cifar10",
    VGG,
    ood=(TEN_OF_CIFAR100, *CIFAR_SETS, *HERE, *ELSEWHERE[:-1]),
    **FLAT,
)
digits = Study("winze/mlp8x256", "digits[0-4]", SMALL, ood=DIGITS)
few_digits = {
    "few_classes": {"data": "digits[0-1]", "training": as_many_steps(SMALL, 2 / 5)},
    "more_classes": {"data": "digits[0-2]", "training": as_many_steps(SMALL, 3 / 5)},
}
recipe = Recipe(
    name="tunnel/ood",
    system=SYSTEM,
    shows="features for other data are best where the tunnel begins; fewer classes learnt make it longer",
    paper=PAPER,
    url=URL,
    arms={
        "mlp8": {},
        "mlp12": mlp12,
        "vgg19": vgg19,
        "resnet34": resnet34,
        **{arm: {} for arm in SOURCES},
    },
    scales={
        "smoke": Scale(
            replace(digits, training=replace(SMALL, epochs=2), limit=300),
            seeds=(0,),
            arms=("mlp8", "few_classes"),
            changes={"few_classes": {"data": "digits[0-1]"}},
            departures=(OTHER_DIGITS, "2 epochs on 300 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2, 3, 4),
            arms=LADDERS["cpu",],
            changes=few_digits,
            departures=(
                OTHER_DIGITS,
                "MLP-8, 256 wide, with momentum .9 and rate .03, for 150 epochs",
                "2, 3 and 5 classes learnt; 2, 3 and 5 others probed",
            ),
        ),
        "gpu": Scale(
            gpu,
            seeds=(0, 1, 2),
            arms=("mlp12", "vgg19", "resnet34", *SOURCES),
            changes={
                "mlp12": {"training": replace(MLP, epochs=60), "pool": "flatten"},
                "vgg19": {"training": gentle(VGG, 16)},
                "resnet34": {"training": gentle(RESNET, 16), "pool": POOLED},
                **{
                    arm: {
                        "data": some("tinyimagenet100", count),
                        "training": as_many_steps(gentle(VGG, 20), count / 100),
                        "ood": ("cifar10",),
                    }
                    for arm, count in zip(SOURCES, (10, 30, 100), strict=True)
                },
            },
            departures=(
                TINY,
                "10, 30 and 100 classes of Tiny-ImageNet, 300 images each, stand in for subsets of CIFAR-100",
                "16 epochs (MLP-12: 60; all of Tiny-ImageNet: 20) instead of 160 to 1000; VGG and ResNet in bf16",
                GENTLE,
                ON_GRID,
                "at most 5000 samples of each other set",
            ),
        ),
        "paper": Scale(
            paper,
            seeds=(0, 1, 2),
            arms=("mlp12", "vgg19", "resnet34", *SOURCES),
            changes={
                arm: {
                    "data": some("cifar100", count),
                    "training": as_many_steps(VGG, count / 100),
                    "ood": ("cifar10",),
                }
                for arm, count in zip(SOURCES, (30, 50, 100), strict=True)
            },
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "accuracy_kept_in_tunnel": KeptInTunnel(0.95),
        "rank_at_the_end": hidden("numerical_rank"),
        "other_data_lost_at_the_end": drop("probe", OOD),
        "other_data_peak_layer": PeakLayer("probe", OOD),
        "other_data_peak_after_start": PeakLayer("probe", OOD) - TunnelLayer(0.95),
        "other_data_falls_with_rank": Together("probe", "numerical_rank"),
        "other_data_bump": Over("probe", spike, OOD),
        "least_fall_of_other_sets": OverSets(fall, min),
        "spread_of_peaks_over_numbers_of_classes": OverSets(partial(PeakLayer, "probe"), spread, SUBSETS),
        "peak_over_numbers_of_classes": OverSets(partial(PeakLayer, "probe"), fmean, SUBSETS),
        "stl10_beyond_the_least_fall": fall("stl10") - OverSets(fall, min),
    },
    claims=(
        *(
            claim
            for arm, name in NETWORKS.items()
            for claim in (
                Claim(
                    f"probes of {name} on other data peak at the entry of the tunnel (within two layers)",
                    level("other_data_peak_after_start", arm, 0, within=2),
                    paper="peak at the entry",
                    departure=STAND_INS,
                ),
                Claim(
                    f"behind their peak, probes of {name} on other data fall with the rank (correlation of .5 or more)",
                    at_least("other_data_falls_with_rank", arm, 0.5),
                    paper="fall together",
                    departure=STAND_INS,
                ),
                Claim(
                    f"on all other sets the features of {name} get worse in the tunnel (2 % of the best or more)",
                    at_least("least_fall_of_other_sets", arm, 0.02),
                    paper="all fall",
                    departure=STAND_INS,
                ),
                Claim(
                    f"on its own data the tunnel of {name} keeps the accuracy (98 % of it or more)",
                    at_least("accuracy_kept_in_tunnel", arm, 0.98),
                    paper="all but CIFAR-10",
                ),
            )
        ),
        *(
            Claim(
                f"of all sets STL-10 falls least in {NETWORKS[arm]}",
                at_most("stl10_beyond_the_least_fall", arm, 0),
                paper="least",
            )
            for arm in ("vgg19", "resnet34")
        ),
        Claim(
            "probes of ResNet-34 on other data have a bump at layer 29, the end of its penultimate stage",
            at_least("other_data_bump", "resnet34", 0),
            paper="bump at 29",
            departure="29 with projections is 27 without",
        ),
        *(
            Claim(
                f"however many other classes are probed, {NETWORKS[arm]} serves them best at one layer (within two)",
                at_most("spread_of_peaks_over_numbers_of_classes", arm, 2),
                paper="layer 7 for all",
                departure=STAND_INS,
            )
            for arm in ("mlp8", "vgg19")
        ),
        Claim(
            "that layer of VGG-19 is about the seventh, where its tunnel begins (within two)",
            level("peak_over_numbers_of_classes", "vgg19", 7, within=2),
            paper="about 7",
            scales=("gpu", "paper"),
            departure=STAND_INS,
        ),
        *(
            Claim(
                f"the fewer classes a network has learnt, {what}",
                check(quantity, arms),
                paper=told,
                scales=scales,
                departure={scale: STAND_INS[scale] for scale in scales if scale in STAND_INS},
            )
            for what, check, quantity, told in (
                ("the more it loses on other data", falls, "other_data_lost_at_the_end", "larger drop"),
                ("the earlier its tunnel begins", rises, "tunnel_start", "longer tunnel"),
                ("the earlier its features for other data are best", rises, "other_data_peak_layer", "earlier drop"),
            )
            for scales, arms in LADDERS.items()
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        COUNTED,
        OWN_NORMALISATION,
        "the thesis's ten other classes, and the sizes of its subsets, are not said",
        "a network that learns fewer classes takes as many steps as one that learns all",
    ),
    measures=("probe", "accuracy", "numerical_rank", "loss"),
    figures={
        "Depth profile": first_other,
        "Many other sets": partial(curves, lines=EACH_SET, up="probe, share of its best layer", shown=of_best),
        "Numbers of other classes": partial(
            curves, lines=EACH_COUNT, up="probe, share of its best layer", shown=of_best
        ),
    },
)
