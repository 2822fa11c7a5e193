"""`winze list`: the recipes. (A module named `list` would hide Python's own in this package.)"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from winze.lab import Recipe
    from winze.lab.claims import Runs


@dataclass(frozen=True)
class List:
    """List the recipes: system, paper, what each shows, its scales, the last verdicts; or one with all its claims."""

    recipe: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RECIPE]")] = None
    """one recipe, such as tunnel/main, with every claim"""
    results: Path = Path("results")
    """the folder of kept readings that verdicts rest on"""
    runs: Path = Path("runs")
    """the folder of your own runs"""

    def run(self) -> None:
        from winze.lab import recipe, recipes

        chosen = recipes() if self.recipe is None else {self.recipe: recipe(self.recipe)}
        parts = [self._told(one) for one in chosen.values()]
        sys.stdout.write("\n".join(parts))

    def _told(self, recipe: Recipe) -> str:
        """What there is to say of a recipe, in a few lines."""
        from winze.lab.results import ResultsError, finished, load, readings_of

        scales = [
            f"{name} ({_count(len(recipe.arms_at(name)), 'arm')} x {_count(len(scale.seeds), 'seed')})"
            for name, scale in recipe.scales.items()
        ]
        kept, damage = {}, ""
        try:
            kept = {scale: readings_of(runs) for scale, runs in load(recipe, self.results).items()}
        except ResultsError as error:
            if self.recipe is not None:
                raise
            damage = str(error)
        lines = [
            f"{recipe.name} ({recipe.system}): {recipe.shows}",
            f"  paper     {recipe.paper}, {recipe.url}",
            f"  scales    {', '.join(scales)}",
            f"  verdicts  {damage or _tallies(recipe, kept) or 'no readings are kept yet'}",
        ]
        own = _tallies(recipe, finished(recipe, self.runs, lambda why: _tell(f"winze: {why}\n")))
        lines += [f"  {self.runs}: {own}"] if own else []
        if self.recipe is not None:
            lines += [f"  departs   {one}" for one in recipe.departures]
            for scale in recipe.scales:
                told = recipe.verdicts(scale, kept.get(scale, {}))
                lines += [f"  {scale + ':':<9} {claim.text}: {verdict}" for claim, verdict in told]
        return "".join(f"{line}\n" for line in lines)


def _tallies(recipe: Recipe, by_scale: Mapping[str, Runs]) -> str:
    """How many verdicts of each kind at each scale that was run."""
    from winze.lab.verdicts import tally

    told = {scale: recipe.verdicts(scale, runs) for scale, runs in by_scale.items()}
    return "; ".join(f"{scale}: {tally(verdict for _, verdict in one)}" for scale, one in told.items())


def _tell(line: str) -> None:
    sys.stderr.write(line)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
