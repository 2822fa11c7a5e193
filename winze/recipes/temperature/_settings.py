"""Study, networks, temperatures and scales that the recipes of trained networks share, and the tables of the thesis."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winze.lab import Data, Network, Reading, Scale
from winze.lab.claims.quantities import LAST_OOD, OOD, Over, PeakLayer, RunNumber, Whole, best, drop, hidden, last
from winze.readings import Array, Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers
from winze.recipes.temperature._work import Heated, work
from winze.recipes.tunnel._settings import MLP, RESNET, TEN_OF_CIFAR100
from winze.train import Epochs, Milestones

PAPER = "Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, chapter 6"
ABOUT: Any = {"system": "S9", "paper": PAPER, "url": "https://arxiv.org/abs/2506.01562"}
CLIP = 5.0  # of the gradient's norm at T = 1; gradients shrink as 1 / T
ON_DIGITS = "digits 0-4 stand in for CIFAR-10, digits 5-9 for SVHN"
STAND_IN = "MNIST, padded to 32 x 32 and in RGB, stands in for SVHN, ten classes of Tiny-ImageNet for ten of CIFAR-100"
SHORT_RESNET = (
    "ResNets are trained for 25 epochs in bf16, at a tenth of the learning rate from epochs 13 and 20 on, learning "
    "rates tried for 1 epoch (MLP-8: 2), feature maps averaged over a grid of 2 x 2 instead of flattened"
)
DEPARTURES = (
    "the learning rate is the best of lr x {1, √T, T} after a short trial on the training loss; gradients are clipped "
    "at a norm of 5 / T, and weight decay is divided by the factor on the learning rate (at T = 1000 ResNets learn "
    "nothing otherwise); the norm of the logits as temperature has the learning rate of T = 1",
    "κ counts layers up to the number in a network's name, of MLP-8 without its output, and is known to half a layer; "
    "ρ is that of the last hidden layer, since the thesis does not say whether its last layer is the output",
    "alignment is the mean over the 15 leading singular vectors at the last of the early steps; a convolution reads "
    "channels, and positions are samples",
    "the optimizer is that of the tunnel experiments, since the thesis does not give one; ImageNet: SGD, 90 epochs",
)
ETA = {"imagenet": 0.95}  # of the best probe; elsewhere 0.99
SLACK = 1e-9


@dataclass(frozen=True)
class Kappa(RunNumber):
    """The share of depth after which probes are as good as they get; lower is more compressed.

    κ = ℓ* / L,   ℓ* the first layer with accuracy ≥ η max,   L the number in the network's name
    """

    measure: str = "probe"

    def __call__(self, readings: Readings) -> float:
        if not facts.has(readings, self.measure):
            return best(self.measure)(readings)  # which says why there is none
        total = self.layers(readings)
        numbers = np.array(list(layer_numbers(readings).values()))
        curve = np.where(numbers <= total, facts.column(readings, self.measure), -np.inf)
        eta = ETA.get(facts.home(readings), 0.99)
        return float(numbers[int(np.argmax(curve >= eta * np.nanmax(curve) - SLACK))]) / total

    def spread(self, readings: Readings) -> tuple[float, float]:
        """Half a layer to either side: layers are whole numbers, and equal ones of three seeds are no interval."""
        value, half = self(readings), 0.5 / self.layers(readings)
        return value - half, value + half

    def layers(self, readings: Readings) -> int:
        """The number in the network's name: 8 of `winze/mlp8x128`, 18 of `winze/resnet18`."""
        name = str(readings.conventions.get("network", ""))
        number = re.search(r"\d+", name.split("/")[-1])
        if number is None:
            raise ReadingsError(f"the name of the network, {name!r}, has no number of layers")
        return int(number[0])


