"""Numbers of a network that learnt at a temperature."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from winze.lab.quantities import (
    LAST_OOD,
    OOD,
    Number,
    Over,
    PeakLayer,
    TunnelLayer,
    Whole,
    best,
    drop,
    first,
    hidden,
    last,
)
from winze.readings import Array, Readings, ReadingsError
from winze.report import facts
from winze.report.means import layer_numbers

ETA = {"imagenet": 0.95}  # of the best probe; elsewhere .99
SLACK = 1e-9


def nominal(readings: Readings) -> int:
    """The number of layers that a network is named after: 8 of `winze/mlp8x128`, 18 of `winze/resnet18`."""
    name = str(readings.conventions.get("network", ""))
    number = re.search(r"\d+", name.split("/")[-1])
    if number is None:
        raise ReadingsError(f"the name of the network, {name!r}, has no number of layers")
    return int(number[0])


@dataclass(frozen=True)
class Kappa(Number):
    """The share of depth after which probes are as good as they get; lower is more compressed.

    κ = ℓ* / L,   ℓ* the first layer with accuracy ≥ η max,   L the number in the network's name
    """

    measure: str = "probe"

    def __call__(self, readings: Readings) -> float:
        if not facts.has(readings, self.measure):
            return best(self.measure)(readings)  # which says why there is none
        total = nominal(readings)
        numbers = np.array(list(layer_numbers(readings).values()))
        curve = np.where(numbers <= total, facts.column(readings, self.measure), -np.inf)
        eta = ETA.get(facts.home(readings), 0.99)
        return float(numbers[int(np.argmax(curve >= eta * np.nanmax(curve) - SLACK))]) / total


def late_over_early(norms: Array) -> float:
    """The mean of the later half of the hidden layers over that of the earlier half."""
    early, late = np.array_split(norms[:-1], 2)
    return float(late.mean() / early.mean())


def added_late(norms: Array) -> float:
    """The share of the last hidden layer's norm that its later half of the layers has added."""
    inside = norms[:-1]
    return float(1 - inside[(len(inside) - 1) // 2] / inside[-1])


def together(norms: Array) -> float:
    """The norm of all hidden layers' weights."""
    return float(np.sqrt(np.square(norms[:-1]).sum()))


QUANTITIES = {
    "accuracy": Whole("accuracy"),
    "diverged": Whole("diverged"),
    "rate": Whole("rate"),
    "kappa": Kappa(),
    "rho": drop("probe", OOD) / best("probe", OOD),
    "rho_at_the_output": (best("probe", OOD) - last("probe", OOD)) / best("probe", OOD),
    "rho_of_the_second": drop("probe", LAST_OOD) / best("probe", LAST_OOD),
    "rho_of_the_second_at_the_output": (best("probe", LAST_OOD) - last("probe", LAST_OOD)) / best("probe", LAST_OOD),
    "tunnel_start": TunnelLayer(0.95),
    "rank_at_the_end": hidden("numerical_rank"),
    "rank_at_the_end_over_start_of_training": hidden("numerical_rank") / hidden("rank_before"),
    "rank_at_the_end_over_first": hidden("numerical_rank") / first("numerical_rank"),
    "highest_rank": best("numerical_rank"),
    "other_data_peak": PeakLayer("probe", LAST_OOD),
    "logits_norm": Whole("logits_norm"),
    "logits_growth": Whole("logits_norm") / Whole("logits_norm", step=0),
    "alignment": Over("alignment", np.nanmean),
    "weight_norm": Over("weight_norm", together),
    "late_weights_over_early": Over("weight_norm", late_over_early),
    "norm_added_late": Over("sample_norm", added_late),
}
MEASURES = (
    "probe",
    "accuracy",
    "numerical_rank",
    "rank_before",
    "features",
    "sample_norm",
    "weight_norm",
    "logits_norm",
    "alignment",
    "loss",
    "rate",
    "trial_loss",
    "diverged",
)
