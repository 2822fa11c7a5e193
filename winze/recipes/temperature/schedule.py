"""A temperature that rises or falls during training, beside fixed ones. This experiment is ours, not the thesis's.

    winze run temperature/schedule --scale cpu    # MLP-8 on digits, 6 minutes on one core
    winze run temperature/schedule --scale gpu    # MLP-8 on CIFAR-10, 3 seeds

Does a network keep the rank of the temperature it starts with, or take that of the temperature it ends with? The loss
is multiplied by T, so that one learning rate serves all temperatures.
"""

from dataclasses import replace

from winze.lab import Axis, Question, Recipe, higher, lower, not_below, several
from winze.recipes.temperature import _figures
from winze.recipes.temperature._settings import TRAINED, scales, study
from winze.train import Classify, Ramp

rising, falling, low, high = ({"temperature": one} for one in ("rising", "falling", 1, 100))
compensated = replace(study, training=replace(study.training, objective=Classify(compensate=True)))
RAMPS = {1: 1.0, 100: 100.0, "rising": Ramp(1.0, 100.0), "falling": Ramp(100.0, 1.0)}

recipe = Recipe(
    "temperature/schedule",
    **TRAINED | {"study": compensated},
    shows="the effect of a rising or falling temperature on rank, accuracy and OOD accuracy",
    axes={"temperature": Axis("training.objective.temperature", RAMPS)},
    scales=scales,
    questions=(
        Question("is the last rank lower than at T = 1?", lower("last_rank", than=low), each="temperature"),
        Question("does a rise to T = 100 end at a higher rank than T = 100?", higher("last_rank", rising, than=high)),
        Question(
            "does a fall lose more OOD accuracy than a rise?",
            several("reading", {name: higher(name, falling, than=rising) for name in ("rho", "rho_of_the_second")}),
            scales=("gpu", "paper"),
            post_hoc="the second OOD set was added after the readings at scale gpu were seen",
        ),
        Question(
            "is the accuracy of T = 1 kept (margin 1 point)?",
            not_below("accuracy", than=low, margin=0.01),
            each="temperature",
            post_hoc="the margin, 2 % of the accuracy before, was set after the readings were seen",
        ),
        Question("does a fall make the tunnel longer than at T = 1?", lower("tunnel_start", falling, than=low)),
    ),
    figures=_figures.networks("temperature"),
    departures=("the loss is multiplied by T, gradients are clipped at a norm of 5, at the learning rate of T = 1",),
)
