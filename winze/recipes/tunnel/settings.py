"""What the recipes of the tunnel share: the thesis's networks and trainings, and shorter ones for one GPU or a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winze.data import Flip, PadCrop
from winze.train import Training

SYSTEM = "S8"
PAPER = "The Tunnel Effect: Building Data Representations in Deep Neural Networks (NeurIPS 2023); thesis, chapter 5"
URL = "https://arxiv.org/abs/2305.19753"

# ten classes drawn once with seed 0, since the thesis does not say which it drew
TEN_OF_CIFAR100 = f"cifar100[{','.join(map(str, np.random.default_rng(0).permutation(100)[:10]))}]"

MLP = Training(epochs=1000, batch=128, lr=0.05, evaluate_every=10, checkpoint_every=10)
VGG = Training(
    epochs=160,
    batch=128,
    lr=0.1,
    momentum=0.9,
    weight_decay=1e-4,
    schedule="step",
    milestones=(80, 120),
    per="epoch",
    augment=(PadCrop(4), Flip()),
    evaluate_every=10,
    checkpoint_every=10,
)
RESNET = replace(VGG, epochs=164, milestones=(82, 123))
VIT = Training(
    epochs=200,
    batch=128,
    optimizer="adamw",
    lr=1e-3,
    weight_decay=0.05,
    decay_vectors=False,
    schedule="cosine",
    warmup=5,
    augment=(PadCrop(4), Flip()),
    evaluate_every=10,
    checkpoint_every=10,
)
CONTINUAL = replace(VGG, epochs=30, schedule="constant", milestones=(), evaluate_every=30)
"""each of two tasks, without a fall of the rate"""
GENTLE_TASKS = replace(CONTINUAL, lr=0.03, warmup=1, per="step")
"""the same at a rate at which every network learns"""
SMALL = Training(epochs=150, batch=128, lr=0.03, momentum=0.9, evaluate_every=50, checkpoint_every=25)
"""MLPs on digits"""

mlp12 = {"network": "winze/mlp12", "training": MLP}
vgg19 = {"network": "winze/vgg19", "training": VGG}
resnet34 = {"network": "winze/resnet34", "options": {"stem": "thesis"}, "places": "blocks", "training": RESNET}
cifar100 = {"data": "cifar100", "ood": ("cifar10",)}
cinic10 = {"data": "cinic10", "ood": (TEN_OF_CIFAR100,)}

EXTRACTOR = ("layers.conv[1-8].*",)
TUNNEL = ("layers.conv9.*", "layers.conv1[0-6].*", "layers.fc*")
"""the weights of a VGG-19 before and in the tunnel that the thesis finds on CIFAR-10"""

FAST = {"training.precision": "bf16-mixed", "training.channels_last": True}
"""what makes convolutions quick on a GPU"""
GRID: dict[str, Any] = {"size": 32, "pool": 2, "max_features": 2048}
"""how VGG is read on a GPU in little time; ResNets, whose maps are smaller, on `POOLED`"""
POOLED = 4
ON_GRID = (
    "probes are fitted in closed form, on at most 2048 means over 2 x 2 parts of feature maps (of ResNets: 4 x 4), and "
    "early ranks are bounded by their number"
)
FLAT: dict[str, Any] = {"size": 32, "probe": "adam", "pool": "flatten"}
"""how the thesis reads"""

GENTLE = (
    "the rate is .03 and rises during the first epochs: at .1 one VGG-19 of three stayed at chance in its two tasks, "
    "and 16 epochs left six others at 44 to 71 %"
)
TINY = "10 classes of Tiny-ImageNet (500 test images) stand in for 10 of CIFAR-100"
OTHER_DIGITS = "digits 0-4 and 5-9 stand in for CIFAR-10 and CIFAR-100"
NORM = "VGG has batch norm and a 512-512-C classifier, since its rate of .1 needs it; the thesis does not say"
PICTURES = "VGG and ResNet learn on pictures padded by 4 and cropped, and flipped; MLPs on pictures as they are"
COUNTED = (
    "the thesis does not say how it counts layers of ResNets: here convolutions and linear layers without projections; "
    "the number with projections is told beside it"
)
OWN_BAR = "each by its own accuracy: the less accurate has the lower bar"
REFERENCE = "the reference accuracy of a tunnel is the network's own; layer numbers are compared within two"
OWN_NORMALISATION = "other data is normalised as the network's own data is"


def shortened(training: Training, epochs: int) -> Training:
    """The same training in fewer epochs: the rate rises and falls at the same shares of it.

    >>> shortened(VGG, 30).milestones
    (15, 22)
    """
    milestones = tuple(milestone * epochs // training.epochs for milestone in training.milestones)
    return replace(training, epochs=epochs, milestones=milestones, warmup=training.warmup * epochs / training.epochs)


def quick(training: Training, epochs: int) -> Training:
    """The same training in fewer epochs and half precision, for convolutions on a GPU."""
    return replace(shortened(training, epochs), precision="bf16-mixed", channels_last=True)


def gentle(training: Training, epochs: int) -> Training:
    """As quick, at a rate that rises to .03 in two epochs and then falls along half a cosine."""
    return replace(quick(training, epochs), lr=0.03, schedule="cosine", milestones=(), warmup=2, per="step")


def as_many_steps(training: Training, share: float) -> Training:
    """The same number of steps where the data is only a share of what the training was made for."""
    return shortened(training, round(training.epochs / share))


CONVOLUTIONS = replace(shortened(VGG, 30), augment=())
"""VGG and ResNet on digits"""
