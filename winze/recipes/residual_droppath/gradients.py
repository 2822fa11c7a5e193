"""The mechanism of ResidualDroppath: where does stage 2 point, compared with the gradient of the plain network?

    winze run residual_droppath/gradients --scale cpu      # a small ResNet on digits, 4 minutes on one core
    winze run residual_droppath/gradients --scale small    # on 2000 images of CIFAR-10, 8 minutes on one core
    winze run residual_droppath/gradients --scale gpu      # ResNet50d on CIFAR-10

The forward pass of stage 2 is that of the plain network, its gradient is not. For the stem and for every branch, the
cosine to the gradient of the same loss on the same batch with the Standard rule is read at the start of training and
at some later steps. Averaged over all masks (a closed form), it is the bias of a reading; the rest is noise of masks.
All four readings are compared at the same weights, trained with Standard; `trained=itself` has those of each reading.
"""

from typing import Any

import numpy as np

from winze.lab import Axis, Data, Network, Question, Recipe, Scale, at_least, at_most, higher
from winze.lab.claims.quantities import At, DuringTraining, Over, Whole, last
from winze.recipes.residual_droppath._gradients import Mechanism, work
from winze.recipes.residual_droppath._settings import ABOUT, DIGITS, PAPER, RULES, SMOKE, STAND_IN, TIMM, lasting
from winze.report.experiment import over_depth, over_training

READINGS = tuple(RULES)[2:]
WEIGHTS = {"standard": "at weights trained with Standard", "itself": "at weights trained with the same reading"}


def over_branches(measure: str) -> Over:
    """The mean over all branches after training; the stem is place 0."""
    return Over(measure, lambda curve: float(np.nanmean(curve[1:])))


late, early = last("stage2_mean_cosine"), At("stage2_mean_cosine", 1)
stem = At("stage2_mean_cosine", 0)
branches = over_branches("stage2_cosine").named("mean cosine over branches")
during = Whole("stage2_mean_cosine_branches") - Whole("stage2_mean_cosine_branches", step=0)
paired = over_branches("pair_cosine") - over_branches("stage2_cosine")
each: dict[str, Any] = {"each": ("trained", "algorithm")}
output: dict[str, Any] = {**each, "only": [(by, name) for by in WEIGHTS for name in READINGS[:2]]}
drawn: dict[str, Any] = {"colour": "algorithm", "across": "block (0: stem)", "up": "cosine to the true gradient"}
small = {"network.name": "winze/resnet20x0.5", "data": Data("digits"), "samples": 64}

recipe = Recipe(
    "residual_droppath/gradients", **ABOUT, paper=f"{PAPER}, Algorithm 1",
    shows="how far the gradients of stage 2 point from those of the plain network, over depth",
    study=Mechanism(Network("resnet50d"), Data("cifar10", size=32), TIMM),
    axes={
        "algorithm": Axis("measured", {name: RULES[name] for name in READINGS}),
        "trained": Axis("trained", tuple(WEIGHTS)),
    },
    scales={
        "smoke": Scale({**small, **SMOKE, "network.name": "winze/resnet20x0.25", "samples": 16, "draws": 2,
                        "looks": (0.0, 1.0)}, {"trained": ("standard",)}, departures=(STAND_IN,)),
        "cpu": Scale({**small, **DIGITS}, seeds=3, departures=(STAND_IN, "12 epochs in batches of 64")),
        "small": Scale(
            {**small, **DIGITS, **lasting(5, 1, 5, 5), "data": Data("cifar10", limit=2000), "draws": 2},
            {"trained": ("standard",)}, 3,
            departures=("2000 images and a small ResNet, 5 epochs in batches of 64, without augmentation",)),
        "gpu": Scale(lasting(60, 5, 5, 15), seeds=3, departures=("60 epochs instead of 300",)),
        "paper": Scale(seeds=5),
    },
    work=work,
    quantities={"accuracy": DuringTraining("accuracy")},
    questions=(
        Question("Is the stage-2 gradient of a branch closer to the true one with frozen weights than with frozen "
                 "outputs, by a cosine of 0.1?",
                 higher(branches, {"algorithm": "weights_sample"}, than={"algorithm": "output_sample"}, by=0.1),
                 each="trained"),
        Question("Is the stage-2 gradient of a branch, where it learns at all, closer to the true one with per-batch "
                 "masks than with per-sample masks?",
                 higher(branches, {"algorithm": "output_batch"}, than={"algorithm": "output_sample"}), each="trained"),
        Question("Does the mean stage-2 gradient of the stem with frozen outputs keep a cosine of 0.9?",
                 at_least(stem.named("cosine of the stem"), 0.9), **output),
        Question("Does the cosine of the mean stage-2 gradient with frozen outputs fall towards the first block?",
                 at_least((late - early).named("last minus first block"), 0.0), **output),
        Question("Does the mean stage-2 gradient with frozen outputs turn away from the true one during training?",
                 at_most(during.named("change of the cosine"), 0.0), **output),
        Question("Do both stages together point closer to the true gradient than stage 2 alone?",
                 at_least(paired.named("both stages minus stage 2"), 0.0), **each),
    ),
    figures=(
        *(over_depth("stage2_cosine", **drawn, at={"trained": by}, title=f"Stage 2 against the true gradient, {said}")
          for by, said in WEIGHTS.items()),
        over_depth("stage2_mean_cosine", **drawn, at={"trained": "standard", "algorithm": READINGS[::2]},
                   title="Stage 2 averaged over masks, which is the same per sample and per batch"),
        over_depth("pair_cosine", **drawn, at={"trained": "standard"},
                   title="Both stages together against the true gradient"),
        over_training("stage2_cosine_branches", colour="algorithm", at={"trained": "standard"},
                      up="cosine, mean of branches", title="Stage 2 against the true gradient, over training"),
    ),
    departures=(
        "the paper compares no gradients: every question is ours",
        "both stages are measured on the same batch of training images, without augmentation and in float32; "
        "BatchNorm normalises by the batch, and the trained network and its statistics are not touched",
        "a branch's cosine is over masks with which it learns: with a per-batch mask it is frozen in most stages 2",
        "the mean over masks is a closed form in stage 2; of both stages together it is that of the masks drawn",
    ),
    measures=("*_cosine", "*_cosine_branches", "accuracy", "top5", "epoch_steps"),
)  # fmt: skip
