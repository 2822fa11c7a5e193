"""Numbers of one run that only the tunnel's recipes speak about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from winze.lab.quantities import OOD, At, Number, TunnelLayer, best, drop, hidden
from winze.measure import missing
from winze.readings import Array, Readings, ReadingsError
from winze.report import facts
from winze.report.means import layer_numbers, mean_tunnel


def spike(values: Array) -> float:
    """How far a value at the end of ResNet-34's third stage, its block 13, stands above both neighbours."""
    if len(values) != 16:
        raise ReadingsError(f"ResNet-34 has 16 blocks, not {len(values)}")
    return float(values[12] - max(values[11], values[13]))


def fall(data: str) -> Number:
    """The share of its best probe that a set has lost at the last place before the output."""
    return drop("probe", data) / best("probe", data)


@dataclass(frozen=True)
class OverSets(Number):
    """One number out of the same number of several other sets; of all that were read, where `sets` names none."""

    make: Callable[[str], Number]
    reduce: Callable[[Sequence[float]], float]
    sets: tuple[str, ...] = ()
    measure: str = "probe"

    def __call__(self, readings: Readings) -> float:
        names = [name for name in facts.others(readings) if not self.sets or name in self.sets]
        if len(names) < 2:
            hidden(self.measure, OOD)(readings)  # where there is no other set at all, it says why
            raise ReadingsError(f"{self.measure} was read on {len(names)} of these other sets; two are the least")
        return self.reduce([self.make(name)(readings) for name in names])


@dataclass(frozen=True)
class Together(Number):
    """Spearman's correlation of two measures over the hidden places from where the first is highest to the last."""

    measure: str
    other: str
    data: str = OOD

    @property
    def measures(self) -> tuple[str, ...]:
        return self.measure, self.other

    def __call__(self, readings: Readings) -> float:
        from scipy.stats import rankdata

        best(self.measure, self.data)(readings)  # raises with the reason where it was not read
        name = facts.others(readings)[0] if self.data == OOD else self.data
        curves = [facts.column(readings, self.measure, name), facts.column(readings, self.other)]
        peak = int(np.nanargmax(curves[0][:-1]))
        ranks = [rankdata(curve[peak:-1]) for curve in curves]
        if len(ranks[0]) < 3 or any(np.ptp(one) == 0 for one in ranks):
            return missing("fewer than three places behind the peak, or nothing changes there")
        return float(np.corrcoef(ranks)[0, 1])


def spread(values: Sequence[float]) -> float:
    """From the lowest to the highest."""
    return max(values) - min(values)


@dataclass(frozen=True)
class OverTraining(Number):
    """One number of a measure's values [place, step] while the network learnt, and of where its tunnel starts.

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
            raise ReadingsError(f"{self.measure} was not read while the network learnt")
        known = values[np.isfinite(values).any(1)]
        if not self.tunnel:
            return self.reduce(known, 0)
        found = mean_tunnel([readings], resamples=0)
        if found.start is None or not 0 < found.start.index + 1 < len(known):
            return missing(found.reason or "there is no layer behind the start of the tunnel")
        return self.reduce(known, found.start.index + 1)


@dataclass(frozen=True)
class AtTunnel(Number):
    """A measure at the place where the tunnel starts, the last of the extractor, or so many layers behind it."""

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
class OverMatrix(Number):
    """One number of a stored matrix between all pairs of hidden places, or of those `behind` the tunnel's start."""

    measure: str
    reduce: Callable[[Array], float]
    behind: bool = False

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, *(TunnelLayer().measures if self.behind else ()))

    def __call__(self, readings: Readings) -> float:
        matrix = readings.arrays.get(self.measure)
        if matrix is None:
            raise ReadingsError(f"{self.measure} was not read")
        numbers, count = layer_numbers(readings), readings.conventions["layer_count"]
        kept = [spot for spot, layer in enumerate(numbers.values()) if layer < count]
        if self.behind:
            found = mean_tunnel([readings], 0.95, resamples=0)
            if found.start is None:
                return missing(found.reason)
            kept = [spot for spot in kept if spot > found.start.index]
            if len(kept) < 2:
                return missing("fewer than two hidden places lie behind the start of the tunnel")
        return self.reduce(matrix[np.ix_(kept, kept)])


@dataclass(frozen=True)
class TunnelShare(Number):
    """The share of its layers at which a network's tunnel starts."""

    @property
    def measures(self) -> tuple[str, ...]:
        return TunnelLayer().measures

    def __call__(self, readings: Readings) -> float:
        start = TunnelLayer(0.95)(readings)
        return start if math.isnan(start) else start / float(readings.conventions["layer_count"])
