"""What conventions may be: of those that winze writes, each has one type, whoever wrote the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from winze.readings.rows import ReadingsError

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    return lambda value: type(value) in kinds


def _all(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _each(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _has(**checks: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(check(value.get(name)) for name, check in checks.items())


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _distinct(value: Any) -> bool:
    return _all(_text)(value) and len(set(value)) == len(value) > 0


_text, _words = _is(str), _all(_is(str))
CHECKS: dict[str, Check] = {
    "network": _text,
    "fingerprint": _each(_text),
    "data": _text,
    "ood": _words,
    "places": _distinct,
    "layouts": _all(lambda value: _all(_count)(value) and len(value) == 2 and value[0] < 16),
    "outputs": _all(_count),
    "labels": _maybe(_all(_count)),
    "pool": _is(str, int),
    "probe": _text,
    "measures": _words,
    "batch": _count,
    "classes": _maybe(_words),
    "class_count": _count,
    "rank": _has(max_features=_count),
    "notes": _words,
    "seed": _is(int),
    "example": _maybe(lambda value: _all(_count)(value) and math.prod(value) < 1 << 31),
    "embedding": _maybe(_text),
    "kept": _maybe(_text),
}


def check_conventions(conventions: Mapping[str, Any], path: Path) -> None:
    """Raise where a convention that winze writes is of another type than it writes."""
    for name, check in CHECKS.items():
        if name in conventions and not check(conventions[name]):
            said = repr(conventions[name])
            raise ReadingsError(f"{path}: the convention {name} cannot be {said[:60]}{'...' * (len(said) > 60)}")
    total = len(conventions.get("places", []))
    for name in ("layouts", "outputs"):
        if name in conventions and len(conventions[name]) != total:
            raise ReadingsError(f"{path}: there are {total} places, but not as many {name}")
