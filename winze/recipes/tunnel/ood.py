"""OOD accuracy over depth: probes on data that the network was not trained on (figures 5.3.3, 5.3.4, 5.10.1, 5.10.2).

    winze run tunnel/ood --scale cpu    # MLP-8 on some digits, probed on others, 17 run-minutes
    winze run tunnel/ood --scale gpu    # CIFAR-10 and Tiny-ImageNet, two learning rates, 3 seeds, 2 run-hours

Networks trained on CIFAR-10 are probed at every layer on ten other classes, on 5 to 50 classes of one set, and on many
sets. VGG-19s trained on a percentage of the `classes` of another set are probed on CIFAR-10, in as many steps as one of
all classes takes. At scale gpu Tiny-ImageNet stands in for CIFAR-100; some of its classes are close to CIFAR-10's.
"""

import math
from functools import partial

import numpy as np

from winze.lab import Axis, Claim, Question, Reading, Recipe, Scale, at_least, falls, level, rises
from winze.readings import Point
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import OOD_LOST, OOD_PEAK_AFTER_START, LeastLost
from winze.report.experiment import over_depth
from winze.train import Epochs

ORDER = np.random.default_rng(0).permutation(100).tolist()
HERE = ("mnist", "fashion_mnist", "usps", "dtd", "caltech101", "pets")
ELSEWHERE = ("stl10", "svhn", "food101", "flowers102", "places365", use.TEN_OF_CIFAR100)
CONVERGED = "training losses differ: 0.0006, 0.03, 1.8 with 10, 30, 100 classes at 0.03; 1.2, 2.9, 4.1 at 0.1"


def some(name: str, count: int) -> str:
    """The first `count` classes of a set of a hundred, in an order that was drawn once."""
    return name if count == len(ORDER) else f"{name}[{','.join(map(str, ORDER[:count]))}]"


def runs(point: Point) -> bool:
    """All networks on all of CIFAR-10; VGG-19 on a part of another source; each at a learning rate of its own."""
    whole = point["source"] == "cifar10" and point["classes"] == 100
    other = point["source"] != "cifar10" and point["network"] == "vgg19"
    return (whole or other) and use.rate_of_its_own(point)


TINY, CIFAR = ({f"{n} classes": some(name, n) for n in (5, 10, 20, 50)} for name in ("tinyimagenet100", "cifar100"))
FEWER = tuple(
    ({"source": source, "classes": part}, {"data.name": some(source, part), "reading.ood": ("cifar10",)})
    for source in ("tinyimagenet100", "cifar100")
    for part in (10, 30, 50, 100)
)
cpu = Scale(
    {"training": use.SMALL, "reading": Reading(ood=("digits[5-9]", "digits[5-6]", "digits[5-7]"))},
    axes={"network": ("mlp8",), "source": ("digits",), "classes": (40, 60, 100), "rate": (0.03,)},
    seeds=5,
    at=tuple(
        ({"classes": 20 * n}, {"data.name": f"digits[0-{n - 1}]", "training": use.as_many_steps(use.SMALL, n / 5)})
        for n in (2, 3, 5)
    ),
    departures=(use.OTHER_DIGITS, "MLP-8 of 256 units, momentum 0.9, learning rate 0.03, 150 epochs"),
)
large, by_classes, by_network = {"network": tuple(use.NETWORKS)}, ("source", "rate"), ("network", "rate")
of_best = partial(over_depth, panel=by_network, up="probe, share of its best layer", shown=lambda one: one / one.max())

recipe = Recipe(
    "tunnel/ood",
    **use.scanned(departures=("the thesis does not state its OOD classes nor the sizes of subsets",)),
    shows="OOD accuracy peaks where the tunnel starts and falls behind it",
    study=use.study,
    axes={
        "network": Axis("", {"mlp8": {"network.name": "winze/mlp8x256"}, **use.NETWORKS}, default="vgg19"),
        "source": Axis("", {"cifar10": {}, "tinyimagenet100": {}, "cifar100": {}, "digits": {}}),
        "classes": Axis("", {part: {} for part in (10, 30, 40, 50, 60, 100)}, default=100),
        "rate": use.RATES,
    },
    scales=use.scales(
        cpu,
        use.on_gpu(
            {"reading.ood": ("tinyimagenet", *TINY.values(), *HERE, *ELSEWHERE), "reading.ood_limit": 5000},
            "10, 30 and 100 classes of Tiny-ImageNet, 300 images each, instead of subsets of CIFAR-100",
            "at most 5000 OOD samples; 16 to 20 epochs (MLP-12: 60) instead of 160 to 1000; VGG and ResNet in bf16",
            axes=large | {"source": ("cifar10", "tinyimagenet100"), "classes": (10, 30, 100)},
            only=runs,
            at=(
                ({"rate": 0.05}, {"training.length": Epochs(60), "reading.pool": "flatten"}),
                *use.at_rates({"network": "vgg19"}, use.VGG, 16, 20),
                *use.at_rates({"network": "resnet34"}, use.RESNET, 16, 20),
                ({"network": "resnet34"}, {"reading.pool": use.POOLED}),
                *FEWER,
                *(
                    pair
                    for part in (10, 30, 100)
                    for where in [{"source": "tinyimagenet100", "classes": part}]
                    for pair in use.at_rates(where, use.VGG, 20, 16, part / 100)
                ),
            ),
        ),
        use.as_published(
            {"reading.ood": (use.TEN_OF_CIFAR100, *CIFAR.values(), *HERE, *ELSEWHERE[:-1])},
            axes=large | {"source": ("cifar10", "cifar100"), "classes": (30, 50, 100), "rate": (0.05, 0.1)},
            only=runs,
            at=(*FEWER, *use.fewer("vgg19", use.VGG)),
        ),
    ),
    claims=(
        Claim(
            "networks trained on fewer classes lose more OOD accuracy in the tunnel",
            "fig. 5.3.4",
            falls(OOD_LOST, over="classes", scale=math.log10),
            each=by_classes,
            paper="larger drop",
            departure=CONVERGED,
        ),
        Claim(
            "the accuracy on every OOD set falls in the tunnel (by 2 % of its best or more)",
            "fig. 5.10.1",
            at_least(LeastLost().named("least share lost of all OOD sets"), 0.02),
            each=by_network,
            paper="all fall",
        ),
    ),
    questions=(
        Question(
            "do networks trained on fewer classes start their tunnel earlier?",
            rises("tunnel_start", over="classes", scale=math.log10),
            each=by_classes,
            departure=CONVERGED,
        ),
        Question(
            "does OOD accuracy peak at the entry of the tunnel after short trainings (within two layers)?",
            level(OOD_PEAK_AFTER_START, 0, within=2),
            each=by_network,
        ),
    ),
    figures=(
        over_depth({"own data": "probe", "OOD": ("probe", "tinyimagenet")}, panel=by_network, at={"source": "cifar10"}),
        over_depth("probe", colour="classes", panel=by_classes, ood=True, at={"source": ("tinyimagenet100", "digits")}),
        of_best({one.replace("_", " "): ("probe", one) for one in ("tinyimagenet", *HERE)}, title="Many OOD sets"),
        of_best({said: ("probe", name) for said, name in TINY.items()}, title="Numbers of OOD classes"),
    ),
)
