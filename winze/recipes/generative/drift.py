"""How far features move from what they were right after a task (arXiv 2109.01844, figure 3.3.3).

    winze run generative/drift --scale small           # after generative/forgetting: its phases of training are shared
    winze run generative/drift --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

Linear CKA between the features of a task's images right after that task and after each later one.
"""

from functools import partial

from winze.lab import Claim, Question, Recipe, at_least, higher, lower
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D

claim = partial(Claim, source="fig. 3.3.3", each="data")
NUMBERS = ("mean_cka", "first_task_cka", "first_switch_cka", "largest_rise", "learned_accuracy")

recipe = Recipe(
    "generative/drift",
    **use.about("figure 3.3.3", use.sequence, NUMBERS, "cka of *"),
    shows="features of autoencoders and VAEs drift less than those of classifiers",
    claims=(
        claim(
            "features of an autoencoder stay closer to their reference than those of a discriminative network",
            check=higher("mean_cka", AE, than=D),
            headline=True,
        ),
        claim(
            "features of a VAE stay closer to their reference than those of a discriminative network",
            check=higher("mean_cka", VAE, than=D),
        ),
        claim(
            "features of a discriminative network change more at the next task than an autoencoder's",
            check=lower("first_switch_cka", D, than=AE),
        ),
        claim(
            "similarity to the reference rises again more in a discriminative network than in an autoencoder",
            source="fig. 3.3.3, generative curves are monotone",
            check=higher("largest_rise", D, than=AE),
        ),
        claim(
            "features of a VAE hardly change on CIFAR-10 (CKA of 0.9 or more)",
            check=at_least("mean_cka", 0.9),
            at={"data": "cifar10", **VAE},
            each=(),
        ),
    ),
    questions=(
        Question(
            "is the first task's CKA higher in an autoencoder at the end?",
            higher("first_task_cka", AE, than=D),
            each="data",
        ),
    ),
    figures=(
        use.by_task("cka", "CKA to the features right after the task", "CKA", across="tasks learned"),
        use.by_model("mean_cka"),
    ),
)
