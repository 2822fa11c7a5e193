"""Numbers of one run that several tunnel recipes speak about."""

from dataclasses import dataclass

from winze.data.class_names import resolve, split_name
from winze.lab.claims.quantities import OOD, Over, PeakLayer, RunNumber, TunnelLayer, Whole, best, drop, hidden
from winze.readings import Array, Readings, ReadingsError, facts

FINAL_RANK = hidden("numerical_rank").named("rank of the last hidden layer")
OOD_LOST = drop("probe", OOD).named("OOD accuracy lost from the best to the last hidden layer")
OOD_PEAK_AFTER_START = (PeakLayer("probe", OOD) - TunnelLayer()).named("layers from tunnel start to OOD peak")
START_SHARE = TunnelLayer(share=True).named("share of the layers before the tunnel")
SPIKE_AT = "29 with projections is 27 without"


def spike(ranks: Array) -> float:
    """How far a value at the end of ResNet-34's third stage, its block 13, stands above both neighbours."""
    if len(ranks) != 16:
        raise ReadingsError(f"ResNet-34 has 16 blocks, not {len(ranks)}")
    return float(ranks[12] - max(ranks[11], ranks[13]))


SPIKE = Over("numerical_rank", spike).named("rank at layer 29 above its neighbours")
SPIKE_HEIGHT = Over("numerical_rank", lambda ranks: max(0.0, spike(ranks))).named("height of a rank spike at layer 29")


def accuracy_over_chance(readings: Readings) -> float:
    """The accuracy as a multiple of chance (of two classes 75 % count as 2); the data's name tells their number."""
    name, wanted = split_name(facts.home(readings))
    known = [str(number) for number in range(100 if name.endswith("100") else 10)]
    chance = 1 / len(resolve(wanted, known, name))
    return Whole("accuracy")(readings) / min(chance, (1 + chance) / 4)


LEARNED = accuracy_over_chance, 2.0
"""below which a run failed to learn"""


@dataclass(frozen=True)
class LeastLost(RunNumber):
    """The least share of its best probe that any OOD set has lost at the last hidden layer."""

    measure: str = "probe"

    def __call__(self, readings: Readings) -> float:
        names = facts.others(readings)
        if len(names) < 2:
            hidden(self.measure, OOD)(readings)  # where there is no OOD set at all, it says why
            raise ReadingsError(f"{self.measure} was read on {len(names)} OOD set; two are the least")
        return min((drop(self.measure, name) / best(self.measure, name))(readings) for name in names)
