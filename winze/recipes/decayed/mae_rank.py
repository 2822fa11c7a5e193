"""Rank and probe accuracy of masked autoencoders over training (Zhang et al., 2024, arXiv 2404.10947, fig. 5).

    winze run decayed/mae_rank --scale cpu             # digits, 3 points x 3 seeds, minutes on one core
    winze run decayed/mae_rank --scale gpu --jobs 7    # CIFAR-10, 5 points x 3 seeds, 400 epochs on an H200

The effective rank and the probe accuracy of the last block, of the class token and of the mean of all tokens, and
Pearson's r of the two over alpha_min at every reading.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Axis, Claim, Question, Recipe, rises
from winze.lab.claims.quantities import LastLook, OverLooks
from winze.readings import Array
from winze.recipes.decayed._correlation import CorrelatesNegatively, over_training_r
from winze.recipes.decayed._mae import DATA, DEPARTURES, MEAN, MEASURES, PAPER, URL, probe, scales, study, work
from winze.report.experiment import over_training
from winze.train import Epochs

assert study.watching is not None
often = replace(study, watching=replace(study.watching, every=Epochs(10)), protocols=())
RANK, PROBE = "rank_while_training", "probe_while_training"


def early(values: Array) -> float:
    """The mean over the first third of all readings."""
    return float(values[: max(1, len(values) // 3)].mean())


recipe = Recipe(
    "decayed/mae_rank",
    system="S2",
    paper=f"{PAPER}, fig. 5",
    url=URL,
    shows="the effective rank falls with alpha_min, and goes with a higher probe accuracy",
    study=often,
    axes={"data": DATA, "alpha": Axis("network.rule.alpha_min", (1.0, 0.8, 0.7, 0.6, 0.5))},
    scales=scales(
        {"data": ("digits",), "alpha": (1.0, 0.8, 0.6)},
        {"data": ("cifar10",)},
        **{"watching.every": Epochs(2)},
    ),
    work=work,
    claims=(
        Claim(
            "early in training a smaller alpha_min lowers the effective rank of the class token",
            "fig. 5a",
            rises(OverLooks(RANK, early).named("rank in the first third of training"), over="alpha"),
            each="data",
        ),
        Claim(
            "effective rank and linear-probe accuracy correlate negatively over alpha_min",
            "fig. 5c",
            CorrelatesNegatively(RANK, PROBE, over="alpha"),
            each="data",
        ),
    ),
    questions=(
        Question(
            "does a smaller alpha_min lower the rank of the class token at the end?",
            rises(LastLook(RANK), over="alpha"),
            each="data",
        ),
        Question(
            "does a smaller alpha_min lower the rank of the mean token at the end?",
            rises(LastLook(f"{RANK} {MEAN}"), over="alpha"),
            each="data",
        ),
        Question(
            "do rank and probe accuracy of the mean token correlate negatively?",
            CorrelatesNegatively(f"{RANK} {MEAN}", f"{PROBE} {MEAN}", over="alpha"),
            each="data",
        ),
    ),
    figures=(
        over_training(RANK, colour="alpha", panel="data"),
        over_training(PROBE, colour="alpha", panel="data"),
        over_training_r(RANK, PROBE, over="alpha", panel="data"),
        over_training(f"{RANK} {MEAN}", colour="alpha", panel="data"),
        over_training(f"{PROBE} {MEAN}", colour="alpha", panel="data"),
        over_training("reconstruction", colour="alpha", panel="data"),
    ),
    departures=DEPARTURES,
    measures=MEASURES,
    learned=(probe, 0.2),
)
