"""What acts like a temperature without being one: the start of the last layer, and a norm on the logits (section 6.5).

    winze run temperature/factors --scale cpu    # MLP-8 on digits, 5 minutes on one core
    winze run temperature/factors --scale gpu    # MLP-8 on CIFAR-10, 3 seeds

A last layer that starts from U(−α, α) with a tiny α, as in contrastive reinforcement learning, makes small logits, as
a high temperature does. A norm on the logits keeps them from growing, as a low one does.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, higher, lower, share
from winze.recipes.temperature.figures import OVER_DEPTH
from winze.recipes.temperature.heated import work
from winze.recipes.temperature.quantities import MEASURES, QUANTITIES
from winze.recipes.temperature.settings import CLIP, DIGITS, OURS, STAND_IN, cifar, digits, smallest

CLIPPED = {"training.clip": CLIP}

recipe = Recipe(
    name="temperature/factors",
    system="S9",
    shows="a small start of the last layer acts like a high temperature, and a norm on the logits like a low one",
    paper="Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, chapter 6, discussion",
    url="https://arxiv.org/abs/2506.01562",
    arms={
        "plain": {},
        "small_start": {"options": {"alpha": 1e-12}},
        "batch_norm": {"options": {"output_norm": "batch"}},
        "layer_norm": {"options": {"output_norm": "layer"}},
    },
    scales={
        "smoke": Scale(
            smallest,
            seeds=(0,),
            departures=(DIGITS, "2 epochs on 200 samples"),
        ),
        "cpu": Scale(digits, seeds=(0, 1, 2), changes={"*": CLIPPED}, departures=(DIGITS,)),
        "gpu": Scale(
            cifar,
            seeds=(0, 1, 2),
            changes={"*": CLIPPED},
            departures=(STAND_IN, "MLP-8 for 30 epochs"),
        ),
        "paper": Scale(
            replace(cifar, training=replace(cifar.training, epochs=1000)),
            seeds=(0, 1, 2),
            changes={"*": CLIPPED},
        ),
    },
    work=work,
    quantities=QUANTITIES,
    claims=(
        Claim(
            "a last layer that starts from 1e-12 ends at a lower rank, as at a high temperature",
            lower("rank_at_the_end", "small_start", than="plain"),
            paper="acts like a high temperature",
        ),
        Claim(
            "its layers are more aligned early in training",
            higher("alignment", "small_start", than="plain"),
            paper=OURS,
        ),
        *(
            claim
            for arm, name in {"batch_norm": "batch norm", "layer_norm": "layer norm"}.items()
            for claim in (
                Claim(
                    f"{name} on the logits keeps them smaller",
                    lower("logits_norm", arm, than="plain"),
                    paper="limits the growth",
                ),
                Claim(
                    f"{name} on the logits ends at a higher rank, as at a low temperature",
                    higher("rank_at_the_end", arm, than="plain"),
                    paper="acts like a low temperature",
                ),
            )
        ),
        *(
            Claim(
                f"the accuracy is kept: {name}",
                share("accuracy", arm, of="plain", at_least=0.95),
                paper=OURS,
            )
            for arm, name in {
                "small_start": "a small start",
                "batch_norm": "batch norm",
                "layer_norm": "layer norm",
            }.items()
        ),
    ),
    departures=(
        "the thesis names these factors and measures none of them; wider projection heads are left out",
        "everything else is as in temperature/training at T = 1",
    ),
    measures=MEASURES,
    figures=OVER_DEPTH,
)
