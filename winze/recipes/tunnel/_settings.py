"""Networks and trainings of the thesis, shorter trainings for one GPU or a CPU, and the departures they share."""

from dataclasses import replace
from typing import Any

import numpy as np

from winze.data import Flip, PadCrop
from winze.lab import Axis, Data, Network, Reading, Scale, Study
from winze.readings import Point
from winze.recipes.tunnel._quantities import LEARNED
from winze.train import SGD, AdamW, Constant, Cosine, Epochs, Milestones, Training

PAPER = "The Tunnel Effect: Building Data Representations in Deep Neural Networks (NeurIPS 2023); thesis, chapter 5"
THESIS: dict[str, Any] = {"system": "S8", "paper": PAPER, "url": "https://arxiv.org/abs/2305.19753"}

# ten classes drawn once with seed 0, since the thesis does not name its ten
TEN_OF_CIFAR100 = f"cifar100[{','.join(map(str, np.random.default_rng(0).permutation(100)[:10]))}]"

often: Any = {"evaluate": Epochs(10), "checkpoint": Epochs(10)}
crops = (PadCrop(4), Flip())
MLP = Training(Epochs(1000), optimizer=SGD(0.05), **often)
sgd, adamw = SGD(0.1, momentum=0.9, weight_decay=1e-4), AdamW(1e-3, weight_decay=0.05, decay_vectors=False)
VGG = Training(Epochs(160), 128, sgd, Milestones(at=(80, 120), per="epoch"), augment=crops, **often)
RESNET = replace(VGG, length=Epochs(164), schedule=Milestones(at=(82, 123), per="epoch"))
VIT = Training(Epochs(200), 128, adamw, Cosine(warmup=Epochs(5)), augment=crops, **often)
CONTINUAL = replace(VGG, length=Epochs(30), schedule=Constant(per="epoch"), evaluate=Epochs(30))
"""each task of a sequence, at a constant learning rate"""
GENTLE_TASKS = replace(CONTINUAL, optimizer=replace(sgd, lr=0.03), schedule=Constant(Epochs(1), per="step"))
"""the same at a learning rate at which every VGG-19 trains"""
SMALL = Training(Epochs(150), optimizer=SGD(0.03, momentum=0.9), evaluate=Epochs(50), checkpoint=Epochs(25))
"""MLPs on digits"""

Settings = dict[str, Any]
Pairs = tuple[tuple[Settings, Settings], ...]
study = Study(Network("winze/vgg19"), Data("cifar10"), VGG)
resnets = Study(Network("winze/resnet18", {"stem": "thesis"}), Data("cifar10"), RESNET, Reading("blocks"))
resnet: Settings = {"network.options.stem": "thesis", "reading.places": "blocks", "training": RESNET}
KINDS: dict[str, Settings] = {"mlp": {"training": MLP}, "vgg": {"training": VGG}, "res": resnet}


def networks(*names: str) -> dict[str, Settings]:
    """The settings of an MLP, a VGG or a ResNet, by name."""
    return {name: {"network.name": f"winze/{name}", **KINDS[name[:3]]} for name in names}


NETWORKS = networks("mlp12", "vgg19", "resnet34")
STEMS: dict[str, Settings] = {
    "7x7/2": {"stem": "thesis", "stem_stride": 2},
    "7x7/1": {"stem": "thesis", "stem_stride": 1},
    "3x3": {"stem": "cifar"},
}
"""first convolutions of a ResNet: their size and stride; a pool follows that of 7 x 7"""
DATA: dict[str, Settings] = {
    "cifar10": {"reading.ood": (TEN_OF_CIFAR100,)},
    "cifar100": {"data.name": "cifar100", "reading.ood": ("cifar10",)},
    "cinic10": {"data.name": "cinic10", "reading.ood": (TEN_OF_CIFAR100, "cifar10")},
}
"""data sets with the OOD data that the thesis probes them on"""

EXTRACTOR = ("layers.conv[1-8].*",)
TUNNEL = ("layers.conv9.*", "layers.conv1[0-6].*", "layers.fc*")
"""parameters of a VGG-19 before and in the tunnel that the thesis finds on CIFAR-10"""

FAST: Settings = {"training.precision": "bf16-mixed", "training.channels_last": True}
"""what makes convolutions fast on a GPU"""
TINY: Settings = {"reading.ood": ("tinyimagenet",)}
GRID: Settings = {"data.size": 32, "reading.pool": 2, "reading.max_features": 2048}
POOLED = 4
"""a fast reading of VGG; ResNets, whose feature maps are smaller, are pooled to a grid of 4 x 4"""
FLAT: Settings = {"data.size": 32, "reading.probe": "adam", "reading.pool": "flatten"}
"""the reading of the thesis"""

