"""Numbers of one run that several tunnel recipes speak about, and figures of one panel per network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from winze.data.class_names import resolve, split_name
from winze.lab.claims.quantities import OOD, At, Over, PeakLayer, RunNumber, TunnelLayer, Whole, best, drop, hidden
from winze.measure import missing
from winze.readings import Array, Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers, mean_tunnel, means_of
from winze.report.experiment import PointRuns, UnreadError

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


@dataclass(frozen=True)
class OverChance(RunNumber):
    """The accuracy as a multiple of chance (of two classes 75 % count as 2); the data's name tells their number."""

    measure: str = "accuracy"

    def __call__(self, readings: Readings) -> float:
        name, wanted = split_name(facts.home(readings))
        known = [str(number) for number in range(100 if name.endswith("100") else 10)]
        chance = 1 / len(resolve(wanted, known, name))
        return Whole(self.measure)(readings) / min(chance, (1 + chance) / 4)


LEARNED = OverChance().named("accuracy over chance"), 2.0
"""below which a run failed to learn"""


@dataclass(frozen=True)
class LayerReaching(RunNumber):
    """The paper's number of the first layer whose probe reaches an accuracy."""

    bar: float
    measure: str = "probe"

    def __str__(self) -> str:
        return f"first layer at an accuracy of {self.bar:.0%}"

    def __call__(self, readings: Readings) -> float:
        if not facts.has(readings, self.measure):
            raise ReadingsError(f"{self.measure} was not read")
        curve, layers = facts.column(readings, self.measure), list(layer_numbers(readings).values())
        reached = np.flatnonzero(curve >= self.bar)
        if not len(reached):
            return missing(f"the best layer reaches {np.nanmax(curve):.1%}, not {self.bar:.0%}")
        return float(layers[reached[0]])

    def spread(self, readings: Readings) -> tuple[float, float]:
        """The layer itself, twice: as a whole number, it is known to half a layer at best."""
        layer = self(readings)
        return layer, layer


@dataclass(frozen=True)
class AtTunnel(RunNumber):
    """A measure at the last layer of the extractor, or so many layers behind it."""

    measure: str
    behind: int = 0

    @property
    def measures(self) -> tuple[str, ...]:
        return self.measure, "probe", "accuracy"

    def __call__(self, readings: Readings) -> float:
        found = mean_tunnel([readings], resamples=0)
        if found.start is None:
            return missing(found.reason)
        return At(self.measure, found.start.index + self.behind)(readings)


@dataclass(frozen=True)
class OverSets(RunNumber):
    """One number out of the same number of all OOD sets that were read."""

    make: Callable[[str], RunNumber]
    reduce: Callable[[Sequence[float]], float]
    measure: str = "probe"

    def __call__(self, readings: Readings) -> float:
        names = facts.others(readings)
        if len(names) < 2:
            hidden(self.measure, OOD)(readings)  # where there is no OOD set at all, it says why
            raise ReadingsError(f"{self.measure} was read on {len(names)} OOD set; two are the least")
        return self.reduce([self.make(name)(readings) for name in names])


def lost(data: str) -> RunNumber:
    """The share of its best probe that an OOD set has lost at the last hidden layer."""
    return drop("probe", data) / best("probe", data)


@dataclass(frozen=True)
class OverTraining(RunNumber):
    """One number of a measure's values [place, step] during training, and of where the tunnel starts.

    `reduce(values, start)` gets the number of the extractor's layers.
    """

    measure: str
    reduce: Callable[[Array, int], float]
    tunnel: bool = True

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, "probe", "accuracy") if self.tunnel else (self.measure,)

    def __call__(self, readings: Readings) -> float:
        _, values = facts.over_steps(readings, self.measure)
        if not values.size:
            raise ReadingsError(f"{self.measure} was not read during training")
        known = values[np.isfinite(values).any(1)]
        if not self.tunnel:
            return self.reduce(known, 0)
        found = mean_tunnel([readings], resamples=0)
        if found.start is None or not 0 < found.start.index + 1 < len(known):
            return missing(found.reason or "there is no layer behind the start of the tunnel")
        return self.reduce(known, found.start.index + 1)


@dataclass(frozen=True)
class OverMatrix(RunNumber):
    """One number of a stored matrix between all pairs of hidden places."""

    measure: str
    reduce: Callable[[Array], float]

    def __call__(self, readings: Readings) -> float:
        matrix = readings.arrays.get(self.measure)
        if matrix is None:
            raise ReadingsError(f"{self.measure} was not read")
        count = readings.conventions["layer_count"]
        kept = [spot for spot, layer in enumerate(layer_numbers(readings).values()) if layer < count]
        return self.reduce(matrix[np.ix_(kept, kept)])


def by_network(
    draw: Callable[..., Any], first: bool = False, axes: Sequence[str] = ("network",)
) -> Callable[[PointRuns, str], Any]:
    """A figure of scans by name, drawn of the mean readings of every network, or of its first seed.

    Networks are named by their values on `axes`.
    """

    def drawn(runs: PointRuns, theme: str = "light") -> Any:
        there = {" ".join(str(point[one]) for one in axes): list(seeds) for point, seeds in runs.items() if seeds}
        if not there:
            raise UnreadError("no runs")
        return draw({name: seeds[0] for name, seeds in there.items()} if first else means_of(there), theme=theme)

    return drawn
