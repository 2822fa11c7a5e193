"""What readings say about a network: places, curves, the tunnel, the best place for OOD data, the cost of cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from winze.measure import Tunnel, best_place, kappa, rho, tunnel, tunnel_of_runs
from winze.measure.registry import is_ours, number_named
from winze.measure.value import CONSTANT, wilson
from winze.place import Place
from winze.readings import Readings, Row
from winze.readings.wording import percent

NAN = float("nan")
FAR = 0.1  # above the network's own accuracy, a last probe says that its outputs mean other labels
LEARNT = 0.1  # of the accuracy above chance, which a network with far better features needs
VARIANCES = ("intra_variance", "inter_variance")
FRESH = "as initialised"  # the convention `weights` of a network whose norm layers show that it was not trained
MOST_FEATURES = 8000  # of a place, for the variances of a scan by default
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Entrance:
    """The tunnel of stored readings; `bounded` where per-sample correctness gave its start an interval."""

    tunnel: Tunnel
    bounded: bool
    reference: Reference


@dataclass(frozen=True)
class Reference:
    """The accuracy that probes are measured against: the network's `own`, or the last probe's.

    `note` says why it is not the network's; `refused` why no tunnel can be measured against it.
    """

    accuracy: float
    own: bool = False
    note: str = ""
    refused: str = ""


@dataclass(frozen=True)
class Best:
    """The place with the best probe on some data; `gain` is over the last place.

    `low` and `high` are the gain's 95 % interval over the samples, wide enough for a best of so many places; NaN where
    no correctness per sample is stored. `refused` says why no place is to be taken: the best probe is at chance.
    """

    place: Place
    accuracy: float
    last: float
    gain: float
    kappa: float
    rho: float
    low: float = NAN
    high: float = NAN
    refused: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether the place is better than the last one by more than the samples leave open."""
        return not self.refused and self.gain > 0 and not self.low <= 0


def places(readings: Readings) -> list[Place]:
    """Every place that was read, in depth order."""
    found = {row.index: (row.total, row.place) for row in readings.rows if row.index is not None}
    most = max(found, default=-1) + 1
    return [Place(index, max(total or 0, most), name) for index, (total, name) in sorted(found.items())]


def home(readings: Readings) -> str:
    """The data the network was made for: the convention `data`, or else the first set with a probe or any place."""
    at_places = [row for row in readings.rows if row.index is not None]
    named = readings.conventions.data
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


def joined(readings: Readings) -> list[str]:
    """The measures at places that are not winze's own: those that joined by `winze.measure.register`."""
    return [measure for measure in measures(readings) if not is_ours(measure)]


def a_feature(readings: Readings, measure: str) -> Array:
    """A sum over features at every place, divided by how many there are; as it is where widths were not read."""
    if not has(readings, "features"):
        return column(readings, measure)
    most = (readings.conventions.rank or {}).get("max_features", MOST_FEATURES)
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


def entrance(readings: Readings, threshold: float = 0.95, data: str | None = None) -> Entrance | None:
    """Find the tunnel from stored correctness, or from the probe curve alone; None where there are no probes."""
    spots, name = places(readings), home(readings) if data is None else data
    curve = column(readings, "probe", data)
    if not np.isfinite(curve).any():
        return None
    known = reference(readings, data)
    chance, wanted = _chance(readings, name), threshold * known.accuracy
    if not known.refused and chance is not None and wanted <= chance:
        owner = "the network's own accuracy" if known.own else "the last-layer probe"
        why = f"{percent(threshold)} of {owner} are {percent(wanted)}, not above chance, {percent(chance)}"
        known = replace(known, refused=why)
    if not known.refused and name == home(readings) and readings.conventions.weights == FRESH:
        known = replace(known, refused="the network seems untrained: its norm layers are as they were initialised")
    if known.refused:
        return Entrance(Tunnel.none(known.refused, threshold, known.accuracy), False, known)
    correct = readings.arrays.get(f"correct/{name}")
    if correct is not None and correct.ndim == 2 and len(correct) == len(spots) and correct.size:
        network = readings.arrays.get("correct/network") if known.own else None
        fits = network is not None and network.shape == correct.shape[1:]
        against = network.astype(bool).tobytes() if network is not None and fits else None
        level = against or (known.accuracy if known.own else None)
        return Entrance(_tunnel(tuple(spots), correct.astype(bool).tobytes(), level, threshold), True, known)
    found = tunnel_of_runs(spots, curve[None], np.array([known.accuracy]), threshold, resamples=0)
    return Entrance(found, False, known)


