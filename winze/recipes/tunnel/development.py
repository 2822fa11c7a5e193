"""How the tunnel comes about while a network learns (figures 5.3.1, 5.3.2 and 5.14.1, and the tunnel put back).

    winze run tunnel/development --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/development --scale gpu    # VGG-19 on CIFAR-10, 3 seeds

`vgg19` is watched while it learns: how far the weights of each layer move from checkpoint to checkpoint
(`weight_change`, the root mean square), and the numerical rank of every layer after every epoch. Then every layer from
one on is put back to the weights it began with (`reset`, by the first layer that is), its output left as it was; with
`reset_refreshed` the statistics of batch norm are taken anew afterwards, so that what is lost is not their doing.
`first_steps` is watched after each of its first 75 steps.

Ranks while learning are of a part of the test pictures and of at most 1000 features a layer. The thesis looks at
weights every 10 of 160 epochs, with a colour scale that ends at .02.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from winze.lab import Claim, Recipe, Scale, at_least, at_most, level
from winze.lab.quantities import TunnelLayer, Whole
from winze.readings import Array
from winze.recipes.tunnel.numbers import AtTunnel, OverTraining
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    FLAT,
    GENTLE,
    GRID,
    NORM,
    ON_GRID,
    PAPER,
    PICTURES,
    REFERENCE,
    SYSTEM,
    URL,
    VGG,
    gentle,
    shortened,
)
from winze.recipes.tunnel.watched import CHANGE, FIRST, RANK, Development, watch_and_reset
from winze.report.curves import Curve, curves
from winze.report.lines import curves_over_training
from winze.report.maps import training_map
from winze.report.means import means_of

DEEP = 5  # hidden layers before the output that are called deep


def deep_end(ranks: Array, start: int) -> float:
    """The mean rank of the deep layers at the last look."""
    return float(ranks[-1 - DEEP : -1, -1].mean())


def deep_fall(ranks: Array, start: int) -> float:
    """How much of the deep layers' mean rank is gone from the first look to the last, as a share."""
    before, after = (ranks[-1 - DEEP : -1, step].mean() for step in (0, -1))
    return float(1 - after / before)


def early_rise(ranks: Array, start: int) -> float:
    """How much the extractor's mean rank has grown from the first look to the last, as a share."""
    return float(ranks[:start, -1].mean() / ranks[:start, 0].mean() - 1)


def switch_from_start(ranks: Array, start: int) -> float:
    """How many layers after the tunnel's start ranks begin to fall instead of to rise.

    The switch is the layer up to which ranks that have risen, and behind which ranks that have not, are most.
    """
    rose = ranks[:, -1] > ranks[:, 0]
    right = [rose[:layer].sum() + (~rose[layer:]).sum() for layer in range(len(rose) + 1)]
    return float(np.argmax(right) - start)


def change_ratio(changes: Array, start: int) -> float:
    """How far the tunnel's weights move between two looks, over how far the extractor's do."""
    return float(changes[start:].mean() / changes[:start].mean())


def first_change_ratio(changes: Array, start: int) -> float:
    """The same, between the first two looks."""
    return change_ratio(changes[:, :1], start)


