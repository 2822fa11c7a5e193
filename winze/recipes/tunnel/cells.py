"""The cells of the tables of width and of classes (5.3.1 and 5.3.2), each as an arm with its published start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from winze.recipes.tunnel.settings import MLP, RESNET, TEN_OF_CIFAR100, VGG, as_many_steps

DEPTHS = (6, 8, 10, 12)
WIDTHS = {"narrow": "x0.25", "": "", "wide": "x2"}
WIDTH_TABLE = {  # 5.3.1: the start of the tunnel at 95 % for widths of 1/4, 1 and 2
    "vgg16": (8, 7, 7),
    "vgg19": (8, 7, 7),
    "resnet18": (15, 13, 13),
    "resnet34": (24, 20, 24),
}
SHARES = (30, 50, 100)
CLASS_TABLE = {  # 5.3.2: the same for 30, 50 and 100 % of the classes
    ("vgg19", "cifar10"): (6, 7, 7),
    ("vgg19", "cifar100"): (8, 8, 9),
    ("vgg19", "cinic10"): (6, 7, 7),
    ("resnet34", "cifar10"): (19, 19, 21),
    ("resnet34", "cifar100"): (30, 30, 31),
    ("resnet34", "cinic10"): (9, 9, 17),
}
OTHERS = {  # captions of CINIC-10 name both sets
    "cifar10": (TEN_OF_CIFAR100,),
    "cifar100": ("cifar10",),
    "cinic10": ("cifar10", TEN_OF_CIFAR100),
}


def named(network: str, *words: str) -> str:
    """An arm's name; what is usual is left out: `vgg19_wide`, `vgg19_30`, `resnet34_cifar100_50`."""
    return "_".join([network, *(word for word in words if word not in ("", "cifar10", "100"))])


def built(network: str, width: str = "") -> dict[str, Any]:
    """The fields of a network's arm."""
    if network.startswith("vgg"):
        return {"network": f"winze/{network}{width}", "training": VGG}
    options = {"stem": "thesis"}
    return {"network": f"winze/{network}{width}", "options": options, "places": "blocks", "training": RESNET}


def classes(data: str, percent: int) -> str:
    """The first so many percent of a set's classes."""
    count = (100 if data == "cifar100" else 10) * percent // 100
    return data if percent == 100 else f"{data}[0-{count - 1}]"


def of_classes(network: str, data: str, percent: int) -> dict[str, Any]:
    """The fields of an arm that learns some of the classes, in as many steps as all of them take."""
    arm = built(network)
    return arm | {
        "data": classes(data, percent),
        "training": as_many_steps(arm["training"], percent / 100),
        "ood": OTHERS[data],
    }


STARTS = {
    **{f"mlp{depth}": 4 for depth in DEPTHS},
    **{
        named(network, data, str(percent)): layer
        for (network, data), layers in CLASS_TABLE.items()
        for percent, layer in zip(SHARES, layers, strict=True)
    },
    **{
        named(network, word): layer
        for network, layers in WIDTH_TABLE.items()
        for word, layer in zip(WIDTHS, layers, strict=True)
    },
}
ARMS: dict[str, Mapping[str, Any]] = {
    **{f"mlp{depth}": {"network": f"winze/mlp{depth}", "training": MLP} for depth in DEPTHS},
    **{named(network, word): built(network, width) for network in WIDTH_TABLE for word, width in WIDTHS.items()},
    **{
        named(network, data, str(percent)): of_classes(network, data, percent)
        for network, data in CLASS_TABLE
        for percent in SHARES
        if (data, percent) != ("cifar10", 100)  # the network of width 1
    },
}
