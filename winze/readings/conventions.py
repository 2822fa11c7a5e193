"""The conventions behind readings: each has one name and one type in every file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from winze.readings.rows import ReadingsError

IsValid = Callable[[Any], bool]


def _is(*kinds: type) -> IsValid:
    return lambda value: type(value) in kinds


def _all(check: IsValid) -> IsValid:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _each(check: IsValid) -> IsValid:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _has(**checks: IsValid) -> IsValid:
    return lambda value: isinstance(value, dict) and all(check(value.get(name)) for name, check in checks.items())


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _distinct(value: Any) -> bool:
    return _all(_text)(value) and len(set(value)) == len(value) > 0


_text, _words = _is(str), _all(_is(str))
CHECKS: dict[str, IsValid] = {
    "network": _text,
    "fingerprint": _each(_text),
    "data": _text,
    "ood": _words,
    "places": _distinct,
    "layouts": _all(lambda value: _all(_count)(value) and len(value) == 2 and value[0] < 16),
    "outputs": _all(_count),
    "labels": _all(_count),
    "pool": _is(str, int),
    "probe": _text,
    "measures": _words,
    "batch": _count,
    "classes": _words,
    "class_count": _count,
    "rank": _has(max_features=_count),
    "seed": _is(int),
    "example": lambda value: _all(_count)(value) and math.prod(value) < 1 << 31,
    "embedding": _text,
    "kept": _text,
    "notes": _words,
    "layers": _each(_all(_count)),
    "layer_count": _count,
    "unread": _each(_text),
    "chance": _each(_is(int, float)),
    "relabelled_accuracy": _is(int, float),
    "cka": _is(dict),
    "cka_notes": _words,
    "every": _count,
    "every_epoch": _count,
    "memory_format": _text,
    "dtype": _text,
    "limit": _count,
    "device": _text,
    "versions": _each(_text),
    "seconds": _is(int, float),
    "not_run": _each(_text),
}
"""What a file may say of each; networks and data are built from the rest, which check it themselves."""


@dataclass(frozen=True, eq=False)
class Conventions(Mapping[str, Any]):
    """What is said once about all readings of a scan or run; None is unsaid, `more` holds what others add.

    Also a mapping of what is said, for tables and files. It is filled when a scan is made (`scan(about=...)`) or by
    `Readings.declare`, and never edited.
    """

    # whose readings
    network: str | None = None
    fingerprint: dict[str, str] | None = None
    data: str | None = None
    ood: list[str] | None = None
    # where they were read
    places: list[str] | None = None
    layouts: list[Any] | None = None
    outputs: list[int] | None = None
    labels: list[int] | None = None
    layers: dict[str, Any] | None = None
    layer_count: int | None = None
    unread: dict[str, str] | None = None
    # how
    pool: str | int | None = None
    probe: str | None = None
    measures: list[str] | None = None
    samples: Any = None
    batch: int | None = None
    classes: list[str] | None = None
    class_count: int | None = None
    chance: dict[str, float] | None = None
    relabelled_accuracy: float | None = None
    cka: dict[str, Any] | None = None
    cka_notes: list[str] | None = None
    rank: dict[str, Any] | None = None
    every: int | None = None
    every_epoch: int | None = None
    seed: int | None = None
    example: list[int] | None = None
    embedding: str | None = None
    memory_format: str | None = None
    dtype: str | None = None
    # on what, and with what
    preprocess: Any = None
    weights: Any = None
    limit: int | None = None
    training: Any = None
    spec: Any = None
    kept: str | None = None
    device: str | None = None
    versions: dict[str, str] | None = None
    seconds: float | None = None
    # what else there is to know
    notes: list[str] | None = None
    not_run: dict[str, str] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Mapping[str, Any], path: Path | None = None) -> Conventions:
        """Conventions from a mapping; raise where one that winze writes is of another type than it writes."""
        if isinstance(said, Conventions):
            return said
        at = "" if path is None else f"{path}: "
        known: dict[str, Any] = {}
        more: dict[str, Any] = {}
        for name, value in said.items():
            if value is None:
                continue
            name = RENAMED.get(name, name)
            if name in NAMES:
                known[name] = value
            else:
                more[name] = value
            check = CHECKS.get(name)
            if check is not None and not check(value):
                shown = repr(value)
                raise ReadingsError(f"{at}the convention {name} cannot be {shown[:60]}{'...' * (len(shown) > 60)}")
        return cls(**known, more=more)

    def check_lengths(self, path: Path) -> None:
        """Raise where what is said of each place is not said of all."""
        total = len(self.places or [])
        for name in ("layouts", "outputs"):
            if name in self and len(self[name]) != total:
                raise ReadingsError(f"{path}: there are {total} places, but not as many {name}")

    def having(self, **said: Any) -> Conventions:
        """The same with other values for some; None takes one away."""
        return Conventions.of({**self, **said})

    def joined(self, other: Mapping[str, Any]) -> Conventions:
        """What both say: notes add up, and all else that both say must agree."""
        theirs = Conventions.of(other)
        for name in self.keys() & theirs.keys() - {"notes"}:
            if self[name] != theirs[name]:
                pair = f"{self[name]!r} and {theirs[name]!r}"
                raise ReadingsError(f"the two readings follow different conventions: {name} is {pair}")
        whole = {**self, **theirs}
        if "notes" in whole:
            whole["notes"] = list(dict.fromkeys([*(self.notes or []), *(theirs.notes or [])]))
        return Conventions.of(whole)

    def __getitem__(self, name: str) -> Any:
        value = getattr(self, name) if name in NAMES else self.more.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in NAMES if getattr(self, name) is not None)
        yield from self.more

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __setitem__(self, name: str, value: object) -> None:
        raise TypeError(
            f"conventions are not edited: use scan(about={{{name!r}: ...}}) or readings.declare({name}=...)"
        )

    def update(self, *_: object, **said: object) -> None:
        """Refuse: conventions are said once."""
        self.__setitem__(next(iter(said), "name"), None)


RENAMED = {"pictures": "memory_format"}
"""What files of an older winze call a convention."""
NAMES = tuple(one.name for one in fields(Conventions) if one.name != "more")
"""Every convention that winze writes."""
