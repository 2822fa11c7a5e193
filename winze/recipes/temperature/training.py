"""Networks trained at T = 1, 10, 100 and 1000: rank, norms, alignment, OOD accuracy (thesis, tables 6.3.1 and 6.3.2).

    winze run temperature/training --scale cpu    # MLP-8 on digits, 8 minutes on one core
    winze run temperature/training --scale gpu    # MLP-8, ResNet-18 and ResNet-20 on CIFAR-10, 3 seeds: 3 H200 hours

At a high temperature only large logits make the loss small. Layers reach them by aligning their singular vectors, which
leaves few directions in the deep layers: the network is compressed, and its last features transfer worse.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import log10
from typing import Any

from winze.lab import Axis, Claim, Question, Recipe
from winze.lab.claims.claim import alike, at_least, at_most, falls, higher, level, lower, rises, several
from winze.recipes.temperature import _figures, _settings
from winze.recipes.temperature._settings import KAPPA, KEPT, QUANTITIES, RHO, STAND_IN, cells, scales, short_resnet

TABLES, RANKS, NORMS = "tables 6.3.1 and 6.3.2", "fig. 6.3.1", "figs. 6.3.2 and 6.8.2"
cold, hot, hottest, norm = ({"temperature": one} for one in (1, 100, 1000, "norm"))
over: Any = {"over": "temperature", "scale": log10}
claim, question = partial(Claim, each="network"), partial(Question, each="network")


def ends(table: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """A table's numbers at T = 1 and T = 1000."""
    return {net: f"{row[0]} % to {row[-1]} %" for net, row in table.items()}


def equals(text: str, number: str, table: Mapping[str, tuple[int, ...]], *scales: str) -> Claim:
    """A number is that of a table, within 15 points."""
    check, each = level(number, cells(table), within=0.15), ("network", "temperature")
    return Claim(
        f"{text} is that of the thesis (within 15 points)", TABLES, check, each=each, paper=cells(table), scales=scales
    )


recipe = Recipe(
    "temperature/training",
    **_settings.TRAINED | {"measures": (*KEPT, "alignment/*")},
    shows="a high softmax temperature compresses a network, lowers the rank of its deep layers, and harms OOD accuracy",
    axes={"network": Axis("", _settings.networks), "temperature": Axis("", _settings.temperatures)},
    scales={
        "smoke": replace(scales["smoke"], axes={"network": ("mlp8",)}, at=(({}, {"factors": (1.0,)}),)),
        "cpu": replace(scales["cpu"], axes={"network": ("mlp8",)}),
        "gpu": replace(
            scales["gpu"],
            axes={"network": ("mlp8", "resnet18", "resnet20")},
            at=(({"network": "resnet18"}, short_resnet), ({"network": "resnet20"}, short_resnet)),
            departures=(*scales["gpu"].departures, _settings.SHORT_RESNET),
        ),
        "paper": scales["paper"],
    },
    claims=(
        claim(
            "a higher temperature compresses the network: the share κ of its depth that probes need falls",
            TABLES,
            falls("kappa", **over),
            paper=ends(KAPPA),
            headline=True,
        ),
        claim(
            "a higher temperature lowers the rank of the last hidden layer",
            RANKS,
            falls("last_rank", **over),
        ),
        claim(
            "a higher temperature raises the share ρ of OOD accuracy that is lost at the last layer",
            TABLES,
            rises("rho", **over),
            paper=ends(RHO),
            departure=STAND_IN,
            headline=True,
        ),
        equals("κ", "kappa", KAPPA, "gpu", "paper"),
        equals("ρ on SVHN, for ImageNet networks on CIFAR-100,", "rho", RHO, "paper"),
        claim("at T = 1 the logits do not grow", NORMS, at_most("logits_growth", 1), at=cold),
        claim(
            "early in training layers are more aligned with their inputs at T = 100 than at T = 1",
            "figs. 6.3.3, 6.8.3 and 6.8.4",
            higher("alignment", hot, than=cold),
        ),
        Claim(
            "at T = 100 the later half of MLP-8's hidden layers adds most of the norm, with smaller weights",
            NORMS,
            several(
                "number", {"norm": at_least("norm_added_late", 0.5), "weights": at_most("late_weights_over_early", 1)}
            ),
            at=hot,
        ),
        Claim("training at T = 1 raises the last rank of MLP-8", RANKS, at_least("last_rank_growth", 1)),
        Claim("MLP-8 reaches more rank at T = 1000 than at T = 1", RANKS, higher("highest_rank", hottest, than=cold)),
        Claim(
            "OOD accuracy of ResNet-18 at T = 1000 peaks at layer 12 (within two) and declines",
            "fig. 6.3.4",
            level("ood_peak", 12, within=2),
            at=hottest | {"network": "resnet18"},
            departure=STAND_IN,
        ),
    ),
    questions=(
        Question(
            "is accuracy at every temperature within 5 points of that at T = 1?",
            alike("accuracy", to=cold, within=0.05),
            each=("network", "temperature"),
            post_hoc="T = 10 and 1000 were added, and the margin sharpened from 93 %, after the readings at scale gpu",
        ),
        question("does a higher temperature make the tunnel longer?", falls("tunnel_start", **over)),
        question(
            "does ρ rise with the temperature in its other readings?",
            several("reading", {name: rises(name, **over) for name in QUANTITIES if "rho_" in name}),
            scales=("gpu", "paper"),
            post_hoc="asked after the readings at scale gpu were seen",
        ),
        question("does T = norm keep a higher rank than T = 1?", higher("last_rank", norm, than=cold)),
        question(
            "does the norm of the logits as temperature lower ρ against T = 1?",
            several("reading", {name: lower(name, norm, than=cold) for name in ("rho", "rho_of_the_second")}),
            scales=("gpu", "paper"),
        ),
    ),
    figures=_figures.TRAINING,
    departures=_settings.DEPARTURES,
)
