"""Frozen classifiers on features that go on learning (Masarczyk et al., 2021, arXiv 2109.01844, figure 3.3.2).

    winze run generative/forgetting --scale small           # 10,000 images of splitMNIST: minutes on one core
    winze run generative/forgetting --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

A discriminative network, an autoencoder and a VAE with the same trunk learn five tasks one after the other. The
classifier of a task is fitted on its features while the task is learned, then frozen.
"""

from __future__ import annotations

from winze.lab import Claim, Question, Recipe, at_least, at_most, higher, lower
from winze.lab.claims.quantities import Whole
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D
from winze.report.experiment import over_setting, over_training

NUMBERS = ("average_accuracy", "learned_accuracy", "forgetting", "earlier_accuracy")
ABOVE_90 = [(data, model) for data in ("mnist", "fashion_mnist") for model in ("autoencoder", "vae")]

recipe = Recipe(
    "generative/forgetting",
    **use.about("figure 3.3.2", use.sequence),
    shows="features of autoencoders and VAEs forget less than those of classifiers",
    scales=use.scales(),
    claims=(
        Claim(
            "generative models keep more than 90 % average accuracy with nothing against forgetting",
            "section 3.3.1",
            at_least("average_accuracy", dict.fromkeys(ABOVE_90, 0.9)),
            each=("data", "model"),
            paper="above 90 %",
            headline=True,
        ),
        Claim(
            "an autoencoder forgets less than a discriminative network",
            "fig. 3.3.2",
            lower("forgetting", AE, than=D),
            each="data",
        ),
        Claim(
            "a VAE forgets less than a discriminative network",
            "fig. 3.3.2",
            lower("forgetting", VAE, than=D),
            each="data",
        ),
        Claim(
            "a discriminative network falls to near chance on earlier tasks (60 % or less)",
            "fig. 3.3.2",
            at_most("earlier_accuracy", 0.6),
            at=D,
            each="data",
            paper="near 50 %",
        ),
        Claim(
            "on CIFAR-10 a VAE forgets less than an autoencoder",
            "fig. 3.3.2",
            lower("forgetting", VAE, than=AE),
            at={"data": "cifar10"},
        ),
    ),
    questions=(
        Question(
            "is an autoencoder's average accuracy at least 10 points above a discriminative network's?",
            higher("average_accuracy", AE, than=D, by=0.1),
            each="data",
        ),
        Question(
            "does a discriminative network learn each task better?", higher("learned_accuracy", D, than=AE), each="data"
        ),
    ),
    quantities={name: Whole(name) for name in NUMBERS},
    figures=(
        over_training(
            {name: f"accuracy of {name}" for name in use.TASKS},
            panel=("data", "model"),
            up="accuracy of frozen classifiers",
            title="Accuracy of frozen classifiers over training",
        ),
        over_setting("average_accuracy", x="model", panel="data"),
        over_setting("forgetting", x="model", panel="data"),
    ),
    departures=use.DEPARTURES,
    measures=(*NUMBERS, "accuracy of *", "epoch_steps"),
    learned=("learned_accuracy", 0.6),
)
