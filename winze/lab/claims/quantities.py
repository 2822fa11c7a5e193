"""Numbers of one run that claims use: a reading, a reading at a depth, a best value, and sums of these.

last("numerical_rank") / first("numerical_rank")
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from winze.hints import did_you_mean
from winze.measure import Value, missing
from winze.readings import Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers, mean_tunnel

Quantity = Callable[[Readings], float]
Quantities = Mapping[str, Quantity]
OOD = "ood"
"""Placeholder for the first data set, in reading order, on which the network was not trained."""
LAST_OOD = "last ood"
"""Placeholder for the last of them."""


class RunNumber(ABC):
    """A number of one run. A missing or NaN reading raises `ReadingsError` with the reason."""

    measure: str

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures it reads."""
        return (self.measure,)

    def __str__(self) -> str:
        return self.measure

    def named(self, name: str) -> RunNumber:
        """The same number under another name in tables and verdicts."""
        return _Derived(name, lambda value: value, (self,))

    @abstractmethod
    def __call__(self, readings: Readings) -> float: ...

    def spread(self, readings: Readings) -> tuple[float, float] | None:
        """The interval of the number over test samples; None where it has none."""
        return None

    def __add__(self, other: RunNumber) -> RunNumber:
        return _Derived(f"{self} plus {other}", operator.add, (self, other))

    def __sub__(self, other: RunNumber) -> RunNumber:
        return _Derived(f"{self} minus {other}", operator.sub, (self, other))

    def __truediv__(self, other: RunNumber) -> RunNumber:
        return _Derived(f"{self} over {other}", _ratio, (self, other))


@dataclass(frozen=True)
class Whole(RunNumber):
    """A number of the whole network, such as its accuracy; the last reading, or with `step` that of the step."""

    measure: str
    data: str | None = None
    step: int | None = None

    def __call__(self, readings: Readings) -> float:
        rows = [row for row in readings.rows if row.measure == self.measure and row.index is None]
        name = _data(readings, self.data)
        rows = [row for row in rows if row.data in (name, "") and self.step in (None, row.step)]
        if not rows:
            raise ReadingsError(_unread(readings, self.measure, self.data))
        return Value(rows[-1].value, rows[-1].note)


@dataclass(frozen=True)
class DuringTraining(RunNumber):
    """One number of all evaluations of the network during training, such as the lowest; by default the last."""

    measure: str
    reduce: Callable[[facts.Array], float] = lambda values: values[-1]

    def __call__(self, readings: Readings) -> float:
        rows = [row for row in readings.rows if row.measure == self.measure and row.index is None and row.step]
        if not rows:
            raise ReadingsError(f"{self.measure} was not read during training")
        rows.sort(key=lambda row: row.step or 0)
        value = float(self.reduce(np.array([row.value for row in rows])))
        return missing(next((row.note for row in rows if np.isnan(row.value)), "")) if np.isnan(value) else value


@dataclass(frozen=True)
class At(RunNumber):
    """A measure at one place: by index from the first (0, 1, ...) or from the last (-1, -2, ...).

    `index` None: the last place before the output, since logits have no more rank than there are classes.
    """

    measure: str
    index: int | None
    data: str | None = None

    def __str__(self) -> str:
        where = {0: "first place", -1: "last place", None: "last hidden layer"}
        return f"{self.measure} at the {where.get(self.index) or f'place {self.index}'}{_on(self.data)}"

    def __call__(self, readings: Readings) -> float:
        index = _hidden(readings)[-1] if self.index is None else self.index
        curve = _curve(readings, self.measure, self.data)
        if not -len(curve) <= index < len(curve):
            raise ReadingsError(f"{self.measure} was read at {len(curve)} places; there is no place {index}")
        value = float(curve[index])
        return missing(_note(readings, self.measure, self.data)) if np.isnan(value) else value


@dataclass(frozen=True)
class Over(RunNumber):
    """One number of a whole curve over depth, such as its highest value."""

    measure: str
    reduce: Callable[[facts.Array], float]
    data: str | None = None

    def __call__(self, readings: Readings) -> float:
        curve = _curve(readings, self.measure, self.data)
        unread = np.isnan(curve).all()
        return missing(_note(readings, self.measure, self.data)) if unread else float(self.reduce(curve))


@dataclass(frozen=True)
class PeakLayer(RunNumber):
    """The layer, as the paper counts layers, where a measure is highest."""

    measure: str
    data: str | None = None

    def __call__(self, readings: Readings) -> float:
        layers = list(layer_numbers(readings).values())
        return Over(self.measure, lambda curve: layers[int(np.nanargmax(curve))], self.data)(readings)


@dataclass(frozen=True)
class TunnelLayer(RunNumber):
    """The layer, as the paper counts layers, where this run's tunnel starts, or its `share` of all layers."""

    threshold: float = 0.95
    share: bool = False

    def __str__(self) -> str:
        return f"tunnel start at {self.threshold:.0%}{', share of the layers' if self.share else ''}"

    @property
    def measures(self) -> tuple[str, ...]:
        return ("probe", "accuracy")

    def __call__(self, readings: Readings) -> float:
        found = mean_tunnel([readings], self.threshold, resamples=0)
        if found.start is None:
            return missing(found.reason)
        layer = float(layer_numbers(readings)[found.start.index])
        return layer / readings.conventions["layer_count"] if self.share else layer

    def spread(self, readings: Readings) -> tuple[float, float]:
        """The interval of the start over test samples; of a share at least half a layer to either side."""
        found, numbers = mean_tunnel([readings], self.threshold), layer_numbers(readings)
        middle = replace(self, share=False)(readings)
        ends = [middle, *(float(numbers[end.index]) for end in (found.low, found.high) if end is not None)]
        if not self.share:
            return min(ends), max(ends)
        count = readings.conventions["layer_count"]
        return (min(ends) - 0.5) / count, (max(ends) + 0.5) / count


