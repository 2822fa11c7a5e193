"""Reconstruction of tasks that an autoencoder has not seen (arXiv 2109.01844, figure 3.3.4).

    winze run generative/reconstruction --scale small           # splitMNIST, minutes on one core
    winze run generative/reconstruction --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

An autoencoder and a VAE learn task 1 alone; the reconstruction error of all five tasks is read after each epoch.
"""

from __future__ import annotations

from winze.lab import Claim, Recipe, at_least, at_most, higher
from winze.lab.claims.quantities import Whole
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE
from winze.report.experiment import over_setting, over_training

NUMBERS = ("own_error", "unseen_error", "gap", "worst_ratio")
GREY = [(data, model) for data in ("mnist", "fashion_mnist") for model in use.GENERATIVE]

recipe = Recipe(
    "generative/reconstruction",
    **use.about("figure 3.3.4", use.reconstruction),
    shows="an autoencoder of one task learns to reconstruct the others too",
    scales=use.scales(model=use.GENERATIVE),
    claims=(
        Claim(
            "the reconstruction error of every unseen task falls while task 1 is learned",
            "fig. 3.3.4",
            at_most("worst_ratio", 0.999),
            each=("data", "model"),
        ),
        Claim(
            "unseen tasks are reconstructed worse than task 1 on MNIST and FashionMNIST",
            "fig. 3.3.4",
            at_least("gap", dict.fromkeys(GREY, 1.05)),
            each=("data", "model"),
        ),
        Claim(
            "the gap between task 1 and unseen tasks is larger in a VAE than in an autoencoder",
            "fig. 3.3.4",
            higher("gap", VAE, than=AE),
            each="data",
            only=("mnist", "fashion_mnist"),
        ),
        Claim(
            "unseen tasks of CIFAR-10 are reconstructed as well as task 1 (within 10 %)",
            "fig. 3.3.4",
            at_most("gap", 1.1),
            at={"data": "cifar10"},
            each="model",
        ),
    ),
    quantities={name: Whole(name) for name in NUMBERS},
    figures=(
        over_training(
            {name: use.RECONSTRUCTION.format(name) for name in use.TASKS},
            panel=("data", "model"),
            up="mean squared error",
            title="Reconstruction error over training on task 1",
            shared=False,
        ),
        over_setting("gap", x="model", panel="data"),
    ),
    departures=use.DEPARTURES,
    measures=(*NUMBERS, "reconstruction of *", "epoch_steps"),
    learned=("own_error", 0.0),
)
