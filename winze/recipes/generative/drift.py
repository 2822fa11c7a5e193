"""How far features move from what they were right after a task (arXiv 2109.01844, figure 3.3.3).

    winze run generative/drift --scale small           # after generative/forgetting: its phases of training are shared
    winze run generative/drift --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

Linear CKA between the features of a task's images right after that task and after each later one.
"""

from __future__ import annotations

from winze.lab import Claim, Question, Recipe, at_least, higher, lower
from winze.lab.claims.quantities import Whole
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D
from winze.report.experiment import over_setting, over_training

NUMBERS = ("mean_cka", "first_task_cka", "first_switch_cka", "largest_rise", "learned_accuracy")

recipe = Recipe(
    "generative/drift",
    **use.about("figure 3.3.3", use.sequence),
    shows="features of autoencoders and VAEs drift less than those of classifiers",
    scales=use.scales(),
    claims=(
        Claim(
            "features of an autoencoder stay closer to their reference than those of a discriminative network",
            "fig. 3.3.3",
            higher("mean_cka", AE, than=D),
            each="data",
            headline=True,
        ),
        Claim(
            "features of a VAE stay closer to their reference than those of a discriminative network",
            "fig. 3.3.3",
            higher("mean_cka", VAE, than=D),
            each="data",
        ),
        Claim(
            "features of a discriminative network change more at the next task than an autoencoder's",
            "fig. 3.3.3",
            lower("first_switch_cka", D, than=AE),
            each="data",
        ),
        Claim(
            "similarity to the reference rises again more in a discriminative network than in an autoencoder",
            "fig. 3.3.3, generative curves are monotone",
            higher("largest_rise", D, than=AE),
            each="data",
        ),
        Claim(
            "features of a VAE hardly change on CIFAR-10 (CKA of 0.9 or more)",
            "fig. 3.3.3",
            at_least("mean_cka", 0.9),
            at={"data": "cifar10", **VAE},
        ),
    ),
    questions=(
        Question(
            "is the first task's CKA higher in an autoencoder at the end?",
            higher("first_task_cka", AE, than=D),
            each="data",
        ),
    ),
    quantities={name: Whole(name) for name in NUMBERS},
    figures=(
        over_training(
            {name: f"cka of {name}" for name in use.TASKS},
            panel=("data", "model"),
            across="tasks learned",
            up="CKA",
            title="CKA to the features right after the task",
        ),
        over_setting("mean_cka", x="model", panel="data"),
    ),
    departures=use.DEPARTURES,
    measures=(*NUMBERS, "cka of *"),
    learned=("learned_accuracy", 0.6),
)
