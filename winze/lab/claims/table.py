"""Claims and questions of a recipe as table rows: at every scale that ran, and at the one nearest to the paper."""

from __future__ import annotations

from collections.abc import Mapping

from winze.lab.claims.claim import Claim, Judged, Question, RunReadings
from winze.lab.claims.verdict import NOT_RUN, tally
from winze.lab.recipe import Recipe

STAND_IN = "digits"  # data for fast development: no tally counts them


def is_stand_in(recipe: Recipe, scale: str) -> bool:
    """Whether a scale trains on digits in place of the paper's data."""
    config = recipe.config(scale, recipe.grid(scale).points[0])
    name = getattr(getattr(config, "data", ""), "name", "")
    return str(name).startswith(STAND_IN)


def lines(recipe: Recipe, runs: Mapping[str, RunReadings]) -> list[Judged]:
    """Every statement at every scale that ran some of it; a statement that was not run has one row without a scale."""
    by_scale = {scale: recipe.verdicts(scale, runs[scale]) for scale in recipe.scales if runs.get(scale)}
    found = []
    for statement in (*recipe.claims, *recipe.questions):
        told = [one for judged in by_scale.values() for one in judged if one.statement is statement]
        found += [line for line in told if line.word != NOT_RUN] or [Judged(statement, ())]
    return found


def nearest(recipe: Recipe, runs: Mapping[str, RunReadings]) -> list[Judged]:
    """Every statement once, at the scale nearest to the paper that ran it; smoke tests and digits do not count."""
    real = {scale: one for scale, one in runs.items() if scale != "smoke" and not is_stand_in(recipe, scale)}
    return largest(lines(recipe, real))


def largest(lines: list[Judged]) -> list[Judged]:
    """For each statement the row at the largest scale, in the order of scales."""
    return list({id(line.statement): line for line in lines}.values())


def counted(lines: list[Judged]) -> str:
    """The number of claims, and separately of questions, with each verdict."""
    parts = []
    for kind, name in ((Claim, "claim"), (Question, "question")):
        words = [line.word for line in lines if isinstance(line.statement, kind)]
        parts += [f"{len(words)} {name}{'s' * (len(words) != 1)}: {tally(words)}"] if words else []
    return "; ".join(parts)


def failures(recipe: Recipe, runs: RunReadings) -> list[str]:
    """The runs that failed to learn, which no verdict counts, each with the reason."""
    return [
        f"{point}, seed {seed}: {why}"
        for point, seeds in runs.items()
        for seed, one in sorted(seeds.items())
        if (why := recipe.failed(one))
    ]
