"""The measures that scans, Watch, tables, figures, pages and docs know: one entry per measure.

A measure is a pure function in a file of its own and an entry here, or an entry of your own that joins by `register`:

    def gap(spectrum):
        return float(spectrum[0] / spectrum[1])

    winze.measure.register(Measure("gap", gap, needs="spectrum", label="spectral gap", bounds=(1, inf)))
    winze.scan(net, train, test, measures=("probe", "gap")).curve("gap")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Literal

from winze.measure.collapse import last_layer_collapse, neural_collapse_of
from winze.measure.norms import frobenius_norm_of, sample_norm_of
from winze.measure.rank import effective_rank_of, numerical_rank_of, participation_ratio_of
from winze.measure.value import Value
from winze.measure.variance import class_variance_of

Need = Literal["moments", "spectrum", "classes", "samples", "pairs", "train", "weights"]
Better = Literal["higher", "lower"]
Bounds = tuple[float, float]

READ = ("moments", "spectrum", "classes", "samples", "pairs")
"""What a measure from outside may need."""
OF_MOMENTS = ("moments", "classes")
SLACK = 1e-6
"""Rounding beyond a bound that is no error."""


@dataclass(frozen=True)
class Number:
    """One number in a table: its label in figures, its bounds, which way is better, and what it means."""

    name: str
    label: str = ""
    bounds: Bounds = (-inf, inf)
    better: Better | None = None
    meaning: str = ""

    @property
    def words(self) -> str:
        """The label, or the name with spaces."""
        return self.label or self.name.replace("_", " ")

    def checked(self, value: float) -> Value:
        """The value with its note; a value outside the bounds says so."""
        note = getattr(value, "note", "")
        low, high = self.bounds
        slack = SLACK * max(1.0, abs(float(value)))
        if isfinite(value) and not low - slack <= value <= high + slack:
            note = note or f"outside its bounds, {low:g} to {high:g}"
        return Value(float(value), note)


@dataclass(frozen=True)
class Measure:
    """What `scan(measures=...)` and `Watch(measures=...)` take by name, and the numbers that it gives at every place.

    `of` gets what the measure `needs` and gives one number, several in the order of `gives`, or a mapping by name:

        moments    `Moments` of the place's features over the test samples
        classes    the same, with means and scatter per class
        spectrum   the eigenvalues of their covariance, largest first
        samples    the features of the first test samples, and their labels
        pairs      CKA between all places; `of` gives one number per place

    `train` (probes) and `weights` are read by scan and Watch themselves. `of_last_layer` gets the `LastLayer` that the
    network ends in. A measure of one number has its label, bounds and direction itself.
    """

    name: str
    of: Callable[..., Any] | None = None
    needs: Need = "moments"
    label: str = ""
    bounds: Bounds = (-inf, inf)
    better: Better | None = None
    meaning: str = ""
    gives: tuple[Number, ...] = ()
    of_last_layer: Callable[..., Mapping[str, float]] | None = None

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Every number that it gives."""
        return self.gives or (Number(self.name, self.label, self.bounds, self.better, self.meaning),)

    def read(self, *given: Any) -> dict[str, Value]:
        """The numbers of one place by name, from what the measure needs."""
        assert self.of is not None
        return self._named(self.of(*given))

    def read_last_layer(self, layer: Any) -> dict[str, Value]:
        """The numbers of the layer that the network ends in."""
        return {} if self.of_last_layer is None else self._named(self.of_last_layer(layer))

    def read_pairs(self, matrix: Any) -> dict[str, list[Value]]:
        """One number per place, from CKA between all of them; nothing for CKA itself."""
        if self.of is None:
            return {}
        number, values = self.numbers[0], [float(value) for value in self.of(matrix)]
        if len(values) != len(matrix):
            raise ValueError(f"the measure {self.name!r} gave {len(values)} numbers for {len(matrix)} places")
        return {number.name: [number.checked(value) for value in values]}

    def _named(self, found: Any) -> dict[str, Value]:
        known = {number.name: number for number in self.numbers}
        if not isinstance(found, Mapping):
            values: Sequence[Any] = found if isinstance(found, tuple | list) else (found,)
            if len(values) != len(known):
                raise ValueError(f"the measure {self.name!r} gave {len(values)} numbers, expected {', '.join(known)}")
            found = dict(zip(known, values, strict=True))
        if strange := [name for name in found if name not in known]:
            raise ValueError(f"the measure {self.name!r} gave {', '.join(strange)}, which is not in gives=")
        return {name: known[name].checked(value) for name, value in found.items()}


def _collapse(moments: Any) -> dict[str, Value]:
    signs = neural_collapse_of(moments)
    return {"nc1": signs.nc1, "nc2_norm": signs.nc2_norm, "nc2_angle": signs.nc2_angle}


def _ranks(spectrum: Any) -> tuple[Value, Value, Value]:
    return numerical_rank_of(spectrum), effective_rank_of(spectrum), participation_ratio_of(spectrum)


def _norms(moments: Any) -> tuple[Value, Value]:
    return sample_norm_of(moments), frobenius_norm_of(moments)


