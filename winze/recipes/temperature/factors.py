"""What acts like a temperature: a small start of the last layer, and a norm on the logits (thesis, section 6.5).

    winze run temperature/factors --scale cpu    # MLP-8 on digits, 5 minutes on one core
    winze run temperature/factors --scale gpu    # MLP-8 on CIFAR-10, 3 seeds

A last layer that starts from U(-α, α) with a tiny α, as in contrastive reinforcement learning, makes small logits, as a
high temperature does. A norm on the logits keeps them from growing, as a low temperature does.
"""

from typing import Any

from winze.lab import Axis, Claim, Question, Recipe, alike, higher, lower
from winze.recipes.temperature import _figures
from winze.recipes.temperature._settings import TRAINED, scales

plain, small_start = {"factor": "plain"}, {"factor": "small_start"}
norms: dict[str, Any] = {"each": "factor", "only": ("batch_norm", "layer_norm")}
OPTIONS: dict[str, Any] = {"plain": {}, "small_start": {"alpha": 1e-12}}
OPTIONS |= {"batch_norm": {"output_norm": "batch"}, "layer_norm": {"output_norm": "layer"}}

recipe = Recipe(
    "temperature/factors",
    **TRAINED,
    shows="a small start of the last layer acts like a high temperature, a norm on the logits like a low one",
    axes={"factor": Axis("network.options", OPTIONS)},
    scales=scales,
    claims=(
        Claim(
            "a last layer that starts from U(-1e-12, 1e-12) lowers the last rank, as a high temperature does",
            "section 6.5",
            lower("last_rank", small_start, than=plain),
        ),
        Claim(
            "a norm on the logits raises the last rank, as a low temperature does",
            "section 6.5",
            higher("last_rank", than=plain),
            **norms,
        ),
    ),
    questions=(
        Question(
            "does a norm on the logits limit the growth of their norm?",
            lower("logits_norm", than=plain),
            **norms,
        ),
        Question("does a small start align layers early in training?", higher("alignment", small_start, than=plain)),
        Question(
            "is accuracy with every factor within 5 points of that without?",
            alike("accuracy", to=plain, within=0.05),
            each="factor",
            post_hoc="the margin, 95 % of the accuracy before, was set after the readings were seen",
        ),
    ),
    figures=_figures.networks("factor"),
    departures=(
        "the thesis names these factors and measures none of them; wider projection heads are left out",
        "everything else is as in temperature/training at T = 1",
    ),
)
