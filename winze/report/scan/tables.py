"""Tables and words of the page: what a figure shows, for reading and for screen readers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isnan
from typing import Any

import numpy as np

from winze.readings import COLUMNS, Readings, facts
from winze.readings.wording import label, number, percent
from winze.report.scan.embedding_plot import chosen

MOST_ROWS = 3000


def prose(sentence: str) -> str:
    """A sentence as HTML: escaped, names in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(sentence))


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], first_is_head: bool = True, kind: str = ""
) -> str:
    """A table in a region that scrolls by itself, so that the page never does sideways.

    What follows a line break in a cell is a remark. Of `verdicts` every cell names its column, and a row whose first
    cell is indented belongs to the row above.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = []
    for row in rows:
        names = [f' data-head="{escape(text)}"' if kind == "verdicts" else "" for text in heads]
        cells = [f"<td{name}>{_with_remark(cell)}</td>" for name, cell in zip(names, row, strict=True)]
        if first_is_head and cells:
            cells[0] = f'<th scope="row">{escape(row[0])}</th>'
        under = ' class="under"' if row and row[0].startswith("  ") else ""
        body.append(f"<tr{under}>{''.join(cells)}</tr>")
    said = escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{said}"><table class="{kind}">'
        f"<caption>{said}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _with_remark(cell: str) -> str:
    value, _, remark = cell.partition("\n")
    return f"{escape(value)}<span>{escape(remark)}</span>" if remark else escape(value)


def hidden(inner: str, title: str = "Values as a table") -> str:
    """A table to open on demand."""
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def by_place(readings: Readings, measures: Sequence[str], sets: Sequence[str], caption: str) -> str:
    """One row per place: some measures of the home data, then the probes of OOD data."""
    home = facts.home(readings)
    heads = ["layer", "place", *(f"probe, {home}" if each == "probe" else label(each) for each in measures)]
    columns = [facts.column(readings, measure) for measure in measures]
    columns += [facts.column(readings, "probe", data) for data in sets]
    rows = [
        [str(place.index + 1), place.name, *(number(float(column[spot])) for column in columns)]
        for spot, place in enumerate(facts.places(readings))
    ]
    return table(caption, heads + [f"probe, {data}" for data in sets], rows)


def cka_table(readings: Readings, caption: str) -> str:
    """The CKA map as numbers."""
    cka = readings.arrays["cka"]
    heads = ["layer", *(str(spot + 1) for spot in range(len(cka)))]
    return table(caption, heads, [[str(i + 1), *(f"{v:.2f}" for v in row)] for i, row in enumerate(cka)])


def spectra_table(readings: Readings, caption: str) -> str:
    """Each spectrum in three numbers."""
    rows = []
    for index, values in facts.spectra(readings).items():
        shares = np.cumsum(values) / values.sum()
        most = int(np.searchsorted(shares, 0.9) + 1)
        rows.append([str(index + 1), number(float(values[0])), percent(float(shares[0])), str(most)])
    return table(caption, ["layer", "largest eigenvalue", "its share of the variance", "number that hold 90 %"], rows)


def embedding_table(readings: Readings, caption: str) -> str:
    """How far apart the classes lie in each embedding."""
    labels = readings.arrays.get("embedding/labels")
    rows = []
    for index in chosen(readings, 10**6):
        points = readings.arrays[f"embedding/{index}"].astype(float)
        share = float("nan")
        if labels is not None and len(labels) == len(points) and points.var(0).sum() > 0:
            within = sum(points[labels == one].var(0).sum() * (labels == one).mean() for one in np.unique(labels))
            share = 1 - float(within / points.var(0).sum())
        rows.append([str(index + 1), str(len(points)), "–" if isnan(share) else percent(share)])
    return table(caption, ["layer", "samples", "share of the variance between classes"], rows)


def training_table(readings: Readings, measure: str, caption: str) -> str:
    """A measure at the first and the last step."""
    when, values = facts.over_steps(readings, measure)
    places = facts.places(readings)
    heads = ["layer", "place", f"step {when[0]}", f"step {when[-1]}"]
    ends = [[number(float(row[0])), number(float(row[-1]))] for row in values]
    return table(caption, heads, [[str(p.index + 1), p.name, *e] for p, e in zip(places, ends, strict=True)])


def transfer_table(readings: Readings, caption: str) -> str:
    """The best place for each OOD set, with kappa and rho; empty where there are no such sets."""
    found = {data: facts.best_for(readings, data) for data in facts.others(readings)}
    rows = [
        [
            data,
            f"{b.place.index + 1}, {b.place.name}",
            percent(b.accuracy),
            number(100 * b.gain),
            f"{b.kappa:.3g}",
            f"{b.rho:.3g}",
        ]
        for data, b in found.items()
        if b is not None
    ]
    heads = ["data", "best layer", "accuracy there", "points over the last layer", "kappa", "rho"]
    return table(caption, heads, rows) if rows else ""


def conventions_table(scans: Mapping[str, Readings]) -> str:
    """The conventions the numbers rest on, one column per scan; those that say nothing are left out."""
    keys = dict.fromkeys(key for one in scans.values() for key in one.conventions if key != "layouts")
    rows = [[key, *(_words(one.conventions.get(key)) for one in scans.values())] for key in keys]
    rows = [row for row in rows if any(word.strip(" ,") for word in row[1:])]
    heads = ["convention", *scans] if len(scans) > 1 else ["convention", "value"]
    return table("What the numbers rest on", heads, rows, kind="words")


def data_table(scans: Mapping[str, Readings]) -> str:
    """The rows themselves, as many as a page can hold."""
    several = len(scans) > 1
    pairs = [(name, row) for name, one in scans.items() for row in one.rows]
    rows = [
        [*([name] if several else []), *(_cell(getattr(row, column)) for column in COLUMNS)]
        for name, row in pairs[:MOST_ROWS]
    ]
    caption = f"All {len(pairs)} readings"
    if len(pairs) > MOST_ROWS:
        caption = f"The first {MOST_ROWS} of {len(pairs)} readings; the CSV has all"
    return table(caption, [*(["scan"] if several else []), *COLUMNS], rows, first_is_head=False, kind="sortable")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.6g}"
    return str(value)


def _words(value: Any) -> str:
    """A JSON value as a reader would write it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(inner)}" for key, inner in value.items()) or "–"
    if isinstance(value, list):
        return ", ".join(_words(inner) for inner in value) or "–"
    return number(value) if isinstance(value, float) else str(value)
