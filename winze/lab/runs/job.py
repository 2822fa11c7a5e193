"""A job: one run to do, named by the hash of its content."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from winze.readings import Point

FORMAT = 2  # of a run's folder: jobs of another format have other keys


@dataclass(frozen=True)
class Job:
    """A recipe's point at a scale with one seed; `config` is the argument of the recipe's work. `file`: the Python file
    of a recipe outside the package.
    """

    recipe: str
    scale: str
    point: Point
    seed: int
    config: Any
    file: str = ""

    @property
    def key(self) -> str:
        """16 hexadecimal digits of the SHA-256 of everything that determines the result: equal work has equal keys."""
        return key_of(self.recipe, plain(self.config), self.seed)

    def __str__(self) -> str:
        return f"{self.recipe} {self.scale} {self.point} seed {self.seed}"

    def __reduce__(self) -> tuple[Any, ...]:
        """A job of a recipe outside the package holds its file, which another process loads before the config."""
        parts = tuple(getattr(self, field.name) for field in fields(self))
        return (_loaded, (self.file, pickle.dumps(parts))) if self.file else (Job, parts)


def _loaded(file: str, parts: bytes) -> Job:
    from winze.lab.recipe import from_file

    from_file(file)
    return Job(*pickle.loads(parts))


def key_of(recipe: str, config: Any, seed: int) -> str:
    """The key of a run from its recipe, its settings as `plain` writes them, and its seed."""
    return digest({"recipe": recipe, "config": config, "seed": seed, "format": FORMAT})[:16]


def digest(value: Any) -> str:
    """The SHA-256 of a plain value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def plain(value: Any, where: str = "config") -> Any:
    """A config as JSON: a dataclass is its fields and the name of its type; 1.0 is 1."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return plain(value.value, where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(float(value))
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _mapping(value, where)
    if is_dataclass(value) and not isinstance(value, type):
        inside = {field.name: getattr(value, field.name) for field in fields(value)}
        if "type" in inside:
            raise ValueError(f"{where}: {type(value).__name__} may not have a field named type")
        return {"type": type(value).__qualname__} | _mapping(inside, where)
    raise ValueError(
        f"{where} is a {type(value).__name__}: a run is named after its config, which therefore holds numbers, "
        "strings, tuples, dicts and frozen dataclasses only"
    )


def _mapping(value: Mapping[Any, Any], where: str) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{where}: the key {key!r} is not a string")
    return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
