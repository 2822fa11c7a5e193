"""Frozen dataclasses as settings: fields hold what their annotations say, and are replaced by name."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from winze.hints import nearest


class FieldError(ValueError):
    """A field that a dataclass does not have, or that holds the wrong kind of value."""


@dataclass(frozen=True)
class Limits:
    """The values that a field may hold, in words and as a test."""

    said: str
    hold: Callable[[Any], bool]


Positive = Annotated[float, Limits("a positive number", lambda value: 0 < value < math.inf)]
NotNegative = Annotated[float, Limits("a finite number of at least 0", lambda value: 0 <= value < math.inf)]
Fraction = Annotated[float, Limits("a number in [0, 1)", lambda value: 0 <= value < 1)]
Count = Annotated[int, Limits("a whole number of at least 1", lambda value: value >= 1)]


class Checked:
    """Base of frozen dataclasses whose fields are checked when one is made."""

    def __post_init__(self) -> None:
        check_types(self)


def _resolved(kind: type) -> dict[str, Any]:
    """The annotations of a class; a name that only the function that defines the class knows may stand for anything."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(kind, localns=unknown or None, include_extras=True)
        except NameError as error:
            unknown[str(error.name)] = Any


_hints: Any = cache(_resolved)  # annotations are resolved once per class


def replaced(config: Any, changes: Mapping[str, Any]) -> Any:
    """The same settings with some fields replaced; `training.batch` is the field of a field, or the key of a mapping.

    Fields of one dataclass are replaced at once, so that dependent ones (a length of training and its warm-up) may come
    in any order.

    >>> from winze.place import Place
    >>> replaced(Place(3, 16, "layer2.0"), {"index": 4})
    Place(index=4, total=16, name='layer2.0')
    """
    inside: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        inside.setdefault(first, {})[rest] = value
    made: dict[str, Any] = {}
    for first, parts in inside.items():
        if isinstance(config, Mapping):
            old = config.get(first, {})
        else:
            known = [field.name for field in fields(config)] if is_dataclass(config) else []
            if first not in known:
                near = nearest(first, known, 0.6) or known
                there = f"there is {', '.join(near)}" if near else "it has no fields"
                raise FieldError(f"{type(config).__name__} has no field {first!r}; {there}")
            old = getattr(config, first)
        made[first] = parts.pop("", old)
        if parts:
            made[first] = replaced(made[first], parts)
        if not isinstance(config, Mapping):
            check_type(made[first], _hints(type(config))[first], f"{type(config).__name__}.{first}")
    return {**config, **made} if isinstance(config, Mapping) else replace(config, **made)


def check_types(config: Any) -> None:
    """Raise unless every field, and every field of fields, holds what its annotation says."""
    hints = _hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        check_type(value, hints[field.name], f"{type(config).__name__}.{field.name}")
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else (value,)
        for inner in parts:
            if is_dataclass(inner) and not isinstance(inner, type | Checked):  # those were checked when they were made
                check_types(inner)


def check_type(value: Any, hint: Any, what: str) -> None:
    """Raise unless the value fits the annotation."""
    if not fits(value, hint):
        raise FieldError(f"{what} must be {_said(hint)}, not {value!r} ({type(value).__name__})")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type, within its bounds; an int is also a float, a bool is no number.

    >>> fits((1, 2), tuple[int, ...]), fits((1, "2"), tuple[int, ...]), fits(True, int), fits(1, float | None)
    (True, False, False, True)
    >>> fits(0.5, Positive), fits(0.0, Positive)
    (True, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is None:
        return value is None
    if origin is Annotated:
        return fits(value, inner[0]) and bool(inner[1].hold(value))
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if isinstance(value, bool):
        return hint in (bool, object)
    if hint is float:
        return isinstance(value, int | float)
    if origin is None:
        return isinstance(value, hint)
    if origin is Callable:
        return callable(value)
    return isinstance(value, origin) and _items_fit(value, origin, inner)


def _items_fit(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    if issubclass(origin, Mapping):
        return all(fits(key, inner[0]) and fits(one, inner[1]) for key, one in value.items())
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return len(value) == len(inner) and all(map(fits, value, inner))
    if issubclass(origin, Collection):
        return all(fits(one, inner[0]) for one in value)
    return True


def _said(hint: Any) -> str:
    """An annotation in words, as `fits` reads it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return str(inner[1].said)
    if origin in (Union, types.UnionType, Literal):
        return " | ".join(map(repr if origin is Literal else _said, inner))
    if origin is tuple:
        return f"tuple[{', '.join(map(_said, inner))}]"
    words = {type(None): "None", Ellipsis: "..."}
    return words.get(hint) or (hint.__name__ if origin is None else str(hint).replace("typing.", ""))
