"""Reconstruction of tasks that an autoencoder has not seen (arXiv 2109.01844, figure 3.3.4).

    winze run generative/reconstruction --scale small           # splitMNIST, minutes on one core
    winze run generative/reconstruction --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

An autoencoder and a VAE learn task 1 alone; the reconstruction error of all five tasks is read after each epoch.
"""

from functools import partial

from winze.lab import Claim, Recipe, at_least, at_most, higher
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE

claim = partial(Claim, source="fig. 3.3.4", each=("data", "model"))
NUMBERS = ("own_error", "unseen_error", "gap", "worst_ratio")

recipe = Recipe(
    "generative/reconstruction",
    **use.about("figure 3.3.4", use.reconstruction, NUMBERS, "reconstruction of *", "epoch_steps", model=use.GENERATIVE)
    | {"learned": ("own_error", 0.0)},
    shows="an autoencoder of one task learns to reconstruct the others too",
    claims=(
        claim(
            "the reconstruction error of every unseen task falls while task 1 is learned",
            check=at_most("worst_ratio", 0.999),
        ),
        claim(
            "unseen tasks are reconstructed worse than task 1 on MNIST and FashionMNIST",
            check=at_least("gap", dict.fromkeys(use.GREY, 1.05)),
        ),
        claim(
            "the gap between task 1 and unseen tasks is larger in a VAE than in an autoencoder",
            check=higher("gap", VAE, than=AE),
            each="data",
            only=("mnist", "fashion_mnist"),
        ),
        claim(
            "unseen tasks of CIFAR-10 are reconstructed as well as task 1 (within 10 %)",
            check=at_most("gap", 1.1),
            at={"data": "cifar10"},
            each="model",
        ),
    ),
    figures=(
        use.by_task(
            "reconstruction", "Reconstruction error over training on task 1", "mean squared error", shared=False
        ),
        use.by_model("gap"),
    ),
)
