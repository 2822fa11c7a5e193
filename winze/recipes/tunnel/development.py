"""How the tunnel develops during training (thesis, figures 5.3.1, 5.3.2 and 5.14.1, and the reset of its weights).

    winze run tunnel/development --scale cpu                   # VGG-19 with few channels on digits: 4 minutes
    winze run tunnel/development --scale gpu --at rate=0.03    # VGG-19 on CIFAR-10: 2 points x 3 seeds, 14 H200 minutes

Over a whole training the rank of every layer is read after every epoch (4000 test images, at most 1000 features), and
the root mean square change of its weights every few epochs. Then all hidden layers from one on are reset to their
initial weights (`reset`), also with fresh batch norm statistics (`reset_refreshed`). Over the first 75 steps ranks are
read after every step.
"""

from dataclasses import replace

from winze.lab import Axis, Claim, Data, Question, Recipe, Scale, Watching, at_least, at_most, level, several
from winze.recipes.tunnel import _settings as settings
from winze.recipes.tunnel import _work as watched
from winze.recipes.tunnel._settings import CONVOLUTIONS, VGG, gentle, quick, shortened
from winze.recipes.tunnel._work import CHANGE, RANK
from winze.train import Constant, Epochs, Milestones, Steps

WHOLE, STEPS = {"watched": "whole training"}, {"watched": "first steps"}
names = {"numerical_rank": RANK, CHANGE: CHANGE}
watching = Watching(("rank", CHANGE), names=names, max_features=1000, weights_every=Epochs(10))
ranks = {"watching.measures": ("rank",), "watching.every": Steps(1), "watching.weights_every": None}
images = {"data.limit": watched.FIRST * VGG.batch}
slow_steps = replace(gentle(VGG, 16), length=Epochs(1), schedule=Constant(warmup=Epochs(0.2)))
fast_steps = replace(quick(VGG, 24), length=Epochs(1), schedule=Milestones(per="epoch"))
flat = {"reading.pool": "flatten", "watching.pool": "flatten"}
digits = {**flat, "network.name": "winze/vgg19x0.125", "data": Data("digits"), "training": CONVOLUTIONS}

recipe = Recipe(
    "tunnel/development",
    **settings.THESIS,
    shows="the tunnel appears in the first steps and its weights then change little, yet they cannot be reset",
    study=replace(settings.study, watching=watching),
    axes={
        "watched": Axis("", {"whole training": {}, "first steps": ranks}),
        "rate": Axis("training.optimizer.lr", (0.03, 0.1)),
    },
    scales={
        "smoke": Scale(
            {**digits, "data.limit": 300, "training": shortened(CONVOLUTIONS, 2), "watching.weights_every": Epochs(1)},
            {"rate": (0.1,)},
            departures=("digits instead of CIFAR-10; VGG-19 with an eighth of the channels, 2 epochs on 300 samples",),
        ),
        "cpu": Scale(
            {**digits, "watching.weights_every": Epochs(3)},
            {"rate": (0.1,)},
            seeds=3,
            at=((STEPS, {"training": shortened(CONVOLUTIONS, 7)}),),
            departures=("digits instead of CIFAR-10; VGG-19 with an eighth of the channels, 30 epochs",),
        ),
        "gpu": Scale(
            {**settings.GRID, "watching.pool": 2, "watching.weights_every": Epochs(2)},
            seeds=3,
            at=(
                *settings.at_rates(WHOLE, VGG, 16, 24),
                ({**STEPS, "rate": 0.03}, {"training": slow_steps, **images}),
                ({**STEPS, "rate": 0.1}, {"training": fast_steps, **images}),
            ),
            departures=(
                "bf16; 16 epochs at 0.03 and 24 at 0.1 instead of 160; the weights are read every 2 epochs",
                settings.TWO_RATES,
                "at 0.03 the learning rate rises during the first 15 of the 75 steps",
                settings.ON_GRID,
            ),
        ),
        "paper": Scale(
            {**settings.FLAT, **flat},
            {"rate": (0.1,)},
            seeds=3,
            at=((STEPS, {"training.length": Epochs(1), "training.schedule.at": (), **images}),),
        ),
    },
    work=watched.watch_and_reset,
    claims=(
        Claim(
            "the weights of the tunnel change less than half as much as those of the extractor",
            "fig. 5.3.1",
            at_most(watched.change, 0.5),
            each="rate",
            paper="much darker",
        ),
        Claim(
            "the rank of deep layers falls to about the number of classes (10, within 5) in 75 steps and ends there",
            "figs. 5.3.2 and 5.14.1",
            level(watched.deep_rank, 10, within=5),
            each=("watched", "rate"),
            paper="about 10",
            post_hoc="sharpened from at most 20 after the readings at a learning rate of 0.03 were seen",
        ),
    ),
    questions=(
        Question(
            "do ranks rise before the tunnel's start and fall behind it?",
            level(watched.switch, 0, within=2),
            each="rate",
        ),
        Question(
            "does resetting the weights of the tunnel cost 20 points or more?",
            several("statistics", {name: at_least(one, 0.2) for name, one in watched.lost.items()}),
            each="rate",
        ),
    ),
    figures=watched.figures(WHOLE),
    departures=(
        *(settings.NORM, settings.AUGMENTED, settings.REFERENCE),
        "the output is never reset; reset layers keep their batch norm statistics unless refreshed",
        "the first 75 steps are those of a training on 9600 images",
    ),
    measures=("probe", "accuracy", "numerical_rank", RANK, CHANGE, "reset*", "loss"),
    learned=watched.LEARNED,
)
