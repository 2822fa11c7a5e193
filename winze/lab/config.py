"""Frozen dataclasses as settings: replace fields by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from winze.hints import nearest
from winze.train.fields import FieldError, check_type, hints_of


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
            check_type(made[first], hints_of(type(config))[first], f"{type(config).__name__}.{first}")
    return {**config, **made} if isinstance(config, Mapping) else replace(config, **made)
