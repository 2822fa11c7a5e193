"""The check of tunnel claims: curves are averaged over seeds before the threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from winze.depth import Place
from winze.lab.claims import Quantities, Runs
from winze.lab.verdicts import LEAST, NOT_ENOUGH, NOT_RUN, Interval, Region, Verdict
from winze.readings import Readings
from winze.report import facts
from winze.report.means import layer_numbers, mean_tunnel
from winze.report.names import number, percent


@dataclass(frozen=True)
class TunnelAt:
    """The tunnel starts at a layer, give or take some: probe curves are averaged over seeds, then thresholded.

    The interval is that of resampled seeds and, where each sample's correctness was kept, of resampled test samples.
    """

    arm: str
    threshold: float
    layer: int
    within: int
    counting: str | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        return (self.arm,)

    @property
    def quantity(self) -> None:
        return None

    def judge(self, runs: Runs, quantities: Quantities) -> Verdict:
        read = {seed: one for seed, one in sorted(runs[self.arm].items()) if _has_probes(one)}
        if not read:
            return Verdict(NOT_RUN, f"there are no probes in the readings of {self.arm}")
        for seed, one in read.items():
            gaps = [row for row in facts.at(one, "probe") if math.isnan(row.value)]
            if gaps:
                why = gaps[0].note or "it was read as NaN"
                said = f"the probe of {self.arm}, seed {seed}, at {gaps[0].place} is missing: {why}"
                return Verdict(NOT_ENOUGH, said, n=len(read))
        found = mean_tunnel(list(read.values()), self.threshold)
        first = next(iter(read.values()))
        numbers = layer_numbers(first, self.counting)
        start, low, high = (_layer(end, numbers) for end in (found.start, found.low, found.high))
        word = Region(self.layer - self.within, self.layer + self.within).word(Interval(start, low, high, len(read)))
        where = f"the probes reach {percent(self.threshold)} of {percent(found.reference)} at layer {number(start)}"
        total = first.conventions.get("layer_count") or max(numbers.values())
        named = f", `{found.start.name}`" if found.start is not None else ""
        parts = [found.reason or f"{where} of {total}{named} [{number(low)}, {number(high)}]"]
        parts += [f"{layer} counted {name}" for name, layer in self._otherwise(first, found.start)]
        parts.append(f"curves of {len(read)} seed{'s' if len(read) > 1 else ''} averaged first")
        if len(read) < LEAST:
            parts.append(f"below {LEAST} seeds nothing is certain")
        alone = {self.arm: {seed: self._alone(one) for seed, one in read.items()}}
        return Verdict(word, "; ".join(parts), start, low, high, len(read), values=alone)

    def _alone(self, readings: Readings) -> float:
        start = mean_tunnel([readings], self.threshold, resamples=0).start
        return math.nan if start is None else float(layer_numbers(readings, self.counting)[start.index])

    def _otherwise(self, readings: Readings, start: Place | None) -> list[tuple[str, int]]:
        """The same place under the other countings that the readings know."""
        known = readings.conventions.get("layers") or {}
        others = [name for name in known if name != (self.counting or next(iter(known)))]
        return [] if start is None else [(name, layer_numbers(readings, name)[start.index]) for name in others]


def tunnel_at(arm: str, threshold: float, layer: int, within: int = 2, counting: str | None = None) -> TunnelAt:
    """The tunnel of an arm starts at the paper's `layer`, give or take `within`."""
    return TunnelAt(arm, threshold, layer, within, counting)


def _layer(place: Place | None, numbers: Mapping[int, int]) -> float:
    """The number of a place's layer; infinity where there is none."""
    return math.inf if place is None else float(numbers[place.index])


def _has_probes(readings: Readings) -> bool:
    return any(row.measure == "probe" and row.index is not None for row in readings.rows)
