"""Synthetic data that are learned task by task without forgetting (Masarczyk & Tautkute, 2020, arXiv 2004.14046).

    winze run synthetic/meta --scale cpu             # digits, 400 meta-iterations: minutes on one core
    winze run synthetic/meta --scale gpu --jobs 3    # MNIST, 2,000 meta-iterations x 3 seeds on an H200

A generator is trained by the gradient of a learner's loss on real images through all of the learner's steps on
generated ones. Learners are then trained on five tasks of two classes, one after the other, without replay.
"""

from winze.lab import Axis, Claim, Question, Recipe, alike, at_least, higher, lower
from winze.lab.claims.quantities import Whole
from winze.recipes.synthetic._meta import (
    BY_BATCH,
    BY_STEPS,
    DEPARTURES,
    NUMBERS,
    PAPER,
    SEEN,
    URL,
    over,
    scales,
    sheets,
    study,
    work,
)

SYNTHETIC, REAL, GAN, MLP = ({"source": name} for name in ("synthetic", "real", "gan", "mlp"))

recipe = Recipe(
    "synthetic/meta",
    system="S5",
    paper=f"{PAPER}, figures 2.4.1 to 2.4.3",
    url=URL,
    shows="learners forget less on synthetic data that were trained through their training",
    study=study,
    axes={"source": Axis("source", ("synthetic", "real", "gan", "mlp"))},
    scales=scales,
    work=work,
    claims=(
        Claim(
            "after five tasks of synthetic data accuracy is higher than after five tasks of real data",
            "fig. 2.4.2",
            higher("final_accuracy", SYNTHETIC, than=REAL),
            headline=True,
        ),
        Claim(
            "after five tasks of synthetic data accuracy is higher than after images of a conditional GAN",
            "fig. 2.4.2",
            higher("final_accuracy", SYNTHETIC, than=GAN),
        ),
        Claim(
            "images of a conditional GAN serve as well as real data (within 10 points)",
            "fig. 2.4.2",
            alike("final_accuracy", GAN, to=REAL, within=0.1),
        ),
        Claim("a plain MLP on real data ends lowest", "fig. 2.4.2", lower("final_accuracy", MLP, than=REAL)),
        Claim(
            "final accuracy falls where learners take more steps per task than in meta-training",
            "fig. 2.4.3",
            at_least("lost_by_steps", {"synthetic": 0.0, "real": 0.0}),
            each="source",
        ),
        Claim(
            "with the longest training per task synthetic data still end above real data",
            "fig. 2.4.3",
            higher("longest_accuracy", SYNTHETIC, than=REAL),
        ),
        Claim(
            "with the largest batches synthetic data still end above real data",
            "section 2.4",
            higher("largest_batch_accuracy", SYNTHETIC, than=REAL),
        ),
    ),
    questions=(
        Question(
            "are synthetic data better than real data by 15 points or more?",
            higher("final_accuracy", SYNTHETIC, than=REAL, by=0.15),
        ),
        Question(
            "does synthetic data lose less accuracy to longer training than real data?",
            lower("lost_by_steps", SYNTHETIC, than=REAL),
        ),
    ),
    quantities={name: Whole(name) for name in NUMBERS},
    figures=(
        over(SEEN, "Accuracy after each task", "tasks learned"),
        over(BY_STEPS, "Final accuracy by steps per task", "inner steps per task"),
        over(BY_BATCH, "Final accuracy by batch size", "images per inner step"),
        sheets,
    ),
    departures=DEPARTURES,
    measures=("*", "samples"),
    learned=("first_accuracy", 0.6),
)
