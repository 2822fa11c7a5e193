"""Numbers of kept runs, as tables show them, alone and beside a paper's."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from winze.lab.members import apart
from winze.lab.recipe import Recipe
from winze.lab.results import Kept, load
from winze.lab.verdicts import NOT_RUN
from winze.readings import ReadingsError

Seeds = Mapping[int, Kept]
NONE = "-"
BESIDE = ["seeds", "ours is of"]
"""The last columns of what `beside` makes."""


def shown(recipe: Recipe, results: Path) -> dict[str, dict[str, dict[int, Kept]]]:
    """A recipe's kept runs by scale and arm, but for those of the smoke tests."""
    return {scale: arms for scale, arms in load(recipe, results).items() if scale != "smoke"}


def quantity(recipe: Recipe, runs: Seeds, name: str) -> list[float]:
    """A quantity of every seed of an arm, each network of a run being one; NaN where it was not read."""
    values = []
    for readings in (read for seed, one in runs.items() for read in apart(seed, one.readings).values()):
        try:
            values.append(float(recipe.quantities[name](readings)))
        except ReadingsError:
            values.append(math.nan)
    return values


def quantities(recipe: Recipe, runs: Seeds) -> dict[str, list[float]]:
    """Every quantity of the recipe, of every seed of an arm."""
    return {name: quantity(recipe, runs, name) for name in recipe.quantities}


def spread(values: list[float], digits: int, factor: float = 1.0) -> str:
    """The mean over seeds, and their standard deviation where there are several."""
    known = [factor * value for value in values if math.isfinite(value)]
    if not known:
        return NONE
    mean = f"{statistics.fmean(known):.{digits}f}"
    return f"{mean} ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else mean


def source(recipe: Recipe, scale: str, arm: str) -> str:
    """The scale, the network and the data that a number is of."""
    config = recipe.config(scale, arm)
    return f"{scale}: `{config.network.removeprefix('winze/')}` on {config.data}"


@dataclass(frozen=True)
class Cell:
    """A place in a paper's table: the arm that stands for it, its name, and the paper's numbers."""

    arm: str
    says: tuple[object, ...]
    paper: tuple[object, ...]
    ours: Callable[[Seeds], Sequence[str]]
    """one number of an arm's runs for each of the paper's"""


def beside(recipe: Recipe, results: Path, cells: Iterable[Cell]) -> Iterator[list[object]]:
    """A line for each cell and scale that ran it, each of the paper's numbers before ours; one line where none did."""
    kept = shown(recipe, results)
    for cell in cells:
        scales = [scale for scale, arms in kept.items() if cell.arm in arms]
        for scale in scales:
            runs = kept[scale][cell.arm]
            both = chain(*zip(cell.paper, cell.ours(runs), strict=True))
            yield [*cell.says, *both, len(runs), source(recipe, scale, cell.arm)]
        if not scales:
            both = chain(*((told, NONE if told == NONE else NOT_RUN) for told in cell.paper))
            yield [*cell.says, *both, NONE, NONE]