ON_GRID = (
    "ridge probes instead of Adam, on at most 2048 features: means over a 2 x 2 grid of each feature map (ResNets: "
    "4 x 4); the rank of early layers is bounded by this number"
)
TWO_RATES = (
    "two learning rates: 0.1 with milestones, as published, and 0.03 with a warm-up of two epochs and a cosine, since "
    "short trainings of VGG-19 at 0.1 often fail; failed runs are listed and not averaged"
)
GENTLE = "learning rate 0.03 with a warm-up of two epochs and a cosine, instead of 0.1 with milestones"
ON_TINY = "OOD data are 10 classes of Tiny-ImageNet (500 test images: an accuracy has a standard error of 2 points)"
FEW_IMAGES = (
    "at scale gpu OOD accuracies are of 500 images: their standard error is 2 points, and the best of all layers minus "
    "the last is biased up by 2 to 3 points"
)
OTHER_DIGITS = "digits 0-4 instead of CIFAR-10, digits 5-9 as OOD data"
NORM = "VGG has batch norm and a 512-512-C classifier, which a learning rate of 0.1 needs; the thesis does not state it"
AUGMENTED = "VGG and ResNet are trained on padded and cropped, flipped images; MLPs without augmentation"
COUNTED = (
    "layers of ResNets are convolutions and linear layers without projections, and numbers with projections stand "
    "beside them: the thesis does not state its counting"
)
OWN_BAR = "each network's tunnel is measured against its own accuracy: the less accurate network has the lower bar"
REFERENCE = "the reference accuracy of a tunnel is the network's own; layer numbers are compared within two"
NORMALISED = "OOD data are normalised with the statistics of the training data"
COMMON = (NORM, AUGMENTED, REFERENCE, COUNTED, NORMALISED)
MEASURES = ("probe", "accuracy", "numerical_rank", "loss")
RATES = Axis("training.optimizer.lr", (0.03, 0.05, 0.1, 0.001))
"""the gentle learning rate, that of MLPs, the thesis's, that of ViTs"""


def scanned(*measures: str, departures: tuple[str, ...] = ()) -> Settings:
    """What recipes say of themselves that train networks and scan them, with more measures and departures."""
    told = {"departures": (*COMMON, *departures), "measures": (*MEASURES, *measures), "learned": LEARNED}
    return THESIS | told


def at_rates(at: Settings, training: Training, epochs: int, thesis: int | None = None, share: float = 1.0) -> Pairs:
    """The trainings of points on an axis `rate`: at 0.03 in so many epochs, at the thesis's 0.1 in `thesis` epochs."""
    return (
        ({**at, "rate": 0.03}, {"training": as_many_steps(gentle(training, epochs), share)}),
        ({**at, "rate": 0.1}, {"training": as_many_steps(quick(training, thesis or epochs), share)}),
    )


def fewer(network: str, training: Training) -> Pairs:
    """The trainings on 30 and 50 % of the classes of data, in as many steps."""
    return tuple(
        ({"network": network, "classes": part}, {"training": as_many_steps(training, part / 100)}) for part in (30, 50)
    )


def rate_of_its_own(point: Point) -> bool:
    """Whether the learning rate of a point is one of its network: 0.05 for MLPs, 0.001 for ViTs, two for the others."""
    alone = {"mlp": 0.05, "vit": 0.001}.get(str(point["network"])[:3])
    return point["rate"] == alone if alone else point["rate"] in (0.03, 0.1)


def shortened(training: Training, epochs: int) -> Training:
    """The same training in fewer epochs: warm-up and milestones at the same shares of it.

    >>> shortened(VGG, 30).schedule.at
    (15, 22)
    """
    total, schedule = training.length.count, training.schedule
    schedule = replace(schedule, warmup=Epochs(schedule.warmup.count * epochs / total))
    if isinstance(schedule, Milestones):
        schedule = replace(schedule, at=tuple(milestone * epochs // total for milestone in schedule.at))
    return replace(training, length=Epochs(epochs), schedule=schedule)


def quick(training: Training, epochs: int) -> Training:
    """The same training in fewer epochs and half precision, for convolutions on a GPU."""
    return replace(shortened(training, epochs), precision="bf16-mixed", channels_last=True)


def gentle(training: Training, epochs: int) -> Training:
    """A quick training at a learning rate that rises to 0.03 in two epochs and then falls along half a cosine."""
    optimizer = replace(training.optimizer, lr=0.03)
    return replace(quick(training, epochs), optimizer=optimizer, schedule=Cosine(warmup=Epochs(2)))


def as_many_steps(training: Training, share: float) -> Training:
    """The same number of steps where the data is only a share of what the training was made for."""
    return shortened(training, round(training.length.count / share))


CONVOLUTIONS = replace(shortened(VGG, 30), augment=())
"""VGG and ResNet on digits"""
DIGITS: Settings = {"data.name": "digits[0-4]", "reading.ood": ("digits[5-9]",)}


def smoke(scale: Scale) -> Scale:
    """A scale as a test runs it: one seed, two epochs on 300 samples."""
    short = {"training.length": Epochs(2), "training.schedule.warmup": Epochs(0), "data.limit": 300}
    departures = (*scale.departures, "2 epochs on 300 samples")
    return replace(scale, seeds=1, at=(*scale.at, ({}, short)), departures=departures)


def scales(cpu: Scale, gpu: Scale, paper: Scale) -> dict[str, Scale]:
    """All scales, with a smoke test of the one for two cores."""
    return {"smoke": smoke(cpu), "cpu": cpu, "gpu": gpu, "paper": paper}


def on_digits(settings: Settings, what: str, seeds: int = 3, **rest: Any) -> Scale:
    """Networks with few channels on digits, 30 epochs, for two cores."""
    own = {**DIGITS, "training": CONVOLUTIONS, "reading.pool": "flatten"}
    return Scale({**own, **settings}, seeds=seeds, departures=(OTHER_DIGITS, f"{what}, 30 epochs"), **rest)


def on_gpu(settings: Settings, *departures: str, **rest: Any) -> Scale:
    """Short trainings at two learning rates, read on a grid and probed on Tiny-ImageNet, for one GPU."""
    departures = (ON_TINY, TWO_RATES, ON_GRID, *departures)
    return Scale({**GRID, "reading.ood": ("tinyimagenet",), **settings}, seeds=3, departures=departures, **rest)


def as_published(settings: Settings | None = None, **rest: Any) -> Scale:
    """The thesis's trainings and reading."""
    return Scale({**FLAT, **DATA["cifar10"], **(settings or {})}, seeds=3, **rest)