def reference(readings: Readings, data: str | None = None) -> Reference:
    """What probes are measured against: the network's own accuracy where its outputs match the labels.

    Else the last probe. It is refused where it is not clearly above chance, and for a network that was not trained on
    this data: its probes then say nothing about training.
    """
    name = home(readings) if data is None else data
    probes = (row for row in at(readings, "probe", data) if np.isfinite(row.value))
    last, chance = max(probes, key=lambda row: (row.step or 0, row.index or 0)), _chance(readings, name)
    own = whole_row(readings, "accuracy") if name == home(readings) else None
    by_probe = Reference(last.value, refused=_at_chance("the last-layer probe", last, chance))
    if _is_constant(readings):
        return replace(by_probe, refused="the features of the last layer are the same for every sample")
    if name == home(readings) and readings.conventions.weights == "random":
        return replace(by_probe, refused="the network has random weights")
    if own is None:
        return by_probe
    if not np.isfinite(own.value):
        why = f" ({own.note})" if own.note else ""
        said = f"The network's own accuracy could not be read{why}; the reference is the last-layer probe."
        return replace(by_probe, note=said)
    least, renamed = 0.0, readings.conventions.relabelled_accuracy
    far = last.value > own.value + FAR
    if chance is not None:  # random outputs depend on the input too, so they predict a little
        least = chance + (last.value - chance) / 3
        if far and isinstance(renamed, float):  # either its outputs are other classes, or it was not trained on them
            least = chance + LEARNT * (1 - chance)
    refused = _at_chance("the network's own accuracy", own, chance, least)
    if refused and chance is not None and own.n and wilson(own.value, own.n)[0] > chance:
        refused = (
            f"the network's own accuracy, {percent(own.value)}, is little above chance, {percent(chance)}, and the "
            f"last-layer probe reaches {percent(last.value)}"
        )
    if far and (not refused or (isinstance(renamed, float) and _are_renamed(renamed, last, chance))):
        said = (
            f"The last-layer probe reaches {percent(last.value)}, far above the network's own accuracy, "
            f"{percent(own.value)}: its output classes probably do not match these labels. The reference is the "
            "last-layer probe."
        )
        return replace(by_probe, note=said)
    return Reference(own.value, own=True, refused=refused)


def _are_renamed(renamed: float, last: Row, chance: float | None) -> bool:
    """Whether outputs mean other labels: with those they come near the last probe, and more than halfway from chance.

    Random outputs depend on the input too, and reach up to a third of the way.
    """
    low, _ = wilson(renamed, last.n) if last.n else (renamed, renamed)
    least = 0.0 if chance is None else chance + (last.value - chance) / 2
    return renamed >= last.value - FAR and low > least


def _at_chance(what: str, row: Row, chance: float | None, least: float = 0.0) -> str:
    """Why an accuracy means nothing: its interval includes chance, or an accuracy `least` above that."""
    low, high = wilson(row.value, row.n) if row.n else (row.value, row.value)
    if chance is None or low > max(chance, least):
        return ""
    between = f" (95 % interval {percent(low)} to {percent(high)})" if row.n else ""
    return f"{what}, {percent(row.value)}{between}, is not clearly above chance, {percent(chance)}"


def _chance(readings: Readings, data: str) -> float | None:
    """The accuracy of always naming the largest class; of equal classes where their shares were not stored."""
    stored, classes = readings.conventions.chance, readings.conventions.class_count
    if isinstance(stored, dict) and isinstance(stored.get(data), float):
        return float(stored[data])
    return 1 / classes if isinstance(classes, int) and classes > 0 and data == home(readings) else None


def _is_constant(readings: Readings) -> bool:
    """Whether the last place holds the same features for all samples."""
    ranks = at(readings, "numerical_rank")
    return bool(ranks) and max(ranks, key=lambda row: (row.step or 0, row.index or 0)).note == CONSTANT


def best_for(readings: Readings, data: str) -> Best | None:
    """The place with the best probe on this data, with the compression kappa and the loss rho; None if unread."""
    curve = column(readings, "probe", data)
    if not np.isfinite(curve).any():
        return None
    spots = places(readings)
    place = best_place(spots, curve)
    top, last = float(np.nanmax(curve)), float(curve[-1])
    row = next(row for row in at(readings, "probe", data) if row.index == place.index and row.value == top)
    low, high = _gain(readings.arrays.get(f"correct/{data}"), spots.index(place), len(spots))
    refused = _at_chance("the best probe", row, _chance(readings, data))
    return Best(place, top, last, top - last, kappa(curve), rho(curve), low, high, refused)


def _gain(correct: Array | None, best: int, count: int) -> tuple[float, float]:
    """The 95 % interval of the accuracy that the best of `count` places has over the last, paired over the samples."""
    if correct is None or correct.ndim != 2 or len(correct) != count or correct.shape[1] < 2 or count < 2:
        return NAN, NAN
    more = correct[best].astype(float) - correct[-1].astype(float)
    half = NormalDist().inv_cdf(1 - 0.025 / (count - 1)) * float(more.std(ddof=1)) / len(more) ** 0.5
    return float(more.mean()) - half, float(more.mean()) + half


def extreme(readings: Readings, measure: str) -> Place:
    """The place with the best value of a measure; where neither way is better, with the highest."""
    curve = column(readings, measure)
    return best_place(places(readings), -curve if number_named(measure).better == "lower" else curve)


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
