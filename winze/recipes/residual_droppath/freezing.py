"""What stage 2 of ResidualDroppath may move: does the method work if frozen parts really stand still?

    winze run residual_droppath/freezing --scale cpu     # a small ResNet on digits
    winze run residual_droppath/freezing --scale paper --seeds 0 --jobs 6    # ResNet50d on CIFAR-10, 300 epochs

A kept branch without a gradient still moves, by momentum, weight decay and BatchNorm's statistics. With
`freeze=branches` kept branches are the same after stage 2 as before; with `freeze=all` stem, projections and head are
too, so that dropped branches alone are trained. Other variations are axes of `residual_droppath/table1`.
"""

from functools import partial
from typing import Any

from winze.lab import Axis, Data, DuringTraining, Network, Question, Recipe, Scale, higher
from winze.readings import Point
from winze.recipes.residual_droppath._freeze import Freezing, train
from winze.recipes.residual_droppath._settings import ABOUT, DIGITS, PAPER, RULES, SMOKE, STAND_IN, TIMM, lasting
from winze.report.experiment import over_setting, over_training

OURS, BASELINES = ("output_batch", "weights_batch"), ("standard", "droppath")
STILL = ("gradient", "branches", "all")


def runs(point: Point) -> bool:
    """Baselines freeze nothing."""
    return point["algorithm"] in OURS or point["freeze"] == "gradient"


def above(baseline: str) -> Question:
    """Whether ResidualDroppath is more accurate than a baseline."""
    check = higher("accuracy", than={"algorithm": baseline, "freeze": "gradient"})
    text = f"Is ResidualDroppath more accurate than {baseline.capitalize()}, by what stage 2 freezes?"
    cells = [(name, still) for name in OURS for still in STILL]
    return Question(text, check, each=("algorithm", "freeze"), only=cells)


scale = partial(Scale, seeds=3, only=runs)
small: dict[str, Any] = {"network.name": "winze/resnet20x0.5", "data": Data("digits")}
recipe = Recipe(
    "residual_droppath/freezing",
    **ABOUT,
    paper=f"{PAPER}, Algorithm 1",
    shows="whether ResidualDroppath works if frozen branches do not move at all in stage 2",
    study=Freezing(Network("resnet50d"), Data("cifar10", size=32), TIMM),
    axes={
        "algorithm": Axis("network.rule", {name: RULES[name] for name in (*BASELINES, *OURS)}),
        "freeze": Axis("freeze", STILL),
    },
    scales={
        "smoke": scale(
            {**small, **SMOKE, "network.name": "winze/resnet20x0.25"},
            {"algorithm": (*BASELINES, "weights_batch")},
            seeds=1,
            departures=(STAND_IN,),
        ),
        "cpu": scale({**small, **DIGITS}, departures=(STAND_IN, "12 epochs in batches of 64, no augmentation")),
        "gpu": scale(lasting(60, 5, 5, 15), departures=("60 epochs instead of 300",)),
        "paper": scale(),
    },
    work=train,
    quantities={"accuracy": DuringTraining("accuracy")},
    questions=(above("standard"), above("droppath")),
    figures=(
        over_setting(DuringTraining("accuracy"), "freeze", "algorithm"),
        over_training("accuracy", colour="algorithm", panel="freeze"),
    ),
    departures=(
        "Algorithm 1 does not say how kept branches are frozen: `branches` and `all` put weights and BatchNorm "
        "statistics back after each step of stage 2; BatchNorm normalises by the batch there too, and momentum decays",
        "training and the last evaluation on the test set are in bf16; images are prepared as in table 1",
    ),
    measures=("accuracy", "top5", "epoch_steps"),
)