@dataclass(frozen=True)
class LayerReaching(RunNumber):
    """The layer, as the paper counts layers, that is the first whose probe reaches an accuracy."""

    bar: float
    measure: str = "probe"

    def __str__(self) -> str:
        return f"first layer at an accuracy of {self.bar:.0%}"

    def __call__(self, readings: Readings) -> float:
        curve, layers = _curve(readings, self.measure, None), list(layer_numbers(readings).values())
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
class OverTraining(RunNumber):
    """One number of a measure's values [place, step] during training, and of where the tunnel starts.

    `reduce(values, start)` gets the number of the extractor's layers.
    """

    measure: str
    reduce: Callable[[facts.Array, int], float]
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
    reduce: Callable[[facts.Array], float]

    def __call__(self, readings: Readings) -> float:
        matrix = readings.arrays.get(self.measure)
        if matrix is None:
            raise ReadingsError(f"{self.measure} was not read")
        count = readings.conventions["layer_count"]
        kept = [spot for spot, layer in enumerate(layer_numbers(readings).values()) if layer < count]
        return self.reduce(matrix[np.ix_(kept, kept)])


@dataclass(frozen=True)
class _Derived(RunNumber):
    """A function of other numbers; the first that is NaN gives the reason."""

    name: str
    combine: Callable[..., float]
    parts: tuple[RunNumber, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(measure for part in self.parts for measure in part.measures)

    def __call__(self, readings: Readings) -> float:
        values = [part(readings) for part in self.parts]
        return next((value for value in values if np.isnan(value)), None) or self.combine(*values)

    def spread(self, readings: Readings) -> tuple[float, float] | None:
        spreads = [part.spread(readings) for part in self.parts]
        if not any(spreads):
            return None
        ends = product(*(one or (part(readings),) for one, part in zip(spreads, self.parts, strict=True)))
        corners = [self.combine(*values) for values in ends]
        return min(corners), max(corners)


def derived(name: str, combine: Callable[..., float], *parts: RunNumber) -> RunNumber:
    """A function of other numbers, under a name of its own."""
    return _Derived(name, combine, parts)


def first(measure: str, data: str | None = None) -> RunNumber:
    """A measure at the first place."""
    return At(measure, 0, data)


def last(measure: str, data: str | None = None) -> RunNumber:
    """A measure at the last place."""
    return At(measure, -1, data)


def hidden(measure: str, data: str | None = None) -> RunNumber:
    """A measure at the last place before the output."""
    return At(measure, None, data)


def best(measure: str, data: str | None = None) -> RunNumber:
    """The highest value over depth."""
    return Over(measure, np.nanmax, data)


def drop(measure: str, data: str | None = None) -> RunNumber:
    """The decrease from the best value to the last place before the output: max - hidden."""
    return best(measure, data) - hidden(measure, data)


QUANTITIES: dict[str, RunNumber] = {
    "accuracy": Whole("accuracy"),
    "top5": Whole("top5"),
    "loss": Whole("loss"),
    "tunnel_start": TunnelLayer(0.95),
}
"""quantities that claims of any recipe may name"""


def resolved(quantity: str | Quantity, known: Quantities) -> tuple[Quantity, str]:
    """A quantity and its name in words; a string names one of the recipe's, or one that every recipe has."""
    if not isinstance(quantity, str):
        return quantity, str(getattr(quantity, "__name__", quantity)).replace("_", " ")
    found = known.get(quantity) or QUANTITIES.get(quantity)
    if found is None:
        names = [*known, *QUANTITIES]
        hint = did_you_mean(quantity, names) or f"; there are {', '.join(names)}"
        raise ValueError(f"there is no quantity {quantity!r}{hint}")
    return found, quantity.replace("_", " ")


def _on(data: str | None) -> str:
    return "" if data is None else " on OOD data" if data in (OOD, LAST_OOD) else f" on {data}"


def _ratio(left: float, right: float) -> float:
    return left / right if right else missing("the divisor is 0")


def _data(readings: Readings, data: str | None) -> str:
    if data is None:
        return facts.home(readings)
    if data not in (OOD, LAST_OOD):
        return data
    others = facts.others(readings)
    if not others:
        raise ReadingsError(_unread(readings, "probe", data))
    return others[0 if data == OOD else -1]


def _curve(readings: Readings, measure: str, data: str | None) -> facts.Array:
    name = None if data is None else _data(readings, data)
    if not facts.at(readings, measure, name):
        raise ReadingsError(_unread(readings, measure, data))
    return facts.column(readings, measure, name)


def _hidden(readings: Readings) -> list[int]:
    """The positions of all places except the network's output, which is its last layer by number."""
    count, numbers = readings.conventions.layer_count, layer_numbers(readings)
    places = facts.places(readings)
    return [spot for spot, place in enumerate(places) if count is None or numbers[place.index] < count] or [-1]


def _unread(readings: Readings, measure: str, data: str | None) -> str:
    """The reason why a reading is missing, from the run's notes, such as data that was not available."""
    told = readings.conventions.not_run or {}
    why = "; ".join(f"{name}: {reason}" for name, reason in told.items())
    return f"{measure}{_on(data)} was not read" + (f" ({why})" if why else "")


def _note(readings: Readings, measure: str, data: str | None) -> str:
    rows = facts.at(readings, measure, None if data is None else _data(readings, data))
    return next((row.note for row in reversed(rows) if row.note), "it was read as NaN")
