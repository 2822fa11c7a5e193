"""Rank in a linear toy: softmax lets training stop at rank 2 of 5, squared error does not (figures 6.2.1 to 6.2.4).

    winze run temperature/toy --scale cpu    # 64 networks a run, 4 runs an arm: about 3 minutes on one core

Softmax can raise the rank of a matrix, so cross-entropy is low long before the logits use all directions. Such a
solution is less robust to noise. Dividing the logits by their own norm takes the way out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from winze.lab import Claim, Recipe, Scale, at_least, at_most, higher, level, lower, share
from winze.lab.bench import Bench
from winze.lab.quantities import Whole
from winze.measure import column_softmax
from winze.recipes.temperature import toy_figures
from winze.recipes.temperature.linear import Toy, accuracy, noisy_accuracy, train

LOOKS = 120  # moments of a run that are kept, evenly spread on a logarithmic scale
HARD = 0.3  # the noise at which losses are compared
OURS = "not in the thesis"


def work(toy: Toy, bench: Bench) -> None:
    """Train all members at once; numbers are means over members, spectra those of the first with the usual rank."""
    looks = sorted({round(at) for at in np.geomspace(1, toy.iterations, LOOKS)} | {0})
    before, after, right = [], [], []
    for _, logits in train(toy, bench.seed, looks):
        before.append(torch.linalg.svdvals(logits))
        after.append(torch.linalg.svdvals(column_softmax(logits)))
        right.append(accuracy(logits))
    values, softened = torch.stack(before), torch.stack(after)  # look, member, direction
    ranks = (values > toy.relative * values[..., :1]).double().sum(-1)
    noisy = noisy_accuracy(toy, bench.seed, logits)
    last, usual = values[-1], int((ranks[-1] == ranks[-1].mode().values).int().argmax())
    numbers = {
        "accuracy": right[-1],
        "lowest_rank": ranks.amin(0),
        "rank": ranks[-1],
        "rank_after_softmax": (softened[-1] > toy.relative * softened[-1][:, :1]).double().sum(-1),
        "distance_from_one": (last - 1).abs().amax(1),
        "distance_from_one_after_softmax": (softened[-1] - 1).abs().amax(1),
        "second_value": last[:, 1],
        "third_value": last[:, 2],
        "noisy_accuracy": noisy[toy.sigmas.index(HARD)],
    }
    for name, members in numbers.items():
        bench.readings.add(name, members.mean(), n=toy.members)
    bench.readings.arrays |= {
        "toy/iterations": np.array(looks),
        "toy/rank": _short(torch.stack([ranks.mean(1), *ranks.quantile(torch.tensor([0.1, 0.9]).double(), 1)], 1)),
        "toy/before_softmax": _short(values[:, usual]),
        "toy/after_softmax": _short(softened[:, usual]),
        "toy/noise": np.array(toy.sigmas),
        "toy/noisy_accuracy": _short(noisy.mean(1)),
    }
    bench.readings.conventions["samples"] = {"networks": toy.members}


def _short(values: Tensor) -> np.ndarray:
    return values.float().numpy()


recipe = Recipe(
    name="temperature/toy",
    system="S9",
    shows="with softmax training ends at a low rank, which costs robustness; with squared error it does not",
    paper="Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, section 6.2",
    url="https://arxiv.org/abs/2506.01562",
    arms={
        "mse": {"loss": "mse"},
        "ce": {"loss": "ce"},
        "dynamic": {"loss": "dynamic"},
        "detached": {"loss": "detached"},
        "ce_larger_start": {"loss": "ce", "scale": 0.1},
    },
    scales={
        "smoke": Scale(Toy(iterations=400, members=2, draws=100), seeds=(0,), departures=("400 iterations",)),
        "cpu": Scale(Toy(), seeds=(0, 1, 2, 3)),
        "paper": Scale(Toy(iterations=50_000), seeds=(0, 1, 2, 3)),
    },
    work=work,
    quantities={
        name: Whole(name)
        for name in (
            "accuracy",
            "lowest_rank",
            "rank",
            "rank_after_softmax",
            "distance_from_one",
            "distance_from_one_after_softmax",
            "second_value",
            "third_value",
            "noisy_accuracy",
        )
    },
    claims=(
        *(
            Claim(
                f"with {name} the rank of the logits first falls to one or two directions",
                at_most("lowest_rank", arm, 2),
                paper="5 to 1",
                departure="from small random weights some networks stop at 2",
            )
            for arm, name in {"mse": "squared error", "ce": "cross-entropy"}.items()
        ),
        Claim("with squared error it climbs back to 5", level("rank", "mse", 5, within=0.05), paper=5),
        Claim("with cross-entropy it stays at 2", level("rank", "ce", 2, within=0.5), paper=2),
        Claim("cross-entropy ends at a lower rank than squared error", lower("rank", "ce", than="mse"), paper="2 < 5"),
        *(
            Claim(f"{name} gets every sample right", at_least("accuracy", arm, 1.0), paper="100 %")
            for arm, name in {"mse": "squared error", "ce": "cross-entropy", "dynamic": "dynamic temperature"}.items()
        ),
        Claim(
            "softmax raises the rank of cross-entropy's logits to 5",
            level("rank_after_softmax", "ce", 5, within=0.05),
            paper=5,
        ),
        Claim(
            "all singular values of squared error's logits end at 1",
            at_most("distance_from_one", "mse", 0.01),
            paper="all at 1",
        ),
        Claim(
            "two singular values of cross-entropy's logits grow far above 1",
            at_least("second_value", "ce", 10),
            paper="two far above 1",
        ),
        Claim("and the third does not", at_most("third_value", "ce", 1), paper="two far above 1"),
        Claim(
            "after softmax all of them settle at 1",
            at_most("distance_from_one_after_softmax", "ce", 0.01),
            paper="all at 1",
        ),
        Claim(
            f"on noisy samples (σ = {HARD}) cross-entropy is worse than squared error, by 5 points or more",
            lower("noisy_accuracy", "ce", than="mse", by=0.05),
            paper="below",
        ),
        Claim(
            "a dynamic temperature is as good there as squared error",
            share("noisy_accuracy", "dynamic", of="mse", at_least=0.99, at_most=1.01),
            paper="the curves coincide",
        ),
        Claim(
            "a dynamic temperature ends at a rank of 4 at least",
            at_least("rank", "dynamic", 4),
            paper="full rank",
            departure="cross-entropy never learns the direction in which all logits grow alike (P7): full is 4, not 5",
        ),
        Claim(
            "it has to pass gradients through the norm: without them it learns less",
            lower("accuracy", "detached", than="dynamic"),
            paper=OURS,
        ),
        Claim(
            "from weights twice as large cross-entropy ends at a higher rank",
            higher("rank", "ce_larger_start", than="ce"),
            paper=OURS,
        ),
    ),
    departures=(
        "the thesis does not give its start, rate and number of iterations: N(0, .05²), .5 and 20,000",
        "a run trains 64 networks from different weights at once, and its numbers are means over them",
        "the rank counts singular values above .05 of the largest; the default of PyTorch's routine shows no collapse",
    ),
    measures=("*", "toy/*"),
    figures=toy_figures.FIGURES,
)
