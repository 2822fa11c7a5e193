"""The table of the erosion runs that are kept, digits too: accuracies before and after the task with squares."""

from pathlib import Path

import numpy as np
from kept_runs import kept_of, recipes
from table_text import table

from winze.lab.runs.results import readings_of
from winze.readings import Point, Readings
from winze.readings.wording import percent

COLUMNS = {
    "original, before": "original after task 0",
    "original, after": "original after task 1",
    "class-coded, after": "correlated after task 1",
}
SHOWN = ("erosion/curves", "erosion/needs", "erosion/ratio")


def erosion(results: Path) -> str:
    """One row per point: means over seeds of the accuracies, on whatever data the runs had."""
    rows = []
    for recipe in (one for one in recipes().get("erosion", []) if one.name in SHOWN):
        for scale, kept in kept_of(recipe.name, results).items():
            if scale == "smoke":
                continue
            for point, seeds in readings_of(kept).items():
                data = recipe.config(scale, point).data.name
                means = [_mean(list(seeds.values()), measure) for measure in COLUMNS.values()]
                rows.append([f"`{recipe.name}`", data, _said(point), str(len(seeds)), *means])
    return table(["recipe", "data", "point", "seeds", *COLUMNS], rows) if rows else ""


def _said(point: Point) -> str:
    return ", ".join(f"{axis.replace('_', ' ')} {label}" for axis, label in point.items())


def _mean(seeds: list[Readings], measure: str) -> str:
    values = [row.value for one in seeds for row in one.rows if row.measure == measure]
    return percent(float(np.mean(values))) if values else "-"
