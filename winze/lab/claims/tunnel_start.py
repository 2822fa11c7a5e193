"""The check of tunnel claims: curves are averaged over seeds before the threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from winze.lab.axes import PointGrid
from winze.lab.claims.claim import Check, PerCell, RunReadings
from winze.lab.claims.quantities import Quantities
from winze.lab.claims.verdict import INCONCLUSIVE, LEAST, NOT_RUN, Interval, Region, Verdict
from winze.place import Place
from winze.readings import Point, Readings, facts
from winze.readings.over_seeds import layer_numbers, mean_tunnel
from winze.readings.wording import number, percent


@dataclass(frozen=True)
class TunnelAt(Check):
    """The tunnel starts near a layer: probe curves are averaged over seeds, then thresholded. The interval resamples
    seeds and, where per-sample correctness is stored, test samples.
    """

    threshold: float
    claimed: PerCell
    within: int
    axes: tuple[str, ...] = ()
    quantity = None

    def points(self, cell: Point, grid: PointGrid) -> tuple[Point, ...]:
        return (grid.complete(cell),)

    def judge(self, cell: Point, key: Any, grid: PointGrid, runs: RunReadings, quantities: Quantities) -> Verdict:
        point = grid.complete(cell)
        claimed = self.claimed[key] if isinstance(self.claimed, Mapping) else self.claimed
        read = {
            seed: one
            for seed, one in sorted(runs[point].items())
            if any(row.measure == "probe" and row.index is not None for row in one.rows)
        }
        if not read:
            return Verdict(NOT_RUN, "the readings hold no probes")
        for seed, one in read.items():
            gaps = [row for row in facts.at(one, "probe") if math.isnan(row.value)]
            if gaps:
                why = gaps[0].note or "it was read as NaN"
                said = f"the probe of seed {seed} at {gaps[0].place} is missing: {why}"
                return Verdict(INCONCLUSIVE, said, n=len(read))
        found = mean_tunnel(list(read.values()), self.threshold)
        first = next(iter(read.values()))
        numbers = layer_numbers(first)
        start, low, high = (_layer(end, numbers) for end in (found.start, found.low, found.high))
        word = Region(claimed - self.within, claimed + self.within).word(Interval(start, low, high, len(read)))
        where = f"the probes reach {percent(self.threshold)} of {percent(found.reference)} at layer {number(start)}"
        total = first.conventions.layer_count or max(numbers.values())
        named = f", `{found.start.name}`" if found.start is not None else ""
        parts = [found.reason or f"{where} of {total}{named} [{number(low)}, {number(high)}]"]
        parts += [f"{layer} counted {name}" for name, layer in self._otherwise(first, found.start)]
        parts.append(f"mean curve of {len(read)} seed{'s' * (len(read) > 1)}")
        if len(read) < LEAST:
            parts.append(f"fewer than {LEAST} seeds")
        alone = {point: {seed: self._alone(one) for seed, one in read.items()}}
        return Verdict(word, "; ".join(parts), start, low, high, len(read), values=alone)

    def _alone(self, readings: Readings) -> float:
        start = mean_tunnel([readings], self.threshold, resamples=0).start
        return math.nan if start is None else float(layer_numbers(readings)[start.index])

    def _otherwise(self, readings: Readings, start: Place | None) -> list[tuple[str, int]]:
        """The same place by the other layer numberings of the readings."""
        others = list(readings.conventions.layers or {})[1:]
        return [] if start is None else [(name, layer_numbers(readings, name)[start.index]) for name in others]


def tunnel_at(threshold: float, layer: PerCell, within: int = 2) -> TunnelAt:
    """The tunnel starts at the paper's `layer`, one for all cells or one per cell, to within `within`."""
    return TunnelAt(threshold, layer, within)


def _layer(place: Place | None, numbers: Mapping[int, int]) -> float:
    """The number of a place's layer; infinity where there is none."""
    return math.inf if place is None else float(numbers[place.index])