def added_late(norms: Array) -> float:
    """The share of the last hidden layer's norm that the later half of the hidden layers adds."""
    return float(1 - norms[:-1][(len(norms) - 2) // 2] / norms[-2])


def late_over_early(norms: Array) -> float:
    """The mean of the later half of the hidden layers over that of the earlier half."""
    early, late = np.array_split(norms[:-1], 2)
    return float(late.mean() / early.mean())


QUANTITIES: dict[str, RunNumber] = {  # ρ = (max_ℓ acc(ℓ) - acc(L)) / max_ℓ acc(ℓ) on OOD data
    "kappa": Kappa(),
    "rho": drop("probe", OOD) / best("probe", OOD),
    "rho_at_the_output": (best("probe", OOD) - last("probe", OOD)) / best("probe", OOD),
    "rho_of_the_second": drop("probe", LAST_OOD) / best("probe", LAST_OOD),
    "rho_of_the_second_at_the_output": (best("probe", LAST_OOD) - last("probe", LAST_OOD)) / best("probe", LAST_OOD),
    "last_rank": hidden("numerical_rank"),
    "last_rank_growth": hidden("numerical_rank") / hidden("rank_before"),
    "highest_rank": best("numerical_rank"),
    "ood_peak": PeakLayer("probe", LAST_OOD),
    "logits_norm": Whole("logits_norm"),
    "logits_growth": Whole("logits_norm") / Whole("logits_norm", step=0),
    "alignment": Over("alignment", np.nanmean),
    "norm_added_late": Over("sample_norm", added_late),
    "late_weights_over_early": Over("weight_norm", late_over_early),
    "learning_rate": Whole("rate"),
    "diverged": Whole("diverged"),
}
AT_LAYERS = ("probe", "accuracy", "numerical_rank", "rank_before", "features", "sample_norm", "weight_norm")
KEPT = (*AT_LAYERS, "logits_norm", "alignment", "loss", "rate", "trial_loss", "diverged")

MEASURES = ("probe", "rank", "norm")
KAPPA = {"mlp8": (75, 50, 38, 38), "resnet18": (94, 83, 72, 67), "resnet20": (90, 85, 80, 60)}
KAPPA |= {"resnet34": (94, 94, 94, 82), "resnet50": (96, 96, 90, 78)}
RHO = {"mlp8": (67, 67, 71, 78), "resnet18": (17, 56, 54, 67), "resnet20": (10, 28, 36, 50)}
RHO |= {"resnet34": (5, 2, 11, 23), "resnet50": (5, 2, 14, 22)}
"""tables 6.3.1 and 6.3.2, in percent, at T = 1, 10, 100 and 1000"""

study = Heated(
    Network("winze/mlp8"),
    Data("cifar10", size=32, fit="pad"),
    replace(MLP, clip=CLIP),
    Reading(measures=MEASURES, probe="adam", pool="flatten", ood=("svhn", TEN_OF_CIFAR100)),
    align_at=(0, 391, 1173),
    logits_every=782,
)
digits = {
    "network.name": "winze/mlp8x128",
    "data": Data("digits[0-4]"),
    "training.length": Epochs(150),
    "training.evaluate": Epochs(50),
    "training.checkpoint": Epochs(25),
    "reading": Reading(measures=MEASURES, ood=("digits[5-9]",)),
    "trial": 10,
    "align_at": (0, 20, 60),
    "logits_every": 40,
}
tiny = {"network.name": "winze/mlp8x16", "data": Data("digits[0-4]", limit=200), "training.length": Epochs(3)}
tiny |= {"samples": 64, "align_at": (0, 3), "logits_every": 3}
short = {"training.length": Epochs(30), "reading.pool": "mean", "reading.ood": ("mnist", "tinyimagenet")}
scales = {
    "smoke": Scale(digits | tiny, departures=(ON_DIGITS, "MLP-8 is 16 wide and trained for 3 epochs on 200 samples")),
    "cpu": Scale(digits, seeds=3, departures=(ON_DIGITS, "MLP-8 is 128 wide and trained for 150 epochs; ridge probes")),
    "gpu": Scale(
        short | {"reading.ood_limit": 20_000},
        seeds=3,
        departures=(STAND_IN, "MLP-8 is trained for 30 epochs; 20,000 images of MNIST"),
    ),
    "paper": Scale(seeds=3),
}
resnet = replace(RESNET, clip=CLIP)
short_resnet = {
    "training.length": Epochs(25),
    "training.schedule": Milestones(at=(13, 20), per="epoch"),
    "training.precision": "bf16-mixed",
    "training.channels_last": True,
    "trial": 1,
    "reading.pool": 2,
}
thirds = Milestones(at=(30, 60, 80), per="epoch")
imagenet = {
    "data": Data("imagenet", size=224, limit=50_000, stream=8),
    "reading.ood": ("cifar100",),
    "training": replace(resnet, length=Epochs(90), batch=256, schedule=thirds, augment=()),
    "align_at": (0, 5_004, 15_012),
    "logits_every": 5_004,
}
networks = {
    "mlp8": {},
    "resnet18": {"network.name": "winze/resnet18", "training": resnet},
    "resnet20": {"network.name": "winze/resnet20", "training": resnet},
    "resnet34": imagenet | {"network.name": "winze/resnet34", "network.options.stem": "thesis"},
    "resnet50": imagenet | {"network.name": "resnet50"},
}


TRAINED: Any = {**ABOUT, "study": study, "work": work, "quantities": QUANTITIES, "measures": KEPT}
"""what recipes of trained networks say of themselves"""


def heat(temperature: float) -> dict[str, Any]:
    """What a temperature sets: the loss, where gradients are clipped, and the learning rates that are tried."""
    factors = tuple(sorted({1.0, temperature**0.5, temperature}))
    return {"training.objective.temperature": temperature, "training.clip": CLIP / temperature, "factors": factors}


temperatures: dict[Any, Any] = {value: heat(value) for value in (1, 10, 100, 1000)}
temperatures["norm"] = {"training.objective.temperature": "norm"}


def cells(table: Mapping[str, tuple[int, ...]]) -> dict[Any, float]:
    """The shares of a table by network and temperature."""
    return {(net, 10**power): one / 100 for net, row in table.items() for power, one in enumerate(row)}
