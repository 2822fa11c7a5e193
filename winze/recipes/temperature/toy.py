"""Rank in a linear toy: with softmax training stops at rank 2 of 5, with squared error at 5 (figures 6.2.1 to 6.2.4).

    winze run temperature/toy --scale cpu      # 20,000 iterations of 64 networks per run: 9 minutes on one core
    winze run temperature/toy --scale paper    # 50,000 iterations: 20 minutes

Softmax can raise the rank of a matrix, so cross-entropy is low long before the logits use all directions. Such a
solution is less robust to noise. Dividing the logits by their own norm avoids it.
"""

from functools import partial

from winze.lab import Axis, Claim, Question, Recipe, Scale, alike, at_least, at_most, higher, level, lower, several
from winze.lab.claims.quantities import Whole
from winze.recipes.temperature import _figures
from winze.recipes.temperature._settings import ABOUT
from winze.recipes.temperature._toy import HARD, Toy, work

NAMES = ("accuracy", "lowest_rank", "rank", "second_value", "third_value", "noisy_accuracy")
claim = partial(Claim, scales=("paper",))  # the toy is the same at all scales
question = partial(Question, scales=("paper",))
usual, larger = {"start": 0.05}, {"start": 0.1}
mse, ce, dynamic, detached = ({"loss": one} for one in ("mse", "ce", "dynamic", "detached"))
started = lambda point: point.lies_at(usual) or point.lies_at(ce)  # noqa: E731
ENDS = {
    "rank with squared error": level("rank", 5, within=0.05, at=mse),
    "rank with cross-entropy": level("rank", 2, within=0.5, at=ce),
    "accuracy with squared error": at_least("accuracy", 1.0, at=mse),
    "accuracy with cross-entropy": at_least("accuracy", 1.0, at=ce),
}

NOISY = {
    "cross-entropy": lower("noisy_accuracy", ce, than=mse, by=0.05),
    "dynamic temperature": alike("noisy_accuracy", dynamic, to=mse, within=0.01),
}

recipe = Recipe(
    "temperature/toy",
    **ABOUT,
    shows="with softmax training ends at a low rank, which costs robustness; with squared error it does not",
    study=Toy(),
    axes={"loss": Axis("loss", ("mse", "ce", "dynamic", "detached")), "start": Axis("scale", (0.05, 0.1))},
    scales={
        "smoke": Scale({"iterations": 400, "members": 2, "draws": 100}, only=started, departures=("400 iterations",)),
        "cpu": Scale(seeds=4, only=started),
        "paper": Scale({"iterations": 50_000}, seeds=4, only=started),
    },
    work=work,
    claims=(
        claim(
            "the rank of the logits first falls to one or two directions",
            "fig. 6.2.1",
            at_most("lowest_rank", {"mse": 2, "ce": 2}),
            each="loss",
            paper="5 to 1",
            departure="from small random weights some networks stop at 2",
        ),
        claim(
            "squared error ends at rank 5 and cross-entropy at rank 2, though both reach 100 % accuracy",
            "fig. 6.2.1",
            several("number", ENDS),
        ),
        claim(
            "with cross-entropy two singular values of the logits grow far above 1, and no third",
            "fig. 6.2.3",
            several("value", {"second": at_least("second_value", 10), "third": at_most("third_value", 1)}),
            at=ce,
        ),
        claim(
            f"with noise of σ = {HARD} cross-entropy is less accurate than squared error, by 5 points or more, and "
            "dynamic temperature as accurate (within 1 point)",
            "fig. 6.2.2",
            several("loss", NOISY),
        ),
        claim(
            "dynamic temperature ends at full rank",
            "section 6.2",
            at_least("rank", 4),
            at=dynamic,
            departure="full is 4, not 5: cross-entropy never learns a common shift of all logits (P7)",
        ),
    ),
    questions=(
        question("does dynamic T need the gradient through the norm?", lower("accuracy", detached, than=dynamic)),
        question(
            "does cross-entropy end at a higher rank from a larger start?", higher("rank", larger, than=usual), at=ce
        ),
    ),
    quantities={name: Whole(name) for name in NAMES},
    figures=_figures.TOY,
    departures=(
        "the thesis does not give start, learning rate and iterations: N(0, 0.05²), 0.5 and 50,000",
        "a run trains 64 networks from different weights at once, and its numbers are means over them",
        "the rank counts singular values above 0.05 of the largest; the default of PyTorch's routine shows no collapse",
    ),
    measures=("*", "toy/*"),
)
