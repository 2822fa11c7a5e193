"""Shortcuts that fade with depth in ResNets that learn from labels (appendix B.3, figure 7 and its table).

    winze run decayed/supervised --scale cpu    # 8 and 16 blocks on digits, minutes on one core
    winze run decayed/supervised --scale gpu --jobs 6 --compile    # the same on CIFAR-10, four alpha_min, 3 seeds

The smaller the weight alpha_min of the last shortcut, the lower the effective rank of the features; deeper networks end
lower too; accuracy does not suffer. The tunnel and what the features are worth for other data are read beside it, which
the paper does not do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from winze.data import Flip, PadCrop
from winze.lab import Claim, Recipe, Scale, at_most, falls, higher, level, lower, rises, share
from winze.lab.quantities import OOD, Over, OverLooks, TunnelLayer, Whole, drop, hidden
from winze.readings import Array
from winze.recipes.decayed.watched import RANK, Watched, work
from winze.report.by_arm import depth_by_arm, training_by_arm
from winze.report.doses import Panel, doses
from winze.shape import DecayedIdentity
from winze.train import Training

ALPHAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
BLOCKS = (8, 10, 12, 14, 16)
SWEEPS: Mapping[str, tuple[Sequence[int], Sequence[float], float]] = {
    # the numbers of blocks, alpha_min from 1 down, and the accuracy that may be lost
    "smoke": ((8, 16), (1.0, 0.4), 0.02),
    "cpu": ((8, 16), (1.0, 0.7, 0.4), 0.02),
    "gpu": ((8, 16), (1.0, 0.8, 0.6, 0.4), 0.003),
    "paper": (BLOCKS, ALPHAS, 0.003),
}
SWEPT = ("cpu", "gpu", "paper")
PAIRS = ((1.0, 0.4), (1.0, 0.7), (0.7, 0.4), (1.0, 0.8), (0.8, 0.6), (0.6, 0.4))
BEST, PLAIN = 0.944, 0.936  # the accuracies of the paper's table
LOST = "which alpha_min the paper's table is of is lost in our copy; .7, its best elsewhere, is taken"
OURS = "not in the paper"
TINY = "10 classes of Tiny-ImageNet (500 test images) are the other data"
FASHION = "Fashion-MNIST, 8 x 8, is the other data"
OTHER_DIGITS = "digits 0-4, with 5-9 as the other data"


def arm(blocks: int, alpha: float) -> str:
    """The arm of a number of blocks and an alpha_min."""
    return f"blocks{blocks}_alpha{alpha:g}"


def arms_of(scale: str) -> tuple[str, ...]:
    """The arms that a scale runs."""
    blocks, alphas, _ = SWEEPS[scale]
    return tuple(arm(count, alpha) for count in blocks for alpha in alphas)


def slope(curve: Array) -> float:
    """By how much a curve over depth rises from its first to its last block, on its least-squares line."""
    return float(np.polyfit(np.linspace(0, 1, len(curve)), curve, 1)[0])


def third_stage_slope(curve: Array) -> float:
    """The same from the first to the last block of the third stage, which all have as many channels."""
    return slope(curve[4:-2])


def _sweep(scale: str, count: int) -> list[Claim]:
    """What all alpha_min of a scale say together, in networks of so many blocks."""
    _, alphas, _ = SWEEPS[scale]
    swept = [arm(count, alpha) for alpha in alphas]
    said = f"(alpha_min from 1 to {alphas[-1]:g}, {count} blocks)"
    asked = (
        ("a smaller alpha_min lowers the effective rank of the last features", "rank_at_the_end", "lower"),
        ("so it does on the mean of all epochs", "rank_over_training", "lower"),
        ("so it does on the mean of all blocks", "rank_of_all_blocks", OURS),
        ("a smaller alpha_min makes the tunnel begin earlier", "tunnel_start", OURS),
        ("a smaller alpha_min makes the last features worse for other data", "other_data_at_the_end", OURS),
    )
    return [
        Claim(f"{text} {said}", rises(quantity, swept, alphas), paper=paper, scales=(scale,))
        for text, quantity, paper in asked
    ]


def _accuracy(scale: str) -> list[Claim]:
    """What every alpha_min of a scale costs or gains, in its shallowest and its deepest networks."""
    blocks, alphas, margin = SWEEPS[scale]
    return [
        Claim(
            said,
            higher("accuracy", arm(count, alpha), than=arm(count, 1.0), by=by),
            paper=f"{100 * (BEST - PLAIN):+.1f} points at the best",
            scales=(scale,),
        )
        for count in (blocks[0], blocks[-1])
        for alpha in alphas[1:]
        for said, by in (
            (f"alpha_min {alpha:g} costs at most {100 * margin:g} points of accuracy ({count} blocks)", -margin),
            (f"alpha_min {alpha:g} makes a network of {count} blocks more accurate than plain shortcuts", 0.0),
        )
    ]


def _pair(count: int, high: float, low: float) -> Claim:
    return Claim(
        f"the last rank with alpha_min {low:g} is below that with {high:g} ({count} blocks)",
        lower("rank_at_the_end", arm(count, low), than=arm(count, high)),
        paper="below",
    )


def _depth(alpha: float) -> list[Claim]:
    """Both readings of figure 7a, and the accuracy of deeper networks."""
    return [
        Claim(
            f"networks of 16 blocks end at a lower rank than those of 8 (alpha_min {alpha:g})",
            lower("rank_at_the_end", arm(16, alpha), than=arm(8, alpha)),
            paper="falls with depth",
        ),
        Claim(
            f"within a network of 16 blocks the rank falls with depth (alpha_min {alpha:g})",
            at_most("rank_slope", arm(16, alpha), 0),
            paper="falls with depth",
        ),
        Claim(
            f"so it does within its third stage, whose blocks all have as many channels (alpha_min {alpha:g})",
            at_most("rank_slope_in_third_stage", arm(16, alpha), 0),
            paper="falls with depth",
        ),
        Claim(
            f"16 blocks reach 99 % of the accuracy of 8 (alpha_min {alpha:g})",
            share("accuracy", arm(16, alpha), of=arm(8, alpha), at_least=0.99),
            paper="similar",
        ),
    ]


TABLE = tuple(
    Claim(
        f"ResNet-18 with {name} is right on {100 * accuracy:.1f} % (within half a point)",
        level("accuracy", arm(8, alpha), accuracy, within=0.005),
        paper=f"{100 * accuracy:.1f} %",
        scales=("paper",),
        departure=told,
    )
    for name, alpha, accuracy, told in (("plain shortcuts", 1.0, PLAIN, ""), ("the best alpha_min", 0.7, BEST, LOST))
)

TRAINING = Training(
    epochs=200,
    batch=128,
    lr=0.1,
    momentum=0.9,
    nesterov=True,
    weight_decay=5e-4,
    schedule="cosine",
    augment=(PadCrop(4), Flip()),
    evaluate_every=10,
    checkpoint_every=10,
)
SMALL = replace(TRAINING, epochs=12, lr=0.05, augment=(), evaluate_every=2, checkpoint_every=4)
digits = Watched(
    "winze/resnet18x0.125",
    "digits",
    SMALL,
    options={"strides": (1, 1, 2, 2)},
    ood=("fashion_mnist",),
    size=8,
    ood_limit=2000,
)
cifar = Watched("winze/resnet18", "cifar10", TRAINING, ood=("tinyimagenet",), size=32)

SAID = {arm(count, alpha): (f"{count} blocks", f"α_min = {alpha:g}") for count in BLOCKS for alpha in ALPHAS}
BY_BLOCKS = Panel(
    "",
    "blocks of the network",
    {f"α_min = {alpha:g}": {count: arm(count, alpha) for count in BLOCKS} for alpha in ALPHAS},
    ordered=True,
)
BY_ALPHA = Panel(
    "",
    "α_min",
    {f"{count} blocks": {alpha: arm(count, alpha) for alpha in ALPHAS} for count in BLOCKS},
    ordered=True,
)

recipe = Recipe(
    name="decayed/supervised",
    system="S4",
    shows="shortcuts that fade with depth lower the effective rank of a ResNet's features, and cost no accuracy",
    paper="Residual Connections Harm Generative Representation Learning, appendix B.3",
    url="https://arxiv.org/abs/2404.10947",
    arms={
        arm(count, alpha): {"blocks": count, "rule": DecayedIdentity(alpha_min=alpha)}
        for count in BLOCKS
        for alpha in ALPHAS
    },
    scales={
        "smoke": Scale(
            replace(
                digits,
                network="winze/resnet18x0.0625",
                data="digits[0-4]",
                ood=("digits[5-9]",),
                training=replace(SMALL, epochs=2, batch=64, evaluate_every=1),
                limit=128,
                ood_limit=128,
            ),
            seeds=(0,),
            arms=arms_of("smoke"),
            departures=(OTHER_DIGITS, "4 to 32 channels, 2 epochs on 128 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            arms=arms_of("cpu"),
            departures=("digits, 8 to 64 channels, strides 1, 1, 2, 2, and 12 epochs at a rate of .05", FASHION),
        ),
        "gpu": Scale(
            replace(
                cifar,
                training=replace(TRAINING, epochs=12, precision="bf16-mixed", channels_last=True, evaluate_every=3),
            ),
            seeds=(0, 1, 2),
            arms=arms_of("gpu"),
            departures=("12 epochs in bf16", TINY),
        ),
        "paper": Scale(replace(cifar, look_every=5), seeds=(0, 1, 2), departures=(TINY,)),
    },
    work=work,
    quantities={
        "accuracy": Whole("accuracy"),
        "rank_at_the_end": hidden("effective_rank"),
        "rank_of_all_blocks": Over("effective_rank", np.nanmean),
        "rank_slope": Over("effective_rank", slope),
        "rank_slope_in_third_stage": Over("effective_rank", third_stage_slope),
        "rank_over_training": OverLooks(RANK, np.mean),
        "tunnel_start": TunnelLayer(0.95),
        "other_data_at_the_end": hidden("probe", OOD),
        "other_data_lost_at_the_end": drop("probe", OOD),
    },
    claims=(
        *(claim for scale in SWEPT for count in SWEEPS[scale][0] for claim in _sweep(scale, count)),
        *(_pair(count, *pair) for count in (8, 16) for pair in PAIRS),
        *(claim for alpha in (1.0, 0.8, 0.7, 0.6, 0.4) for claim in _depth(alpha)),
        *(claim for scale in SWEPT for claim in _accuracy(scale)),
        *(
            Claim(
                f"the rank at the end falls from 8 to 16 blocks (alpha_min {alpha:g})",
                falls("rank_at_the_end", [arm(count, alpha) for count in BLOCKS], BLOCKS),
                paper="falls with depth",
            )
            for alpha in ALPHAS
        ),
        *TABLE,
    ),
    departures=(
        "data, optimiser and sweep are ours, since the paper states none: CIFAR-10, SGD .1 with Nesterov momentum .9, "
        "decay 5e-4, cosine",
        "projections are scaled as other shortcuts are; the stem is a 3 x 3 convolution",
        "the effective rank is the entropy of the covariance spectrum of features averaged over positions, its natural "
        "logarithm not taken back",
        "figure 7a may mean the depth within one network or networks of several depths: both are shown",
    ),
    measures=("probe", "accuracy", "effective_rank", "numerical_rank", RANK, "epoch_steps", "loss"),
    figures={
        "Effective rank over depth": partial(depth_by_arm, measure="effective_rank", said=SAID),
        "Effective rank by the number of blocks": partial(doses, measure=RANK, panels=[BY_BLOCKS]),
        "Effective rank over training": partial(training_by_arm, measure=RANK, said=SAID),
        "Accuracy by alpha_min": partial(doses, panels=[BY_ALPHA]),
        "Probes over depth": partial(depth_by_arm, measure="probe", said=SAID),
        "Other data over depth": partial(depth_by_arm, measure="probe", other=True, said=SAID),
    },
)
