"""Numbers of a network that was trained at a temperature."""

import re
from dataclasses import dataclass

import numpy as np

from winze.lab.claims.quantities import LAST_OOD, OOD, Over, PeakLayer, RunNumber, Whole, best, drop, hidden, last
from winze.readings import Array, Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers

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
