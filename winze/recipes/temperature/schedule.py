"""A temperature that moves while a network learns: from low to high, and back. This is not in the thesis.

    winze run temperature/schedule --scale cpu    # MLP-8 on digits, 6 minutes on one core
    winze run temperature/schedule --scale gpu    # MLP-8 on CIFAR-10, 3 seeds

Does a network keep the rank that it had at the temperature it began with, or take that of the one it ends with? The
loss is multiplied by the temperature, so that one rate serves all of them: for plain gradient descent that is a rate
which follows T.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, higher, lower, share
from winze.recipes.temperature.figures import OVER_DEPTH
from winze.recipes.temperature.heated import work
from winze.recipes.temperature.quantities import MEASURES, QUANTITIES
from winze.recipes.temperature.settings import CLIP, DIGITS, OURS, STAND_IN, cifar, digits, smallest
from winze.train import Ramp

LOW, HIGH = 1.0, 100.0
COMPENSATED = {"training.compensate": True, "training.clip": CLIP}
ARMS = {"t1": LOW, "t100": HIGH, "rising": Ramp(LOW, HIGH), "falling": Ramp(HIGH, LOW)}

recipe = Recipe(
    name="temperature/schedule",
    system="S9",
    shows="what a temperature that rises or falls during training leaves of rank, accuracy and other data",
    paper="an experiment of our own, beside: Unpacking Softmax: How Temperature Drives Representation Collapse",
    url="https://arxiv.org/abs/2506.01562",
    arms={arm: {"training.temperature": value} | COMPENSATED for arm, value in ARMS.items()},
    scales={
        "smoke": Scale(
            smallest,
            seeds=(0,),
            departures=(DIGITS, "2 epochs on 200 samples"),
        ),
        "cpu": Scale(digits, seeds=(0, 1, 2), departures=(DIGITS,)),
        "gpu": Scale(cifar, seeds=(0, 1, 2), departures=(STAND_IN, "MLP-8 for 30 epochs")),
        "paper": Scale(replace(cifar, training=replace(cifar.training, epochs=1000)), seeds=(0, 1, 2)),
    },
    work=work,
    quantities=QUANTITIES,
    claims=(
        Claim(
            "at T = 100 throughout the last rank is lower than at T = 1, with a loss that makes up for T too",
            lower("rank_at_the_end", "t100", than="t1"),
            paper="lower at high T",
        ),
        Claim(
            "a rise from 1 to 100 ends at a lower rank than T = 1",
            lower("rank_at_the_end", "rising", than="t1"),
            paper=OURS,
        ),
        Claim(
            "a rise from 1 to 100 keeps a higher rank than T = 100 throughout",
            higher("rank_at_the_end", "rising", than="t100"),
            paper=OURS,
        ),
        Claim(
            "a fall from 100 to 1 leaves a lower rank than T = 1: what began compressed stays so",
            lower("rank_at_the_end", "falling", than="t1"),
            paper=OURS,
        ),
        Claim(
            "a fall from 100 to 1 loses more on other data than a rise from 1 to 100",
            higher("rho", "falling", than="rising"),
            paper=OURS,
        ),
        Claim(
            "so it does on the second set of other data",
            higher("rho_of_the_second", "falling", than="rising"),
            paper=OURS,
            scales=("gpu", "paper"),
        ),
        *(
            Claim(
                f"a {name} keeps 98 % of the accuracy at T = 1",
                share("accuracy", arm, of="t1", at_least=0.98),
                paper=OURS,
            )
            for arm, name in {"rising": "rise", "falling": "fall"}.items()
        ),
        Claim(
            "a fall from 100 to 1 moves the start of the tunnel forward against T = 1",
            lower("tunnel_start", "falling", than="t1"),
            paper=OURS,
        ),
    ),
    departures=(
        "no part of this is published; the fixed temperatures are those of temperature/training",
        "the loss is multiplied by T, gradients are clipped at a norm of 5, and the rate is that of T = 1",
    ),
    measures=MEASURES,
    figures=OVER_DEPTH,
)
