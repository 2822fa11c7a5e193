"""The kept runs that pages show: those of each recipe that are no smoke tests and not of digits."""

import re
from functools import cache
from pathlib import Path

from winze import lab
from winze.lab import Recipe
from winze.lab.claims.claim import Judged, RunReadings
from winze.lab.claims.table import is_stand_in, lines
from winze.lab.runs.results import ByPoint, load, readings_of

ROOT = Path(__file__).parents[2]
PAPERS = {
    "residual_droppath": "ResidualDroppath",
    "decayed": "Decayed shortcuts",
    "tunnel": "The tunnel effect",
    "temperature": "Softmax temperature",
    "generative": "Generative representations",
    "synthetic": "Synthetic data",
    "erosion": "Feature erosion",
}
"""What a page is called, by the first part of its recipes' names."""


@cache
def recipes() -> dict[str, list[Recipe]]:
    """The recipes of each paper."""
    found: dict[str, list[Recipe]] = {}
    for name, one in lab.recipes().items():
        found.setdefault(name.split("/")[0], []).append(one)
    return {paper: found[paper] for paper in dict.fromkeys((*PAPERS, *found)) if paper in found}


@cache
def kept_of(recipe_name: str, results: Path) -> ByPoint:
    """Every kept run of a recipe by scale, point and seed."""
    return load(lab.recipe(recipe_name), results)


@cache
def runs_of(recipe_name: str, results: Path) -> dict[str, RunReadings]:
    """The readings of a recipe by scale, in the order of its scales; smoke tests and digits are not shown."""
    recipe = lab.recipe(recipe_name)
    kept = kept_of(recipe_name, results)
    real = [scale for scale in recipe.scales if scale in kept and scale != "smoke" and not is_stand_in(recipe, scale)]
    return {scale: readings_of(kept[scale]) for scale in real}


@cache
def lines_of(recipe_name: str, results: Path) -> list[Judged]:
    """Every statement of a recipe at every scale that is shown."""
    return lines(lab.recipe(recipe_name), runs_of(recipe_name, results))


def largest(recipe_name: str, results: Path) -> tuple[str, RunReadings]:
    """The shown scale with most points, and its readings; of equals the one nearest to the paper."""
    shown = runs_of(recipe_name, results)
    scale = max(shown, key=lambda one: (len(shown[one]), list(shown).index(one)), default="")
    return scale, shown.get(scale, {})


def in_words(recipe: Recipe, text: str) -> str:
    """A text with the recipe's axes as readers know them: `rate`, which is short for `--at`, as a learning rate."""
    rates = [name for name, axis in recipe.axes.items() if axis.field == "training.optimizer.lr"]
    return re.sub(rf"\b(?<!learning )({'|'.join(rates)})(?= [\d.]|$)", "learning rate", text) if rates else text
