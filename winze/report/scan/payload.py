"""The numbers that the page's charts draw, as plain JSON values: what was not read is null."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from winze.readings import Readings, facts
from winze.readings.wording import label
from winze.report import style
from winze.report.scan.cut_plot import COSTS
from winze.report.scan.embedding_plot import chosen, class_names

POINTS = 160  # of a spectrum, evenly apart on a logarithmic axis
SAMPLES = 2000  # of an embedding


def payload(scans: dict[str, Readings], threshold: float) -> dict[str, Any]:
    """Everything that the charts need; the rows themselves are in the table and in the CSV."""
    known = dict.fromkeys(measure for one in scans.values() for measure in _measures(one))
    return {
        "threshold": threshold,
        "scans": [_scan(name, one, threshold) for name, one in scans.items()],
        "labels": {measure: label(measure) for measure in ("probe", *known)},
        "costs": {cost: {"scale": scale, "label": said} for cost, (scale, said) in COSTS.items()},
        "themes": {name: _theme(theme) for name, theme in style.THEMES.items()},
        "csv": csv(scans),
    }


def csv(scans: dict[str, Readings]) -> str:
    """All rows as CSV; of several scans, the first column says which."""
    import pandas

    tables = {_harmless(name): one.table.map(_harmless) for name, one in scans.items()}
    if len(tables) == 1:
        return str(next(iter(tables.values())).to_csv(index=False, lineterminator="\n"))
    for name, table in tables.items():
        table.insert(0, "scan", name)
    return str(pandas.concat(tables.values()).to_csv(index=False, lineterminator="\n"))


def _harmless(cell: Any) -> Any:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def plain(values: Any) -> Any:
    """Numbers with six digits, NaN and infinity as null, arrays as lists."""
    if isinstance(values, np.ndarray | list | tuple):
        return [plain(value) for value in values]
    value = float(values)
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _scan(name: str, readings: Readings, threshold: float) -> dict[str, Any]:
    places, home = facts.places(readings), facts.home(readings)
    curves = {measure: {home: _curve(readings, measure, None)} for measure in _measures(readings)}
    for data in facts.others(readings):
        curves.setdefault("probe", {})[data] = _curve(readings, "probe", data)
    cka = readings.arrays.get("cka")
    return {
        "name": name,
        "home": home,
        "others": facts.others(readings),
        "numbers": [place.index + 1 for place in places],
        "places": [place.name for place in places],
        "total": places[-1].total if places else 0,
        "curves": curves,
        "variances": {measure: {"value": plain(facts.a_feature(readings, measure))} for measure in facts.VARIANCES},
        "whole": {key: plain(facts.whole(readings, key)) for key in ("accuracy", *COSTS)},
        "tunnel": _tunnel(readings, threshold),
        "cka": None if cka is None or not cka.size else plain(cka),
        "spectra": [_thin(index, values) for index, values in facts.spectra(readings).items()],
        "embedding": _embedding(readings),
        "training": _training(readings),
    }


def _measures(readings: Readings) -> list[str]:
    return facts.measures(readings)


def _curve(readings: Readings, measure: str, data: str | None) -> dict[str, Any]:
    sides = ("value", "low", "high")
    found = {side: facts.column(readings, measure, data, side) for side in sides}
    return {side: plain(values) for side, values in found.items() if side == "value" or np.isfinite(values).any()}


def _tunnel(readings: Readings, threshold: float) -> dict[str, Any] | None:
    found = facts.entrance(readings, threshold)
    if found is None or found.reference.refused:
        return None
    tunnel = found.tunnel
    start, low, high = (None if end is None else end.index + 1 for end in (tunnel.start, tunnel.low, tunnel.high))
    bounds = [low, high] if found.bounded and low is not None else None
    return {"start": start, "bounds": bounds, "level": plain(threshold * tunnel.reference)}


def _thin(index: int, values: facts.Array) -> dict[str, Any]:
    ranks = np.unique(np.geomspace(1, len(values), min(POINTS, len(values))).round().astype(int))
    return {"number": index + 1, "rank": ranks.tolist(), "share": plain(values[ranks - 1] / values[0])}


def _embedding(readings: Readings) -> dict[str, Any] | None:
    found = dict(facts.indexed(readings, "embedding"))
    if not found:
        return None
    labels = readings.arrays.get("embedding/labels")
    size = len(next(iter(found.values())))
    rows = np.unique(np.linspace(0, size - 1, min(size, SAMPLES)).round().astype(int))
    return {
        "classes": class_names(readings),
        "labels": None if labels is None or len(labels) != size else labels[rows].astype(int).tolist(),
        "chosen": [index + 1 for index in chosen(readings)],
        "points": {str(index + 1): plain(points[rows].T) for index, points in found.items()},
    }


def _training(readings: Readings) -> dict[str, Any]:
    if not facts.steps(readings):
        return {}
    found = {measure: facts.over_steps(readings, measure) for measure in _measures(readings)}
    return {measure: {"steps": when, "values": plain(values)} for measure, (when, values) in found.items() if when}


def _theme(theme: style.Theme) -> dict[str, Any]:
    return asdict(theme) | {
        "scans": theme.scans,
        "ramp": theme.ramp_colours(64),
        "map": theme.ramp_colours(11, whole=True),
    }
