"""Where on the axes of an experiment a run lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Label = str | int | float | bool
"""A value on an axis, as written on a command line and in a table."""


class Point(Mapping[str, Label]):
    """One value per axis; immutable and hashable, so that runs can be looked up by it.

    >>> point = Point(alpha=0.6, blocks=8)
    >>> point | {"alpha": 1.0} == Point(alpha=1, blocks=8), str(point)
    (True, 'alpha 0.6, blocks 8')
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Label] | None = None, /, **more: Label) -> None:
        self._values: dict[str, Label] = {**(values or {}), **more}

    def __getitem__(self, axis: str) -> Label:
        return self._values[axis]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == (other._values if isinstance(other, Point) else other)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __or__(self, other: Mapping[str, Any]) -> Point:
        return Point({**self._values, **other})

    def without(self, *axes: str) -> Point:
        """The same point seen without some axes."""
        return Point({axis: value for axis, value in self._values.items() if axis not in axes})

    def lies_at(self, values: Mapping[str, Any]) -> bool:
        """Whether the point has these values."""
        own = self._values
        return all(axis in own and own[axis] == value for axis, value in values.items())

    def __str__(self) -> str:
        return ", ".join(f"{axis.replace('_', ' ')} {shown(value)}" for axis, value in self.items()) or "all"

    def __repr__(self) -> str:
        return f"Point({', '.join(f'{axis}={value!r}' for axis, value in self.items())})"


def brief(point: Point) -> str:
    """A point as a sentence names it: texts by themselves, numbers with their axis.

    >>> brief(Point(network="vgg19", alpha=0.6))
    'vgg19, alpha 0.6'
    """
    return ", ".join(shown(one) if isinstance(one, str) else str(Point({axis: one})) for axis, one in point.items())


def shown(label: Label) -> str:
    """A value as a table shows it."""
    return f"{label:g}" if isinstance(label, float) else str(label).replace("_", " ")
