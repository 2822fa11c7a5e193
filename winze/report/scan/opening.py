"""The first screen of a report: one sentence and four numbers, only what the readings hold."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import isfinite

from winze.readings import Readings, facts
from winze.readings.wording import number, percent, points
from winze.report.scan import tables
from winze.report.scan.summary import LEVEL, comparison, findings, starts


@dataclass(frozen=True)
class OpeningNumber:
    """One number of the first screen: what it is, the number, and what it is compared with."""

    title: str
    value: str
    note: str = ""


def lead(scans: dict[str, Readings], threshold: float) -> str:
    """The one sentence that a report opens with."""
    if len(scans) > 1:
        found = [*starts(scans, threshold), *comparison(scans, threshold)]
        return found[0] if found else f"{len(scans)} scans side by side."
    readings = next(iter(scans.values()))
    entrance = facts.entrance(readings, threshold)
    said = findings(readings, threshold)
    if entrance is None or entrance.tunnel.start is None:
        return said[0] if said else "These readings hold no probes, so no tunnel can be found."
    first, total = entrance.tunnel.start.index + 1, len(facts.places(readings))
    reached = percent(entrance.tunnel.accuracy)
    if first == total:
        return f"No tunnel: probe accuracy rises up to the last layer, {total}, which reaches {reached}."
    where = f"Layers 1-{first} of {total} already reach" if first > 1 else f"Layer 1 of {total} already reaches"
    rest = f"the remaining {total - first} layers form" if total - first > 1 else "the last layer forms"
    bests = (facts.best_for(readings, data) for data in facts.others(readings))
    lost = [best.gain for best in bests if best is not None and best.is_clear and best.gain >= LEVEL]
    costs = "s" if total - first == 1 else ""
    fall = f" and lose{costs} {points(max(lost))[1:]} points of OOD accuracy" if lost else ""
    return f"{where} {reached} probe accuracy; {rest} a tunnel{fall}."


def numbers(readings: Readings, threshold: float) -> list[OpeningNumber]:
    """Start of the tunnel, accuracy with and without it, OOD accuracy lost, and what a cut leaves."""
    found, places = facts.entrance(readings, threshold), facts.places(readings)
    start = None if found is None else found.tunnel.start
    made = []
    if found is not None and start is not None:
        last = start == places[-1]
        made.append(
            OpeningNumber("tunnel", "none" if last else f"after layer {start.index + 1}", f"of {len(places)} layers")
        )
        kept = f"{'probe at' if last else 'cut after'} layer {start.index + 1}: {percent(found.tunnel.accuracy)}"
        made.append(OpeningNumber("accuracy", percent(found.tunnel.reference), kept))
    elif found is not None:
        made.append(OpeningNumber("tunnel", "none", f"of {len(places)} layers"))
    for data in facts.others(readings)[:1]:
        best = facts.best_for(readings, data)
        if best is not None and isfinite(best.gain) and not best.refused:
            what = f"{percent(best.accuracy)} at layer {best.place.index + 1}, {percent(best.last)} at the last"
            gain = f"{points(best.gain).lstrip('+')} points" if best.is_clear else "none clearly"
            made.append(OpeningNumber("OOD accuracy lost", gain, what))
    if start is not None and start != places[-1]:
        left = {cost: _left(readings, cost, places.index(start)) for cost in ("flops", "parameters")}
        known = {cost: share for cost, share in left.items() if isfinite(share)}
        if "flops" in known:
            also = f"{100 * known['parameters']:.0f} % of the parameters" if "parameters" in known else ""
            made.append(OpeningNumber("FLOPs after the cut", f"{100 * known['flops']:.0f} %", also))
    rank = _rank(readings)
    return [*made, rank] if rank is not None and len(made) < 4 else made


def _left(readings: Readings, cost: str, spot: int) -> float:
    whole = facts.whole(readings, cost)
    return float(facts.column(readings, f"cut_{cost}")[spot]) / whole if whole > 0 else float("nan")


def opening(scans: dict[str, Readings], threshold: float) -> str:
    """The sentence and the numbers as HTML: tiles for one scan, a table for several."""
    said = f'<p class="lead">{tables.prose(lead(scans, threshold))}</p>'
    if len(scans) == 1:
        tiles = "".join(
            f"<div><dt>{escape(one.title)}</dt><dd><b>{escape(one.value)}</b><span>{escape(one.note)}</span></dd></div>"
            for one in numbers(next(iter(scans.values())), threshold)
        )
        return said + (f'<dl class="numbers">{tiles}</dl>' if tiles else "")
    heads = ["tunnel", "accuracy", "OOD accuracy lost", "FLOPs after the cut", "rank, last layer"]
    rows = [[head] for head in heads]
    for one in scans.values():
        known = {each.title: each for each in numbers(one, threshold)} | {heads[-1]: _rank(one)}
        for row in rows:
            found = known.get(row[0])
            row.append("-" if found is None else f"{found.value}\n{found.note}".strip())
    return said + tables.table("Numbers per scan", ["", *scans], rows, kind="opening")


def _rank(readings: Readings) -> OpeningNumber | None:
    if not facts.has(readings, "numerical_rank"):
        return None
    ranks = facts.column(readings, "numerical_rank")
    return OpeningNumber("rank, last layer", number(float(ranks[-1])), f"layer 1: {number(float(ranks[0]))}")
