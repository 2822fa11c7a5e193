"""What the recipes of networks at a temperature share: networks, trainings, data, and the arms of every temperature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from winze.data import Flip, PadCrop
from winze.recipes.temperature.heated import Heated
from winze.train import Training

TEMPERATURES = (1.0, 10.0, 100.0, 1000.0)
POWERS = (0.0, 1.0, 2.0, 3.0)  # of ten
SMALL = ("mlp8", "resnet18", "resnet20")
CLIP = 5.0  # of the gradient's norm at T = 1; gradients shrink as 1/T
OURS = "not in the thesis"
DIGITS = "digits 0-4 and 5-9 stand in for CIFAR-10 and SVHN"
STAND_IN = (
    "MNIST, padded to 32 x 32 and in RGB, stands in for SVHN, and 10 classes of Tiny-ImageNet for 10 of CIFAR-100"
)

MLP = Training(epochs=1000, batch=128, lr=0.05, evaluate_every=100, checkpoint_every=10)
CONVOLUTIONAL = {
    "training.lr": 0.1,
    "training.momentum": 0.9,
    "training.weight_decay": 1e-4,
    "training.schedule": "step",
    "training.per": "epoch",
    "training.augment": (PadCrop(4), Flip()),
}
IMAGENET = {
    "data": "imagenet",
    "ood": ("cifar100",),
    "size": 224,
    "fit": "resize",
    "stream": 8,
    "limit": 50_000,
    "training.epochs": 90,
    "training.batch": 256,
    "training.milestones": (30, 60, 80),
    "training.augment": (),
    "look_at": (0, 5_004, 15_012),
    "every_look": 5_004,
}
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp8": {"network": "winze/mlp8"},
    "resnet18": {"network": "winze/resnet18"} | CONVOLUTIONAL,
    "resnet20": {"network": "winze/resnet20"} | CONVOLUTIONAL,
    "resnet34": {"network": "winze/resnet34", "options": {"stem": "thesis"}} | CONVOLUTIONAL | IMAGENET,
    "resnet50": {"network": "resnet50"} | CONVOLUTIONAL | IMAGENET,
}
SHORT = {
    "training.epochs": 25,
    "training.milestones": (13, 20),
    "training.precision": "bf16-mixed",
    "training.channels_last": True,
    "trial": 1,
    "pool": 2,
}
LONG = {"training.epochs": 164, "training.milestones": (82, 123)}


def heat(temperature: float) -> dict[str, Any]:
    """What a temperature changes: the loss, where gradients are clipped, and the rates that are tried."""
    return {
        "training.temperature": temperature,
        "training.clip": CLIP / temperature,
        "factors": tuple(sorted({1.0, temperature**0.5, temperature})),
    }


def arms_of(network: str) -> tuple[str, ...]:
    """A network's arms in the order of temperature."""
    return tuple(f"{network}_t{temperature:g}" for temperature in TEMPERATURES)


def arms() -> dict[str, dict[str, Any]]:
    """Every network at every temperature, and at that of its own logits."""
    found = {}
    for name, network in NETWORKS.items():
        for arm, temperature in zip(arms_of(name), TEMPERATURES, strict=True):
            found[arm] = network | heat(temperature)
        found[f"{name}_norm"] = network | {"training.temperature": "norm", "training.clip": CLIP}
    return found


digits = Heated(
    "winze/mlp8x128",
    "digits[0-4]",
    replace(MLP, epochs=150, evaluate_every=50, checkpoint_every=25),
    ood=("digits[5-9]",),
    trial=10,
    look_at=(0, 20, 60),
    every_look=40,
)
smallest = replace(
    digits,
    network="winze/mlp8x16",
    training=replace(digits.training, epochs=2),
    limit=200,
    look_samples=64,
    look_at=(0, 2),
    every_look=2,
)
cifar = Heated(
    "winze/mlp8",
    "cifar10",
    replace(MLP, epochs=30, evaluate_every=10),
    ood=("mnist", "tinyimagenet"),
    size=32,
    fit="pad",
    probe="adam",
    ood_limit=20_000,
    look_at=(0, 391, 1173),
    every_look=782,
)
