"""Depth, width and number of classes: what makes the tunnel longer (tables 5.3.1 and 5.3.2, figures 5.3.5 and 5.9.x).

    winze run tunnel/capacity --scale cpu    # MLP-6 and 12, VGG-19 of three widths, on digits, 11 run-minutes
    winze run tunnel/capacity --scale gpu    # MLP-6 to 12, VGG-19 of three widths and 3 to 10 classes, on CIFAR-10

`width` multiplies the number of channels (of MLPs on digits it is the number of units). `classes` is the percentage of
the data's classes; networks trained on fewer of them take as many steps.
"""

from collections.abc import Callable, Collection
from typing import Any

from winze.lab import Axis, Claim, Question, Recipe, Scale, alike, lower, rises, several, tunnel_at
from winze.readings import Point
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import OOD_LOST
from winze.recipes.tunnel._tables import BY_WIDTH, MLPS, STARTS, WIDTHS
from winze.report.experiment import profiles, tunnel_starts
from winze.train import Epochs

AXES = ("network", "width", "data", "classes", "rate")
AT_RATES = {(*cell, rate): layer for cell, layer in STARTS.items() for rate in (0.03, 0.05, 0.1)}
ON_CIFAR10 = {(one, width, part): at for (one, width, data, part), at in STARTS.items() if data == "cifar10"}
ON_DIGITS = {
    *((network, 256, "digits", 100) for network in ("mlp6", "mlp12")),
    *(("vgg19", width, "digits", 100) for width in (0.0625, 0.125, 0.25)),
    ("vgg19", 0.125, "digits", 30),
}
EARLIER = {
    "width": lower("tunnel_start", {"width": 2}, than={"width": 0.25}),
    "classes": rises("tunnel_start", over="classes"),
}
SOME_CLASSES = tuple(
    ({"data": data, "classes": part}, {"data.name": f"{data}[0-{count * part // 100 - 1}]"})
    for data, count in {"digits": 10, "cifar10": 10, "cifar100": 100, "cinic10": 10}.items()
    for part in (30, 50)
)


def among(cells: Collection[Any]) -> Callable[[Point], bool]:
    """Whether a point is one of these cells, at a learning rate of its network."""
    return lambda point: tuple(point[axis] for axis in AXES[:-1]) in cells and use.rate_of_its_own(point)


cpu = Scale(
    {"reading.pool": "flatten"},
    axes={"data": ("digits",), "rate": (0.05, 0.1)},
    only=among(ON_DIGITS),
    seeds=3,
    at=(
        ({"width": 256}, {"training.length": Epochs(60), "training.evaluate": Epochs(60)}),
        ({"rate": 0.1}, {"training": use.CONVOLUTIONS}),
        ({"classes": 30}, {"training": use.as_many_steps(use.CONVOLUTIONS, 0.3)}),
        *SOME_CLASSES,
    ),
    departures=("digits instead of CIFAR-10", "MLPs of 256 units, 60 epochs; VGG-19, 30 epochs"),
)
recipe = Recipe(
    "tunnel/capacity",
    **use.scanned("correct/*"),
    shows="wider networks and networks trained on fewer classes have longer tunnels",
    study=use.study,
    axes={
        "network": Axis("", use.networks(*MLPS, *BY_WIDTH)),
        "width": Axis("", {1: {}} | {one: {"network.options.width": one} for one in (0.0625, 0.125, 0.25, 2, 256)}),
        "data": Axis("", use.DATA | {"digits": {"data.name": "digits"}}),
        "classes": Axis("", {30: {}, 50: {}, 100: {}}, default=100),
        "rate": use.RATES,
    },
    scales=use.scales(
        cpu,
        use.on_gpu(
            {},
            "16 epochs of all classes (MLPs: 40) instead of 160 (1000); VGG in bf16",
            axes={"network": (*MLPS, "vgg19"), "data": ("cifar10",)},
            only=among(STARTS),
            at=(
                ({}, use.TINY),
                ({"rate": 0.05}, {"training.length": Epochs(40), "reading.pool": "flatten"}),
                *(pair for p in (30, 50, 100) for pair in use.at_rates({"classes": p}, use.VGG, 16, share=p / 100)),
                *SOME_CLASSES,
            ),
        ),
        use.as_published(
            axes={"width": WIDTHS, "data": tuple(use.DATA), "rate": (0.05, 0.1)},
            only=among(STARTS),
            at=(*use.fewer("vgg19", use.VGG), *use.fewer("resnet34", use.RESNET), *SOME_CLASSES),
        ),
    ),
    claims=(
        Claim(
            "the tunnel starts at the layers of tables 5.3.1 (by width) and 5.3.2 (by number of classes), and at layer "
            "4 of MLP-6 to MLP-12 (by 95 % of the accuracy, within two layers)",
            "tables 5.3.1 and 5.3.2, fig. 5.3.5",
            tunnel_at(0.95, AT_RATES),
            each=AXES,
            paper=AT_RATES,
            departure="the classes are the data's first ones; at a learning rate of 0.1 VGG-19 reaches 29 to 94 % only",
        ),
        Claim(
            "the tunnel starts earlier in wider networks (2 against 1/4) and in networks trained on fewer classes",
            "tables 5.3.1 and 5.3.2",
            several("by", EARLIER),
            each=("network", "rate"),
            scales=("gpu", "paper"),
            paper="earlier",
        ),
    ),
    questions=(
        Question(
            "is the extractor of MLP-12 as long as that of MLP-6 (within two layers)?",
            alike("tunnel_start", {"network": "mlp12"}, to={"network": "mlp6"}, within=2),
        ),
        Question(
            "does MLP-6 lose less OOD accuracy in its tunnel than MLP-12?",
            lower(OOD_LOST, {"network": "mlp6"}, than={"network": "mlp12"}),
            scales=("gpu", "paper"),
            departure=use.FEW_IMAGES,
        ),
    ),
    figures=(tunnel_starts(("network", "width", "classes"), paper=ON_CIFAR10, whose="thesis"), profiles(AXES)),
)
