"""Every claim of a recipe as one line: the paper's number, ours, and what it rests on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from winze.lab.claims import Claim, Runs, verdict
from winze.lab.recipe import Recipe
from winze.lab.results import Kept, load, readings_of
from winze.lab.verdicts import NOT_RUN


@dataclass(frozen=True)
class Line:
    """A claim and its verdict, in words."""

    claim: str
    paper: str
    ours: str
    n: str
    scale: str
    machine: str
    date: str
    seconds: str
    word: str
    departure: str


def lines(recipe: Recipe, root: str | os.PathLike[str] = "results") -> list[Line]:
    """A line for each claim at each scale that has kept runs; a claim that has none anywhere gets one, `not run`."""
    kept = load(recipe, root)
    read = {scale: readings_of(runs) for scale, runs in kept.items()}
    found = []
    for claim in recipe.claims:
        scales = [scale for scale in recipe.scales if claim in recipe.claims_at(scale)]
        run = [scale for scale in scales if any(kept.get(scale, {}).get(arm) for arm in claim.check.arms)]
        found += [_line(recipe, claim, scale, kept.get(scale, {}), read.get(scale, {})) for scale in run or scales[-1:]]
    return found


def _line(recipe: Recipe, claim: Claim, scale: str, runs: Mapping[str, Mapping[int, Kept]], read: Runs) -> Line:
    told = verdict(claim, read, recipe.quantities)
    own = [one for arm in claim.check.arms for one in runs.get(arm, {}).values()]
    return Line(
        claim=claim.text,
        paper=str(claim.paper),
        ours=told.sentence,
        n=str(told.n) if told.word != NOT_RUN else "-",
        scale=scale,
        machine=", ".join(dict.fromkeys(one.device for one in own)) or "-",
        date=_dates(own),
        seconds=f"{sum(one.seconds for one in own):.0f}" if own else "-",
        word=told.word,
        departure=claim.departure_at(scale),
    )


def _dates(runs: list[Kept]) -> str:
    """The day on which runs were begun, or the first and the last."""
    days = sorted({one.started[:10] for one in runs})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "-"
