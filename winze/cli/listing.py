"""`winze list`: the recipes. (A module named `list` would hide Python's own in this package.)"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from winze.cli.option import option
from winze.readings.point import Point, shown

if TYPE_CHECKING:
    from winze.lab import Recipe
    from winze.lab.claims.claim import RunReadings


@dataclass(frozen=True)
class ListVerb:
    """List the recipes: paper, what each shows, its axes and scales, and how many claims have which verdict."""

    recipe: Annotated[str | None, tyro.conf.Positional, option("[RECIPE]", "all")] = None
    """one recipe, such as tunnel/main, or a file of your own, such as my_recipe.py, with its points and every claim"""
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """the folder of kept readings that verdicts rest on"""
    runs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """the folder of your own runs"""

    def run(self) -> None:
        from winze.lab import recipe, recipes

        chosen = recipes() if self.recipe is None else {self.recipe: recipe(self.recipe)}
        parts = ("".join(f"{line}\n" for line in self._lines(one)) for one in chosen.values())
        sys.stdout.write("\n".join(parts))
        if not self.results.is_dir():
            _tell(f"winze: there is no folder {self.results} of kept readings here: --results names it\n")

    def _lines(self, recipe: Recipe) -> Iterator[str]:
        """What there is to say of a recipe."""
        from winze.lab.claims.table import counted, is_stand_in, nearest
        from winze.lab.runs.results import ResultsError, finished, load, readings_of

        kept: dict[str, RunReadings] = {}
        damage = ""
        try:
            kept = {scale: readings_of(runs) for scale, runs in load(recipe, self.results).items()}
        except ResultsError as error:
            if self.recipe is not None:
                raise
            damage = str(error)
        yield ": ".join(filter(None, (f"{recipe.name} ({recipe.system})", recipe.shows)))
        yield f"  paper     {', '.join(filter(None, (recipe.paper, recipe.url)))}"
        for name, axis in recipe.axes.items():
            field = f" ({axis.field})" if axis.field else ""
            yield f"  axis      {name}{field}: {', '.join(map(str, axis.labels))}"
        sizes = (
            f"{name} ({_count(len(recipe.grid(name).points), 'point')} x {_count(len(scale.seed_numbers), 'seed')})"
            for name, scale in recipe.scales.items()
        )
        yield f"  scales    {', '.join(sizes)}"
        yield f"  verdicts  {damage or counted(nearest(recipe, kept)) or 'there are no claims'}"
        on_digits = {scale: runs for scale, runs in kept.items() if is_stand_in(recipe, scale)}
        if on_digits:
            more = f": `winze list {recipe.name}` has the verdicts" if self.recipe is None else ""
            yield f"  digits    {_runs(on_digits)}, not counted{more}"
        own = finished(recipe, self.runs, lambda why: _tell(f"winze: {why}\n"))
        if own:
            only_digits = all(is_stand_in(recipe, scale) for scale in own)
            verdicts = "on digits, not counted" if only_digits else counted(nearest(recipe, own))
            yield f"  {self.runs}: {_runs(own)}; {verdicts}"
        if self.recipe is not None:
            yield from self._details(recipe, kept or own)

    def _details(self, recipe: Recipe, kept: Mapping[str, RunReadings]) -> Iterator[str]:
        """Points, departures, claims with their cells, and failed runs: of kept readings, else of one's own runs."""
        from winze.lab.claims.table import failures, lines

        for scale, one in recipe.scales.items():
            yield from (f"  {scale + ':':<9} {point}" for point in _points(recipe.grid(scale).points))
            yield from (f"  departs   {scale}: {why}" for why in one.departures)
        yield from (f"  departs   {one}" for one in recipe.departures)
        for line in lines(recipe, kept):
            source = getattr(line.statement, "source", "") or "question"
            at = f" at scale {line.scale}" if line.scale else ""
            yield f"  {line.word}{at}: {line.statement.text} [{source}]"
            yield from (f"    {one}" for one in line.told)
        for scale, runs in kept.items():
            yield from (f"  failed    {scale}: {why}" for why in failures(recipe, runs))


def _points(points: Sequence[Point]) -> list[str]:
    """The values of each axis where every combination runs, else every point."""
    values = {axis: dict.fromkeys(point[axis] for point in points) for axis in points[0]}
    if len(points) == math.prod(map(len, values.values())):
        return ["; ".join(f"{axis} {', '.join(map(shown, one))}" for axis, one in values.items()) or "one point"]
    return list(map(str, points))


def _runs(by_scale: Mapping[str, RunReadings]) -> str:
    return ", ".join(
        f"{_count(sum(map(len, runs.values())), 'run')} at scale {scale}" for scale, runs in by_scale.items()
    )


def _tell(line: str) -> None:
    sys.stderr.write(line)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
