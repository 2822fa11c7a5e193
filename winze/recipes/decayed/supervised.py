"""Decayed shortcuts in supervised ResNets (Zhang et al., 2024, arXiv 2404.10947, appendix B.3: figure 7 and its table).

    winze run decayed/supervised --scale cpu                       # digits, 6 points x 3 seeds, 10 minutes on one core
    winze run decayed/supervised --scale gpu --jobs 6 --compile    # CIFAR-10, 8 points x 3 seeds, 20 minutes on an H200

The smaller the weight alpha_min of the last shortcut, the lower the effective rank of the last features, at no cost in
accuracy. The tunnel and OOD accuracy are read beside it, which the paper does not do.
"""

from typing import Any

import numpy as np

from winze.data import Flip, PadCrop
from winze.lab import Axis, Claim, Data, Network, Question, Reading, Recipe, Scale, Study, Watching
from winze.lab.claims.claim import at_most, falls, higher, level, not_below, rises, share
from winze.lab.claims.quantities import OOD, DuringTraining, Over, hidden
from winze.readings import Array
from winze.report.experiment import over_depth, over_setting, over_training
from winze.shape import DecayedIdentity
from winze.train import SGD, Cosine, Epochs, Training

RANK = "last_effective_rank"  # while the network trains


def slope(curve: Array) -> float:
    """The rise of a curve over depth from its first to its last block, on its least-squares line."""
    return float(np.polyfit(np.linspace(0, 1, len(curve)), curve, 1)[0])


sgd = SGD(0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
often: dict[str, Any] = {"augment": (PadCrop(4), Flip()), "evaluate": Epochs(10), "checkpoint": Epochs(10)}
study = Study(
    Network("winze/resnet18", rule=DecayedIdentity()),
    Data("cifar10", size=32),
    Training(Epochs(200), batch=128, optimizer=sgd, schedule=Cosine(), **often),
    Reading("blocks", ood=("tinyimagenet",)),
    Watching(("rank",), Epochs(5), "last", names={"effective_rank": RANK}),
)
digits = {
    "network.name": "winze/resnet18x0.125",
    "network.options.strides": (1, 1, 2, 2),
    "data": Data("digits", size=8),
    "reading.ood": ("fashion_mnist",),
    "reading.ood_limit": 2000,
    "training.length": Epochs(12),
    "training.optimizer.lr": 0.05,
    "training.augment": (),
    "training.evaluate": Epochs(2),
    "training.checkpoint": Epochs(4),
    "watching.every": Epochs(1),
}
smoke = digits | {
    "network.name": "winze/resnet18x0.0625",
    "data": Data("digits[0-4]", size=8, limit=128),
    "reading.ood": ("digits[5-9]",),
    "reading.ood_limit": 128,
    "training.length": Epochs(2),
    "training.batch": 64,
    "training.evaluate": Epochs(1),
}
gpu = {
    "training.length": Epochs(12),
    "training.precision": "bf16-mixed",
    "training.channels_last": True,
    "training.evaluate": Epochs(3),
    "watching.every": Epochs(1),
}
rank, ood = hidden("effective_rank"), hidden("probe", OOD)
per_depth: dict[str, Any] = {"colour": "alpha", "panel": "blocks"}
over_blocks = Over("effective_rank", slope).named("slope of the effective rank over depth")

recipe = Recipe(
    "decayed/supervised",
    system="S4",
    paper="Residual Connections Harm Generative Representation Learning, appendix B.3",
    url="https://arxiv.org/abs/2404.10947",
    shows="decayed shortcuts lower the effective rank of a ResNet's features at no cost in accuracy",
    study=study,
    axes={
        "blocks": Axis("network.options.blocks", (8, 10, 12, 14, 16)),
        "alpha": Axis("network.rule.alpha_min", (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)),
    },
    scales={
        "smoke": Scale(smoke, {"blocks": (8, 16), "alpha": (1.0, 0.4)}, departures=("digits 0-4, OOD 5-9, 2 epochs",)),
        "cpu": Scale(
            digits, {"blocks": (8, 16), "alpha": (1.0, 0.7, 0.4)}, 3,
            departures=("digits, 8 to 64 channels, 12 epochs at a learning rate of 0.05; OOD data is Fashion-MNIST",),
        ),
        "gpu": Scale(gpu, {"blocks": (8, 16), "alpha": (1.0, 0.8, 0.6, 0.4)}, 3, departures=("12 epochs in bf16",)),
        "paper": Scale(seeds=3),
    },
    claims=(
        Claim("a smaller alpha_min lowers the effective rank of the final features", "fig. 7b",
              rises(rank, over="alpha"), each="blocks", headline=True),
        Claim("a smaller alpha_min lowers the effective rank of the final features averaged over training", "fig. 7b",
              rises(DuringTraining(RANK, np.mean).named("mean over training"), over="alpha"), each="blocks"),
        Claim("deeper networks end at a lower effective rank", "fig. 7a", falls(rank, over="blocks"), each="alpha"),
        Claim("within a network of 16 blocks the effective rank falls with depth", "fig. 7a", at_most(over_blocks, 0),
              at={"blocks": 16}, each="alpha"),
        Claim("decayed shortcuts do not reduce accuracy (margin 0.3 points)", "table, 94.4 against 93.6",
              not_below("accuracy", than={"alpha": 1.0}, margin=0.003), each=("blocks", "alpha"), paper="+0.8 points",
              scales=("gpu", "paper"), headline=True),
        Claim("16 blocks reach 99 % of the accuracy of 8 blocks", "fig. 7",
              share("accuracy", {"blocks": 16}, of={"blocks": 8}, at_least=0.99), each="alpha", paper="similar"),
        Claim("ResNet-18 reaches 93.6 % with plain and 94.4 % with decayed shortcuts (within 0.5 points)", "table",
              level("accuracy", {1.0: 0.936, 0.7: 0.944}, within=0.005), each="alpha", scales=("paper",),
              paper={1.0: "93.6 %", 0.7: "94.4 %"},
              departure="our copy of the paper has lost the alpha_min of its table; 0.7, its best elsewhere, is taken"),
    ),
    questions=(
        Question("Does a smaller alpha_min shorten the extractor?", rises("tunnel_start", over="alpha"), each="blocks"),
        Question("Does a smaller alpha_min lower OOD accuracy at the end?", rises(ood, over="alpha"), each="blocks"),
        Question("Do decayed shortcuts raise accuracy?", higher("accuracy", than={"alpha": 1.0}),
                 each=("blocks", "alpha"), scales=("gpu", "paper"), post_hoc="asked after the gpu readings were seen"),
    ),
    figures=(
        over_depth("effective_rank", **per_depth),
        over_training(RANK, **per_depth, title="Effective rank of the last block over training"),
        over_setting(RANK, x="blocks", line="alpha", title="Effective rank of the last block by the number of blocks"),
        over_setting("accuracy", x="alpha", line="blocks"),
        over_depth("probe", **per_depth),
        over_depth("probe", **per_depth, ood=True),
    ),
    departures=(
        "data, optimizer and sweep are ours, since the paper states none: CIFAR-10, SGD at 0.1 with Nesterov momentum "
        "0.9, weight decay 5e-4, cosine",
        "projections are scaled as other shortcuts are; the stem is a 3 x 3 convolution",
        "the effective rank is the entropy of the covariance spectrum of position-averaged features, not exponentiated",
        "OOD data are 10 classes of Tiny-ImageNet (500 test images)",
    ),
    measures=("probe", "accuracy", "effective_rank", "numerical_rank", RANK, "epoch_steps", "loss"),
)  # fmt: skip
