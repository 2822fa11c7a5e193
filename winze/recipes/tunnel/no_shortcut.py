"""ResNets without shortcuts: an earlier tunnel, no spike, more harm to other data (figures 5.15.1 and 5.15.2).

    winze run tunnel/no_shortcut --scale cpu    # ResNet-18 with an eighth of the channels on digits
    winze run tunnel/no_shortcut --scale gpu    # ResNet-18 and 34 on CIFAR-10, 3 seeds

`plain18` and `plain34` are ResNet-18 and 34 under the rule `NoShortcut`: y = f(x), projections not even run. They learn
as the ResNets do. The thesis draws plain networks at 98 % of the accuracy and ResNets at 95 %; here both are compared
at 95 %.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, at_least, at_most, higher, lower
from winze.lab.claims import Contrast
from winze.lab.quantities import OOD, KeptInTunnel, Over, PeakLayer, TunnelLayer, Whole, drop, last
from winze.lab.study import Study, train_and_read
from winze.lab.verdicts import Region
from winze.recipes.tunnel.claims import keeps_accuracy
from winze.recipes.tunnel.numbers import spike
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    ON_GRID,
    OTHER_DIGITS,
    OWN_BAR,
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
from winze.shape import NoShortcut

DEPTHS = (18, 34)
STEM = {"stem": "thesis"}
ON_DIGITS = STEM | {"stem_stride": 1}
STAND_INS = {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS, "gpu": TINY}


digits = Study(
    "winze/resnet18x0.125",
    "digits[0-4]",
    CONVOLUTIONS,
    ON_DIGITS,
    ood=("digits[5-9]",),
    places="blocks",
    pool="flatten",
)
small = {arm: {"network": digits.network} for arm in ("resnet18", "plain18")}
recipe = Recipe(
    name="tunnel/no_shortcut",
    system=SYSTEM,
    shows="without shortcuts a ResNet's tunnel begins earlier, has no spike of rank, and harms other data more",
    paper=PAPER,
    url=URL,
    arms={
        **{f"resnet{depth}": {"network": f"winze/resnet{depth}"} for depth in DEPTHS},
        **{f"plain{depth}": {"network": f"winze/resnet{depth}", "rule": NoShortcut()} for depth in DEPTHS},
    },
    scales={
        "smoke": Scale(
            replace(digits, training=shortened(CONVOLUTIONS, 1), limit=200),
            seeds=(0,),
            arms=("resnet18", "plain18"),
            changes={arm: {"network": "winze/resnet18x0.0625"} for arm in small},
            departures=(OTHER_DIGITS, "ResNet-18 with 4 channels, 1 epoch on 200 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2, 3, 4),
            arms=("resnet18", "plain18"),
            changes=small,
            departures=(OTHER_DIGITS, "ResNet-18 with an eighth of the channels and a stem of stride 1, 30 epochs"),
        ),
        "gpu": Scale(
            Study(
                "winze/resnet34",
                "cifar10",
                gentle(RESNET, 20),
                STEM,
                ood=("tinyimagenet",),
                places="blocks",
                **GRID | {"pool": POOLED},
            ),
            seeds=(0, 1, 2),
            departures=(
                TINY,
                "20 epochs instead of 164",
                "in bf16",
                GENTLE,
                ON_GRID,
            ),
        ),
        "paper": Scale(
            Study(
                "winze/resnet34",
                "cifar10",
                RESNET,
                STEM,
                ood=(TEN_OF_CIFAR100,),
                places="blocks",
                **FLAT,
            ),
            seeds=(0, 1, 2),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "tunnel_start_at_98": TunnelLayer(0.98),
        "accuracy_kept_in_tunnel": KeptInTunnel(0.95),
        "rank_at_the_end": last("numerical_rank"),
        "rank_spike": Over("numerical_rank", spike),
        "other_data_lost_at_the_end": drop("probe", OOD),
        "other_data_peak_layer": PeakLayer("probe", OOD),
    },
    claims=(
        *(
            claim
            for depth in DEPTHS
            for claim in (
                Claim(
                    f"the probes of a plain ResNet-{depth} reach 95 % of its accuracy earlier than those of a ResNet",
                    lower("tunnel_start", f"plain{depth}", than=f"resnet{depth}"),
                    paper="about two layers",
                    departure=OWN_BAR,
                ),
                Claim(
                    f"that of a plain ResNet-{depth} is by about two layers (within two)",
                    Contrast(
                        "tunnel_start", (f"plain{depth}", f"resnet{depth}"), (1.0, -1.0), Region(-4, 0), "difference"
                    ),
                    paper="about two layers",
                    departure=OWN_BAR,
                ),
                Claim(
                    f"a plain ResNet-{depth} loses more on other data in its tunnel than a ResNet",
                    higher("other_data_lost_at_the_end", f"plain{depth}", than=f"resnet{depth}"),
                    paper="stronger drop",
                    departure=STAND_INS,
                ),
                Claim(
                    f"the features of a plain ResNet-{depth} end at a lower rank than those of a ResNet",
                    lower("rank_at_the_end", f"plain{depth}", than=f"resnet{depth}"),
                    paper="lower",
                ),
                keeps_accuracy(f"plain{depth}", f"a plain ResNet-{depth}"),
            )
        ),
        Claim(
            "the rank of a plain ResNet-34 has no spike at layer 29, the end of its penultimate stage",
            at_most("rank_spike", "plain34", 0),
            paper="no spike",
            departure="29 with projections is 27 without",
        ),
        Claim(
            "the rank of a ResNet-34 has one",
            at_least("rank_spike", "resnet34", 1),
            paper="spike at 29",
            departure="29 with projections is 27 without",
        ),
    ),
    departures=(PICTURES, REFERENCE, COUNTED, OWN_NORMALISATION),
    measures=("probe", "accuracy", "numerical_rank", "loss"),
)
