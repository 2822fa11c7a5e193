"""What readings say about a network: places, curves, the tunnel, the best place for other data, the cost of cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from winze.depth import Place
from winze.measure import Tunnel, best_place, kappa, rho, tunnel, tunnel_start
from winze.readings import Readings, Row

NAN = float("nan")
VARIANCES = ("intra_variance", "inter_variance")
MOST_FEATURES = 8000  # of a place, that a scan takes variances of if not told otherwise
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Entrance:
    """The tunnel of stored readings; `bounded` where per-sample correctness gave its start an interval."""

    tunnel: Tunnel
    bounded: bool


@dataclass(frozen=True)
class Best:
    """The place that serves some data best; `gain` is over the last place."""

    place: Place
    accuracy: float
    last: float
    gain: float
    kappa: float
    rho: float


def places(readings: Readings) -> list[Place]:
    """Every place that was read, in depth order."""
    found = {row.index: (row.total, row.place) for row in readings.rows if row.index is not None}
    most = max(found, default=-1) + 1
    return [Place(index, max(total or 0, most), name) for index, (total, name) in sorted(found.items())]


def home(readings: Readings) -> str:
    """The data the network was made for: the convention `data`, or else the first set with a probe or any place."""
    at_places = [row for row in readings.rows if row.index is not None]
    named = readings.conventions.get("data")
    if isinstance(named, str) and any(row.data == named for row in at_places):
        return named
    return next((row.data for row in _probes_first(at_places)), "")


def others(readings: Readings) -> list[str]:
    """The OOD sets with probes, in the order they were read."""
    sets = dict.fromkeys(row.data for row in readings.rows if row.measure == "probe" and row.index is not None)
    return [name for name in sets if name != home(readings)]


def measures(readings: Readings) -> list[str]:
    """The measures with a finite value at some place of the home data."""
    name = home(readings)
    rows = [row for row in readings.rows if row.index is not None and row.data in (name, "")]
    return list(dict.fromkeys(row.measure for row in rows if np.isfinite(row.value)))


def a_feature(readings: Readings, measure: str) -> Array:
    """A sum over features at every place, divided by how many there are; as it is where widths were not read."""
    if not has(readings, "features"):
        return column(readings, measure)
    most = readings.conventions.get("rank", {}).get("max_features", MOST_FEATURES)
    return column(readings, measure) / np.minimum(column(readings, "features"), most)


def column(readings: Readings, measure: str, data: str | None = None, field: str = "value") -> Array:
    """One measure at every place, at the last step; NaN where it was not read. `field` may be `low` or `high`."""
    where = {place.index: spot for spot, place in enumerate(places(readings))}
    values = np.full(len(where), NAN)
    rows = at(readings, measure, data)
    last = max((row.step for row in rows if row.step is not None), default=None)
    for row in rows:
        if row.step == last and row.index is not None:
            values[where[row.index]] = getattr(row, field)
    return values


def at(readings: Readings, measure: str, data: str | None = None) -> list[Row]:
    """The rows of one measure at places, of one split: "test" where there is one, else the first."""
    sets = (home(readings), "") if data is None else (data,)
    rows = [row for row in readings.rows if row.measure == measure and row.index is not None and row.data in sets]
    splits = [row.split for row in rows]
    return [row for row in rows if row.split == ("test" if "test" in splits else splits[0])]


def has(readings: Readings, measure: str, data: str | None = None) -> bool:
    """Whether there is a finite value at some place."""
    return bool(np.isfinite(column(readings, measure, data)).any())


def whole(readings: Readings, measure: str) -> float:
    """A number of the whole network, such as `accuracy`; NaN where there is none."""
    row = whole_row(readings, measure)
    return NAN if row is None else row.value


def whole_row(readings: Readings, measure: str) -> Row | None:
    """The last row about the whole network with this measure, of the home data where that is said."""
    rows = [row for row in readings.rows if row.measure == measure and row.index is None]
    return next((row for row in reversed(rows) if row.data in (home(readings), "")), None)


def last_look(readings: Readings, measure: str) -> Row | None:
    """The row of the whole network at the last look that training took at it; None where it took none."""
    rows = [row for row in readings.rows if row.measure == measure and row.index is None and row.step is not None]
    return max(rows, key=lambda row: row.step or 0, default=None)


@lru_cache(maxsize=64)
def _tunnel(spots: tuple[Place, ...], correct: bytes, reference: bytes | float | None, threshold: float) -> Tunnel:
    """The tunnel of correctness given as bytes, worked out once: figures, tables and sentences all ask for it."""
    import torch

    right = torch.frombuffer(bytearray(correct), dtype=torch.bool).view(len(spots), -1)
    known = torch.frombuffer(bytearray(reference), dtype=torch.bool) if isinstance(reference, bytes) else reference
    return tunnel(spots, right, known, threshold)


def entrance(readings: Readings, threshold: float = 0.95) -> Entrance | None:
    """Find the tunnel from stored correctness, or from the probe curve alone; None where there are no probes."""
    spots, name = places(readings), home(readings)
    own = whole(readings, "accuracy")
    reference = own if np.isfinite(own) else None
    correct = readings.arrays.get(f"correct/{name}")
    if correct is not None and correct.ndim == 2 and len(correct) == len(spots) and correct.size:
        network = readings.arrays.get("correct/network")
        fits = network is not None and network.shape == correct.shape[1:]
        known = network.astype(bool).tobytes() if network is not None and fits else reference
        return Entrance(_tunnel(tuple(spots), correct.astype(bool).tobytes(), known, threshold), True)
    curve = column(readings, "probe")
    if not np.isfinite(curve).any() or (reference is None and not np.isfinite(curve[-1])):
        return None
    known = float(curve[-1]) if reference is None else reference
    start = tunnel_start(curve, known, threshold)
    if start is None:
        best = int(np.nanargmax(curve))
        reason = f"no place reaches {threshold:g} x {known:.4f}; the best, {spots[best].name!r}, has {curve[best]:.4f}"
        return Entrance(Tunnel(None, NAN, None, None, NAN, threshold, known, reason), False)
    place, accuracy = spots[start], float(curve[start])
    return Entrance(Tunnel(place, (place.index + 1) / place.total, None, None, accuracy, threshold, known), False)


def best_for(readings: Readings, data: str) -> Best | None:
    """The place whose features serve this data best, with the compression kappa and the loss rho; None unread."""
    curve = column(readings, "probe", data)
    if not np.isfinite(curve).any():
        return None
    place = best_place(places(readings), curve)
    top, last = float(np.nanmax(curve)), float(curve[-1])
    return Best(place, top, last, top - last, kappa(curve), rho(curve))


def spectra(readings: Readings) -> dict[int, Array]:
    """The stored covariance spectra by place index, as positive numbers only."""
    return {index: values[values > 0] for index, values in indexed(readings, "spectrum") if (values > 0).any()}


def indexed(readings: Readings, family: str) -> Iterator[tuple[int, Array]]:
    """The arrays `family/<index>` in depth order."""
    ends = [name.removeprefix(f"{family}/") for name in readings.arrays if name.startswith(f"{family}/")]
    for index in sorted(int(end) for end in ends if end.isdecimal()):
        yield index, readings.arrays[f"{family}/{index}"]


def steps(readings: Readings) -> list[int]:
    """The training steps at which places were read, without doubles."""
    return sorted({row.step for row in readings.rows if row.step is not None and row.index is not None})


def over_steps(readings: Readings, measure: str, data: str | None = None) -> tuple[list[int], Array]:
    """Steps and values [place, step] of one measure during training, NaN where it was not read."""
    rows = [row for row in at(readings, measure, data) if row.step is not None]
    when = {step: spot for spot, step in enumerate(sorted({row.step for row in rows if row.step is not None}))}
    where = {place.index: spot for spot, place in enumerate(places(readings))}
    values = np.full((len(where), len(when)), NAN)
    for row in rows:
        if row.index is not None and row.step is not None:
            values[where[row.index], when[row.step]] = row.value
    return list(when), values


def _probes_first(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.measure == "probe"] + rows