digits = Development("winze/vgg19x0.125", "digits", CONVOLUTIONS, pool="flatten", change_every=3)
first = {"look_per": "step"}
recipe = Recipe(
    name="tunnel/development",
    system=SYSTEM,
    shows="the tunnel is there within the first steps, its weights then hardly move, and yet they cannot be taken back",
    paper=PAPER,
    url=URL,
    arms={"vgg19": {}, "first_steps": first},
    scales={
        "smoke": Scale(
            replace(
                digits,
                network="winze/vgg11x0.0625",
                training=shortened(CONVOLUTIONS, 2),
                change_every=1,
                limit=300,
                max_features=64,
            ),
            seeds=(0,),
            departures=("digits instead of CIFAR-10", "VGG-11 with 4 channels, 2 epochs on 300 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            changes={"first_steps": {"training": shortened(CONVOLUTIONS, 7)}},
            departures=(
                "digits instead of CIFAR-10",
                "VGG-19 with an eighth of the channels, 30 epochs; weights are looked at every 3",
            ),
        ),
        "gpu": Scale(
            Development(
                "winze/vgg19",
                "cifar10",
                gentle(VGG, 16),
                change_every=2,
                **GRID,
            ),
            seeds=(0, 1, 2),
            changes={
                "first_steps": {
                    "training": replace(gentle(VGG, 16), epochs=1, schedule="constant", warmup=0.2),
                    "limit": FIRST * VGG.batch,
                }
            },
            departures=(
                "16 epochs instead of 160; weights are looked at every 2",
                "in bf16",
                GENTLE,
                "the rate of the first 75 steps rises during 15 of them; at .1 the network is then still at chance, at "
                ".03 it has learnt little",
                ON_GRID,
            ),
        ),
        "paper": Scale(
            Development("winze/vgg19", "cifar10", VGG, **FLAT),
            seeds=(0, 1, 2),
            changes={"first_steps": {"training.epochs": 1, "training.milestones": (), "limit": FIRST * VGG.batch}},
        ),
    },
    work=watch_and_reset,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "weight_change_in_tunnel_over_extractor": OverTraining(CHANGE, change_ratio),
        "first_weight_change_in_tunnel_over_extractor": OverTraining(CHANGE, first_change_ratio),
        "deep_rank_at_the_end": OverTraining(RANK, deep_end, tunnel=False),
        "deep_rank_lost": OverTraining(RANK, deep_fall, tunnel=False),
        "early_rank_gained": OverTraining(RANK, early_rise),
        "switch_after_tunnel_start": OverTraining(RANK, switch_from_start),
        "lost_without_the_tunnels_weights": Whole("accuracy") - AtTunnel("reset", behind=1),
        "lost_without_the_tunnels_weights_but_fresh_statistics": Whole("accuracy")
        - AtTunnel("reset_refreshed", behind=1),
    },
    claims=(
        Claim(
            "the weights of the tunnel move far less than those of the extractor (less than half as far)",
            at_most("weight_change_in_tunnel_over_extractor", "vgg19", 0.5),
            paper="much darker",
        ),
        Claim(
            "so they do from early on",
            at_most("first_weight_change_in_tunnel_over_extractor", "vgg19", 0.5),
            paper="from early on",
        ),
        Claim(
            "within 75 steps the rank of deep layers falls to about the number of classes (10, within 5)",
            level("deep_rank_at_the_end", "first_steps", 10, within=5),
            paper="about 10",
        ),
        Claim(
            "within 75 steps deep layers lose a part of the rank they began with",
            at_least("deep_rank_lost", "first_steps", 0),
            paper="falls",
        ),
        Claim(
            "over the whole training the ranks of the extractor rise",
            at_least("early_rank_gained", "vgg19", 0),
            paper="rise",
        ),
        Claim(
            "deep layers end at a rank of about the number of classes (10, within 5)",
            level("deep_rank_at_the_end", "vgg19", 10, within=5),
            paper="stay low",
        ),
        Claim(
            "ranks rise up to the start of the tunnel and fall behind it (within two layers)",
            level("switch_after_tunnel_start", "vgg19", 0, within=2),
            paper="at the start",
        ),
        Claim(
            "with the weights of the tunnel put back to their start the accuracy is lost (20 points or more)",
            at_least("lost_without_the_tunnels_weights", "vgg19", 0.2),
            paper="deteriorates",
        ),
        Claim(
            "so it is with fresh statistics of batch norm (20 points or more)",
            at_least("lost_without_the_tunnels_weights_but_fresh_statistics", "vgg19", 0.2),
            paper="deteriorates",
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        "layers put back keep the statistics of batch norm, and the output stays as learnt; the thesis is silent",
        "the first 75 steps are those of a training on 9600 pictures",
    ),
    measures=("probe", "accuracy", "numerical_rank", RANK, CHANGE, "reset*", "loss"),
    figures={
        "Weight change": partial(training_map, measure=CHANGE, cap=0.02),
        "Ranks while learning": lambda arms, theme: curves_over_training(means_of(arms), RANK, theme=theme),
        "Tunnel put back": partial(
            curves,
            lines=[
                Curve("probe", "probe", beside=True),
                Curve("put back from this layer on", "reset", colour=1),
                Curve("with fresh statistics", "reset_refreshed", colour=1, dash="--"),
            ],
            up="accuracy",
        ),
    },
)
