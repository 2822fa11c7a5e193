"""The page of an experiment: claims with their cells, questions, failed runs, figures, numbers and departures."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from winze.atomic import write_atomically
from winze.lab.claims.claim import Claim, Judged, Question, RunReadings
from winze.lab.claims.quantities import QUANTITIES, Quantity, resolved
from winze.lab.claims.table import counted, failures, is_stand_in
from winze.lab.claims.verdict import CONTRADICTED, INCONCLUSIVE, MIXED, NOT_RUN, SUPPORTED, Verdict
from winze.lab.recipe import Recipe
from winze.readings import Readings, ReadingsError
from winze.readings.wording import number
from winze.report import style
from winze.report.experiment import UnreadError, profiles
from winze.report.experiment.static_page import Section, picture, section, write_static
from winze.report.scan.figure_files import folders
from winze.report.scan.tables import conventions_table, hidden, table

HOW = (
    "A cell is supported where the 95 % interval over seeds lies wholly on the claimed side, contradicted where it "
    "lies wholly on the other, and inconclusive otherwise and below three seeds. A claim is supported where no cell is "
    "contradicted and most are supported, mixed where cells disagree. Intervals are Student's t on differences paired "
    "by seed, d is their mean over their standard deviation; the start of a tunnel is that of the mean curve, with "
    "seeds and test samples drawn again."
)
MARKS = {SUPPORTED: "✓", CONTRADICTED: "✗", MIXED: "±", INCONCLUSIVE: "?", NOT_RUN: "–"}


def write_report(recipe: Recipe, scale: str, runs: RunReadings, file: str | os.PathLike[str]) -> Path:
    """Write the page of one scale from its readings by point and seed; figures are stored beside it as SVG and PNG."""
    judged = recipe.verdicts(scale, runs)
    seeds = [len(one) for one in runs.values() if one]
    many = f"{len(seeds)} points, {sum(seeds)} runs" if seeds else "no runs"
    paper = f'<a href="{escape(recipe.url)}">{escape(recipe.paper)}</a>' if recipe.url else escape(recipe.paper)
    claims, questions = ([one for one in judged if isinstance(one.statement, kind)] for kind in (Claim, Question))
    parts = [
        _statements("claims", "Claims", claims),
        _statements("questions", "Questions of our own", questions),
        _listed("failed", "Runs that failed to learn, which no verdict counts", failures(recipe, runs)),
        *_figures(recipe, runs, Path(file)),
        _numbers(recipe, runs),
        _listed("changed", "Settings changed by --set", [f"{name} = {one}" for name, one in recipe.changed.items()]),
        _listed("departures", "Departures from the paper", [*recipe.departures, *recipe.scale(scale).departures]),
        _conventions(runs),
    ]
    subtitle = f"{escape(recipe.shows)}<br>{paper}; {escape(recipe.system)}, scale {escape(scale)}: {escape(many)}"
    counts = "on digits, not counted" if is_stand_in(recipe, scale) else counted(judged)
    return write_static(
        file, ": ".join(filter(None, (recipe.name, counts))), subtitle, [part for part in parts if part is not None]
    )


def _statements(key: str, title: str, judged: Sequence[Judged]) -> Section | None:
    heads = ["statement", "verdict", "source", "paper", "here", "effect d", "departure", "post hoc"]
    rows = [row for one in judged for row in _rows(one)]
    used = [spot for spot in range(len(heads)) if spot < 2 or any(row[spot] for row in rows)]
    rows = [[row[spot] for spot in used] for row in rows]
    shown = table(title, [heads[spot] for spot in used], rows, kind="verdicts") + f"<p>{escape(HOW)}</p>"
    return section(key, title, shown) if rows else None


def _rows(judged: Judged) -> list[list[str]]:
    """The row of a statement, and under it one per cell; a single cell without a name shares its row."""
    said, names = judged.statement, judged.names
    head = [said.text, _marked(judged.word), said.source]
    tail = [said.departure, said.post_hoc]
    found = [[str(said.published(cell)), one.sentence, _effect(one)] for cell, one in judged.cells]
    if names == [""]:
        return [[*head, *found[0], *tail]]
    words = [_marked(one.word) for _, one in judged.cells]
    under = [[f"  {name}", word, "", *one, "", ""] for name, word, one in zip(names, words, found, strict=True)]
    return [[*head, "", f"{len(under)} cells", "", *tail], *under]


def _figures(recipe: Recipe, runs: RunReadings, file: Path) -> list[Section]:
    there = {point: [one for _, one in sorted(seeds.items())] for point, seeds in runs.items() if seeds}
    drawings = {one.title: one for one in (profiles(), *recipe.figures)}
    made = []
    for name, drawing in zip(folders(list(drawings)), drawings.values(), strict=True):
        try:
            light = drawing.draw(there, "light")
        except UnreadError:
            continue
        folder = file.with_name(f"{file.stem}_figures")
        folder.mkdir(parents=True, exist_ok=True)
        bodies = {kind: style.rendered(light, kind) for kind in ("svg", "png")}
        for kind, body in bodies.items():
            write_atomically(folder / f"{name.lower()}.{kind}", body)
        dark = style.rendered(drawing.draw(there, "dark"))
        said = f"{drawing.title}; the numbers are in the table below"
        made.append(section(name.lower(), drawing.title, picture(bodies["svg"], dark, said)))
    return made


def _numbers(recipe: Recipe, runs: RunReadings) -> Section | None:
    seeds = sorted({seed for one in runs.values() for seed in one})
    asked = [one.check.quantity for one in (*recipe.claims, *recipe.questions) if one.check.quantity is not None]
    numbers: dict[str, Quantity] = {**QUANTITIES, **recipe.quantities}
    numbers |= {name: quantity for quantity, name in (resolved(one, recipe.quantities) for one in asked)}
    numbers = {name.replace("_", " "): quantity for name, quantity in numbers.items()}  # the same number once
    rows = []
    for name, quantity in numbers.items():
        for point, one in runs.items():
            values = [_value(quantity, one.get(seed)) for seed in seeds]
            known = [value for value in values if math.isfinite(value)]
            if known:
                mean = number(sum(known) / len(known))
                rows.append([name, str(point), mean, *map(number, values)])
    heads = ["quantity", "point", "mean", *(f"seed {seed}" for seed in seeds)]
    return section("numbers", "Numbers", table("Every quantity by point and seed", heads, rows)) if rows else None


def _value(quantity: Quantity, readings: Readings | None) -> float:
    try:
        return math.nan if readings is None else float(quantity(readings))
    except ReadingsError:
        return math.nan


def _listed(key: str, title: str, lines: Sequence[str]) -> Section | None:
    items = "".join(f"<li>{escape(one)}</li>" for one in lines)
    return section(key, title, f"<ul>{items}</ul>") if lines else None


def _conventions(runs: RunReadings) -> Section | None:
    first = {str(point): seeds[min(seeds)] for point, seeds in runs.items() if seeds}
    if not first:
        return None
    return section("conventions", "Conventions", hidden(conventions_table(first), "Of the first seed of each point"))


def _marked(word: str) -> str:
    return f"{MARKS[word]} {word}"


def _effect(verdict: Verdict) -> str:
    return "" if math.isnan(verdict.effect) else number(round(verdict.effect, 2))