PROBE = Measure(
    "probe", needs="train", label="probe accuracy", bounds=(0, 1), better="higher",
    meaning="test accuracy of a linear probe on the place's features, with a Wilson interval",
)  # fmt: skip
RANK = Measure(
    "rank", _ranks, "spectrum",
    gives=(
        Number("numerical_rank", "numerical rank", (1, inf),
               meaning="singular values of the centred features whose square exceeds 1e-3 of the largest"),
        Number("effective_rank", "effective rank", (0, inf),
               meaning="entropy of the normalised covariance spectrum (not its exponential)"),
        Number("participation_ratio", "participation ratio", (1, inf), meaning="(Σλ)² / Σλ²"),
    ),
)  # fmt: skip
CKA = Measure(
    "cka", needs="pairs",
    gives=(
        Number("cka_to_reference", "CKA to the reference", (-1, 1),
               meaning="`scan.cka`: unbiased minibatch CKA of all pairs of places; in a Watch, of each place to itself "
                       "in the reference network"),
    ),
)  # fmt: skip
VARIANCE = Measure(
    "variance", class_variance_of, "classes",
    gives=(
        Number("intra_variance", "variance within classes", (0, inf),
               meaning="mean squared distance to the class mean"),
        Number("inter_variance", "variance between classes", (0, inf),
               meaning="mean squared distance between class means"),
    ),
)  # fmt: skip
COLLAPSE = Measure(
    "collapse", _collapse, "classes", of_last_layer=last_layer_collapse,
    gives=(
        Number("nc1", "collapse NC1", (0, inf), "lower", "within-class scatter in the directions of the class means"),
        Number("nc2_norm", "collapse NC2 (norms)", (0, inf), "lower", "spread of the lengths of the class means"),
        Number("nc2_angle", "collapse NC2 (angles)", (0, 2), "lower", "distance of their angles from a simplex"),
        Number("nc3", "collapse NC3", (0, 4), "lower",
               "distance of the network's last linear layer from the class means"),
        Number("nc4", "collapse NC4", (0, 1), "lower",
               "share of test samples that the last layer assigns to another class than the nearest class mean of the "
               "train data"),
    ),
)  # fmt: skip
NORM = Measure(
    "norm", _norms,
    gives=(
        Number("sample_norm", "norm of features", (0, inf), meaning="mean length of a sample's features"),
        Number("frobenius_norm", bounds=(0, inf), meaning="length of the whole feature matrix"),
    ),
)  # fmt: skip
WEIGHT_CHANGE = Measure(
    "weight_change", needs="weights", label="weight change", bounds=(0, inf),
    meaning="RMS change of each weight tensor since it was last read (Watch only)",
)  # fmt: skip

OURS: Mapping[str, Measure] = {
    one.name: one for one in (PROBE, RANK, CKA, VARIANCE, COLLAPSE, NORM, WEIGHT_CHANGE)
}  # fmt: skip
MEASURES: dict[str, Measure] = dict(OURS)
"""Every measure by name, in the order of tables; `register` adds to it."""

ALWAYS = (
    Number("accuracy", "accuracy", (0, 1), "higher", "the network's own test accuracy"),
    Number("features", "width (features)", (1, inf)),
    Number("cut_seconds", "seconds per batch of the cut network", (0, inf), "lower"),
    Number("cut_flops", "FLOPs of the cut network", (0, inf), "lower"),
    Number("cut_parameters", "parameters of the cut network", (0, inf), "lower"),
    Number("cut_speed_up", "speed-up of the cut network", (0, inf), "higher"),
    Number("cka_drift", "CKA drift from the first task", (0, 2), "lower"),
    Number("cka_to_input", "CKA to the input", (-1, 1)),
    Number("input_reconstruction", "R² of the input, linearly", (-inf, 1), "higher"),
    Number("alike_groups", "groups of similar nodes", (0, inf)),
)
"""Numbers that are read without being asked for by the name of a measure."""


def register(measure: Measure) -> Measure:
    """Let a measure join: scans, Watch, tables, summaries, figures and pages then know it by its name.

    One that was registered before under this name is replaced; those of winze cannot be.
    """
    if not isinstance(measure, Measure):
        raise TypeError(f"a measure is a winze.measure.Measure(name, function, ...), got {measure!r}")
    if not measure.name or not measure.name.replace("_", "").isalnum():
        raise ValueError(f"a measure's name is made of letters, digits and _, not {measure.name!r}")
    taken = {number.name: one.name for one in MEASURES.values() if one.name != measure.name for number in one.numbers}
    taken |= {number.name: "winze" for number in ALWAYS} | dict.fromkeys(OURS, "winze")
    for name in (measure.name, *(number.name for number in measure.numbers)):
        if name in taken:
            raise ValueError(f"{name!r} is taken ({taken[name]}): give the measure {measure.name!r} another name")
    if measure.needs not in READ:
        raise ValueError(f"{measure.name}: needs= is one of {', '.join(READ)}, not {measure.needs!r}")
    if measure.of is None:
        raise ValueError(f"{measure.name}: of= is missing, the function that gives its numbers")
    if measure.needs == "pairs" and len(measure.numbers) > 1:
        raise ValueError(f"{measure.name}: a measure of pairs gives one number per place")
    MEASURES[measure.name] = measure
    return measure


def measures_for(watch: bool = False) -> list[str]:
    """The names that a scan takes, or with `watch` those that a Watch takes."""
    unread = "pairs" if watch else "weights"
    return [name for name, one in MEASURES.items() if one.needs != unread or (watch and one is CKA)]


def chosen(names: Iterable[str], needs: Iterable[str] = ()) -> list[Measure]:
    """The measures of these names in the order of tables; with `needs`, those that need one of these."""
    wanted, kinds = set(names), set(needs)
    return [one for name, one in MEASURES.items() if name in wanted and (not kinds or one.needs in kinds)]


def number_named(name: str) -> Number:
    """The entry of a number in a table; for an unregistered one, its name alone."""
    for number in (*ALWAYS, *(each for one in MEASURES.values() for each in one.numbers)):
        if number.name == name:
            return number
    if name.startswith("last_"):
        return Number(name, f"{number_named(name.removeprefix('last_')).words}, last block")
    return Number(name)


def is_ours(name: str) -> bool:
    """Whether a number comes from winze itself and not from a measure that joined."""
    return any(number.name == name for number in (*ALWAYS, *(each for one in OURS.values() for each in one.numbers)))
