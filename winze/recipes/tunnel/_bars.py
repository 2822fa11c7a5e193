"""Where a tunnel starts by a bar that is the same for every network: an accuracy, not a share of its own."""

from dataclasses import dataclass

import numpy as np

from winze.lab.claims.quantities import RunNumber
from winze.measure import missing
from winze.readings import Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers


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
