"""The outcome of a run as named numbers, and the differences between two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from winze.atomic import StoreError
from winze.lab.runs.store import METRICS, read
from winze.lab.runs.store import readings as stored
from winze.readings import Readings, ReadingsError

COUNTS = ("phase", "epoch", "step", "lr")  # fields of a metrics row that are not outcomes
OutcomeNumbers = Mapping[str, Callable[[Readings], float]]


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`; empty before any training."""
    path = folder / METRICS
    if not path.is_file():
        return []
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not all(isinstance(row["phase"], str) and all(_is_metric(*one) for one in row.items()) for row in rows):
            raise ValueError("a line that is not a row of metrics")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path} was cut short or changed ({error}); remove {folder} and run it again") from error
    return rows


def _is_metric(name: str, value: object) -> bool:
    return name == "phase" or (isinstance(value, int | float) and not isinstance(value, bool))


def finals(folder: Path, quantities: OutcomeNumbers | None = None) -> dict[str, float]:
    """The last metrics of every phase, the given quantities, and the readings of the whole network. For an ensemble,
    numbers are means over its seeds.
    """
    found = {
        f"{row['phase']}: {name}": float(value)
        for row in metrics(folder)
        for name, value in row.items()
        if name not in COUNTS
    }
    told = read(folder)
    if told is None or told.get("status") != "done":
        return found
    runs = stored(folder, told["seed"]).values()
    for name, quantity in (quantities or {}).items():
        try:
            found[name] = fmean(float(quantity(one)) for one in runs)
        except ReadingsError:
            found[name] = math.nan
    whole: dict[str, dict[int, float]] = {}  # by name and seed; of several rows of one name the last counts
    for number, one in enumerate(runs):
        for row in one.rows:
            if not row.place:
                whole.setdefault(" ".join(filter(None, (row.data, row.split, row.measure))), {})[number] = row.value
    return found | {name: fmean(values.values()) for name, values in whole.items()}


def differences(one: Path, other: Path) -> dict[str, tuple[Any, Any]]:
    """Where the settings of two runs differ: `training.lr` -> both values, None where one has no such setting."""
    told = [read(folder) or {} for folder in (one, other)]
    first, second = (_flat({"recipe": t.get("recipe"), "seed": t.get("seed"), **t.get("config", {})}) for t in told)
    pairs = {name: (first.get(name), second.get(name)) for name in (*first, *second)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        parts = (_flat(inner, f"{name}.{key}" if name else key) for key, inner in value.items())
        return {key: inner for part in parts for key, inner in part.items()}
    return {name: value}
