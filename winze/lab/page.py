"""The page of an experiment: every claim with its verdict, the figures, the numbers, and the departures."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from winze.files import write_atomically
from winze.lab.claims import Claim, Quantity, Runs
from winze.lab.recipe import Draw, Recipe
from winze.lab.verdicts import BORNE_OUT, NOT_BORNE_OUT, NOT_ENOUGH, NOT_RUN, Verdict, tally
from winze.readings import Readings, ReadingsError
from winze.report import style
from winze.report.arms import arm_profiles
from winze.report.figures import folders
from winze.report.names import number
from winze.report.scans import UnreadError
from winze.report.static import Section, picture, section, write_static
from winze.report.tables import conventions_table, hidden, table

HOW = (
    "A claim is borne out where the 95 % interval over seeds lies wholly where it says, not borne out where it lies "
    "wholly elsewhere, and below three seeds nothing is certain. Intervals of differences are Student's t on "
    "differences paired by seed, d is their mean over their deviation (of a level: of its distance from the claimed "
    "one); the start of a tunnel is that of the mean curve, with seeds and, where each sample's answer was kept, test "
    "samples drawn again."
)
MARKS = {BORNE_OUT: "✓", NOT_BORNE_OUT: "✗", NOT_ENOUGH: "?", NOT_RUN: "–"}


def write_report(recipe: Recipe, scale: str, runs: Runs, file: str | os.PathLike[str]) -> Path:
    """Write the page of one scale from its readings by arm and seed; SVG and PNG of its figures go beside it."""
    verdicts = recipe.verdicts(scale, runs)
    counted = ", ".join(f"{arm} x {len(seeds)}" for arm, seeds in runs.items() if seeds) or "no runs"
    paper = f'<a href="{escape(recipe.url)}">{escape(recipe.paper)}</a>' if recipe.url else escape(recipe.paper)
    parts = [
        _verdicts(recipe, scale, verdicts),
        *_figures(recipe, runs, Path(file)),
        _numbers(recipe, runs),
        _departures(recipe, scale),
        _conventions(runs),
    ]
    subtitle = f"{escape(recipe.shows)}<br>{paper}; {escape(recipe.system)}, scale {escape(scale)}: {escape(counted)}"
    title = f"{recipe.name}: {tally(verdict for _, verdict in verdicts)}"
    return write_static(file, title, subtitle, [part for part in parts if part is not None])


def _verdicts(recipe: Recipe, scale: str, verdicts: Sequence[tuple[Claim, Verdict]]) -> Section:
    heads = ["claim", "verdict", "paper", "here", "effect d", "departure"]
    rows = [
        [claim.text, f"{MARKS[one.word]} {one.word}", str(claim.paper), one.sentence, _effect(one), departure]
        for claim, one in verdicts
        for departure in [claim.departure_at(scale)]
    ]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    said = f"Claims of {recipe.name} at scale {scale}"
    return section("verdicts", "Verdicts", table(said, heads, rows, kind="verdicts") + f"<p>{escape(HOW)}</p>")


def _figures(recipe: Recipe, runs: Runs, file: Path) -> list[Section]:
    arms = {arm: [one for _, one in sorted(seeds.items())] for arm, seeds in runs.items() if seeds}
    drawings: dict[str, Draw] = {"Depth profile": arm_profiles, **recipe.figures}
    made = []
    for name, (title, draw) in zip(folders(list(drawings)), drawings.items(), strict=True):
        try:
            drawing = draw(arms, "light")
        except UnreadError:
            continue
        folder = file.with_name(f"{file.stem}_figures")
        folder.mkdir(parents=True, exist_ok=True)
        light = {kind: style.rendered(drawing, kind) for kind in ("svg", "png")}
        for kind, body in light.items():
            write_atomically(folder / f"{name.lower()}.{kind}", body)
        dark = style.rendered(draw(arms, "dark"))
        said = f"{title} of {', '.join(arms)}; the numbers are in the table below"
        made.append(section(name.lower(), title, picture(light["svg"], dark, said)))
    return made


def _numbers(recipe: Recipe, runs: Runs) -> Section | None:
    seeds = sorted({seed for one in runs.values() for seed in one})
    rows = []
    for name, quantity in recipe.quantities.items():
        for arm, one in runs.items():
            values = [_value(quantity, one.get(seed)) for seed in seeds]
            known = [value for value in values if math.isfinite(value)]
            mean = sum(known) / len(known) if known else math.nan
            if known:
                rows.append([name.replace("_", " "), arm, number(mean), *map(number, values)])
    if not rows:
        return None
    heads = ["quantity", "arm", "mean", *(f"seed {seed}" for seed in seeds)]
    return section("numbers", "Numbers", table("Every quantity by arm and seed", heads, rows))


def _value(quantity: Quantity, readings: Readings | None) -> float:
    try:
        return math.nan if readings is None else float(quantity(readings))
    except ReadingsError:
        return math.nan


def _departures(recipe: Recipe, scale: str) -> Section | None:
    told = [*recipe.departures, *recipe.scale(scale).departures]
    listed = "".join(f"<li>{escape(one)}</li>" for one in told)
    return section("departures", "Departures from the paper", f"<ul>{listed}</ul>") if told else None


def _conventions(runs: Runs) -> Section | None:
    first = {arm: seeds[min(seeds)] for arm, seeds in runs.items() if seeds}
    if not first:
        return None
    return section("conventions", "Conventions", hidden(conventions_table(first), "Of each arm's first seed"))


def _effect(verdict: Verdict) -> str:
    return "–" if math.isnan(verdict.effect) else number(round(verdict.effect, 2))
