"""The axes of an experiment, and the grid of points on them that runs at a scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from winze.readings import Label, Point

AxisValues = Mapping[str, tuple[Label, ...]]
"""The values that run, by axis."""


class AxisError(ValueError):
    """An unknown axis or value, or values that do not determine one point."""


@dataclass(frozen=True)
class Axis:
    """One thing that an experiment varies.

        Axis("network.rule.alpha_min", (1.0, 0.8, 0.6))
        Axis("network.rule", {"standard": None, "decayed": DecayedIdentity()})
        Axis("", {"vgg19": {"network.name": "winze/vgg19", "training": VGG}, "mlp12": {...}})

    `field` is the dotted name of the setting in the recipe's study. Values are numbers and strings, or a mapping from a
    label to the value; without a field, to several settings at once. `default`: the value where a claim does not
    mention the axis (None: the first).
    """

    field: str
    values: tuple[Label, ...] | Mapping[Any, Any]
    default: Label | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise AxisError(f"the axis {self.field!r} has no values")
        for label in self.values:
            if not isinstance(label, str | int | float | bool):
                raise AxisError(f"{label!r} cannot name a value: give values= as a mapping from a label to the value")
        if not self.field and not isinstance(self.values, Mapping):
            raise AxisError("an axis without a field maps each label to the settings that it replaces")
        if self.default is not None and self.default not in self.labels:
            raise AxisError(f"the default {self.default!r} is not among the values {', '.join(map(str, self.labels))}")

    @property
    def labels(self) -> tuple[Label, ...]:
        """The values as they are written on a command line."""
        return tuple(self.values)

    @property
    def at_rest(self) -> Label:
        """The value for claims that do not mention the axis."""
        return self.labels[0] if self.default is None else self.default

    def settings(self, label: Label) -> Mapping[str, Any]:
        """The settings that a value replaces, by dotted name."""
        value = self.values[label] if isinstance(self.values, Mapping) else label
        if self.field:
            return {self.field: value}
        assert isinstance(value, Mapping)
        return value


@dataclass(frozen=True)
class Scale:
    """The part of an experiment that runs: replaced settings of the study, values of axes, seeds.

    `settings` (dotted names) replace those of the study before the axes do. `axes`: the values that run (an axis that
    is not named runs all of its values). `only` is a predicate that excludes points. `at`: pairs of (values of axes,
    settings), replaced last at the points that have these values. `seeds`: their number, or a tuple of them.
    `departures`: how this scale differs from the paper.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    axes: AxisValues = field(default_factory=dict)
    seeds: int | tuple[int, ...] = 1
    only: Callable[[Point], bool] | None = None
    at: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = ()
    departures: tuple[str, ...] = ()

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        """The seeds themselves."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


@dataclass(frozen=True)
class PointGrid:
    """The points that run at a scale."""

    axes: Mapping[str, Axis]
    points: tuple[Point, ...]

    @classmethod
    def of(cls, axes: Mapping[str, Axis], scale: Scale) -> PointGrid:
        """Every combination of the values that run at a scale, except those that `only` excludes."""
        values = [scale.axes.get(name, axis.labels) for name, axis in axes.items()]
        points = (Point(dict(zip(axes, one, strict=True))) for one in product(*values))
        return cls(axes, tuple(one for one in points if scale.only is None or scale.only(one)))

    def __contains__(self, point: Point) -> bool:
        return point in self._known

    @cached_property
    def _known(self) -> frozenset[Point]:
        return frozenset(self.points)

    @cached_property
    def _completed(self) -> dict[Point, Point]:
        return {}

    def complete(self, partial: Point) -> Point:
        """The point with these values; every other axis is at its default, or at the one value that runs with them."""
        if partial not in self._completed:  # every statement asks, at every scale
            self._completed[partial] = self._complete(partial)
        return self._completed[partial]

    def _complete(self, partial: Point) -> Point:
        found = [point for point in self.points if point.lies_at(partial)]
        for name, axis in self.axes.items():
            if name in partial or not found:
                continue
            rest = [point for point in found if point[name] == axis.at_rest]
            found = rest or found
        if len(found) > 1:
            raise AxisError(f"{partial} is ambiguous: it may be any of {'; '.join(map(str, found))}")
        if found:
            return found[0]
        return Point({name: partial.get(name, axis.at_rest) for name, axis in self.axes.items()})

    def labels(self, axis: str, partial: Point) -> tuple[Label, ...]:
        """The values of an axis that run with the other values of the point."""
        rest = partial.without(axis)
        known = self.axes[axis].labels if axis in self.axes else ()
        return tuple(label for label in known if self.complete(rest | {axis: label}) in self)
