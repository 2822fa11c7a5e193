"""Frozen classifiers on features that go on learning (Masarczyk et al., 2021, arXiv 2109.01844, figure 3.3.2).

    winze run generative/forgetting --scale small           # 10,000 images of splitMNIST: minutes on one core
    winze run generative/forgetting --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

A discriminative network, an autoencoder and a VAE with the same trunk learn five tasks one after the other. The
classifier of a task is fitted on its features while the task is learned, then frozen.
"""

from functools import partial

from winze.lab import Claim, Question, Recipe, at_least, at_most, higher, lower
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D

claim = partial(Claim, source="fig. 3.3.2")
NUMBERS = ("average_accuracy", "learned_accuracy", "forgetting", "earlier_accuracy")

recipe = Recipe(
    "generative/forgetting",
    **use.about("figure 3.3.2", use.sequence, NUMBERS, "accuracy of *", "epoch_steps"),
    shows="features of autoencoders and VAEs forget less than those of classifiers",
    claims=(
        claim(
            "generative models keep more than 90 % average accuracy with nothing against forgetting",
            source="section 3.3.1",
            check=at_least("average_accuracy", dict.fromkeys(use.GREY, 0.9)),
            each=("data", "model"),
            paper="above 90 %",
            headline=True,
        ),
        *(
            claim(
                f"{name} forgets less than a discriminative network",
                check=lower("forgetting", one, than=D),
                each="data",
            )
            for name, one in {"an autoencoder": AE, "a VAE": VAE}.items()
        ),
        claim(
            "a discriminative network falls to near chance on earlier tasks (60 % or less)",
            check=at_most("earlier_accuracy", 0.6),
            at=D,
            each="data",
            paper="near 50 %",
        ),
        claim(
            "on CIFAR-10 a VAE forgets less than an autoencoder",
            check=lower("forgetting", VAE, than=AE),
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
    figures=(
        use.by_task("accuracy", "Accuracy of frozen classifiers over training", "accuracy of frozen classifiers"),
        use.by_model("average_accuracy"),
        use.by_model("forgetting"),
    ),
)
