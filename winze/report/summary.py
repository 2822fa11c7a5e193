"""What a scan found, in plain sentences; a sentence whose numbers were not read is left out."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import numpy as np

from winze.depth import Place
from winze.measure import Tunnel, best_place
from winze.readings import Readings
from winze.report import facts
from winze.report.names import layer, number, percent, points, speed

LEVEL = 0.0005  # half of the last printed digit: gains below it read as none
FAR = 0.3  # above the network's accuracy a last probe says that its outputs mean something else


def summary(readings: Readings, threshold: float = 0.95) -> list[str]:
    """Say where the tunnel begins, which layer serves other data, what to hold for new tasks, what a cut saves."""
    found = facts.entrance(readings, threshold)
    sentences = _others(readings)
    if found is not None:
        sentences = [*_tunnel(readings, threshold, found), *sentences]
        start = found.tunnel.start
        if start is not None and start != facts.places(readings)[-1]:
            sentences += [_held(start), *_cut(readings, found.tunnel, start)]
    notes = readings.conventions.get("notes") or []
    return sentences + [str(note) for note in notes if isinstance(note, str) and note.strip()]


def _tunnel(readings: Readings, threshold: float, found: facts.Entrance) -> list[str]:
    tunnel, total = found.tunnel, len(facts.places(readings))
    row = facts.whole_row(readings, "accuracy")
    owner = "the network's own accuracy" if row is not None and isfinite(row.value) else "the last layer's probe"
    said = []
    if row is not None and not isfinite(row.value):
        why = f" ({row.note})" if row.note else ""
        said = [f"The network's own accuracy could not be read{why}; the last layer's probe stands in for it."]
    curve = facts.column(readings, "probe")
    if _has_other_outputs(readings):
        said = [
            f"Its last layer's probe has {percent(float(curve[-1]))}: if the network has learnt this data, its outputs "
            "mean other labels, and nothing here is to be compared with its own accuracy."
        ]
    if tunnel.start is None:
        best = "" if not facts.has(readings, "probe") else _best(readings, curve)
        return [
            f"No tunnel: no layer reaches {percent(threshold)} of {owner}, {percent(tunnel.reference)}{best}.",
            *said,
        ]
    first = tunnel.start.index + 1
    where = f"layers 1-{first}" if first > 1 else "layer 1"
    within = f" (95 % interval {_interval(tunnel.low, tunnel.high)})" if found.bounded else ""
    if first == total:
        rest = "no tunnel"
    else:
        rest = f"tunnel: {first + 1}-{total}" if first + 1 < total else f"tunnel: {total}"
    reached = (
        f"The probe at {layer(tunnel.start)}, has {percent(tunnel.accuracy)}; it is the first to reach "
        f"{percent(threshold)} of {owner}, {percent(tunnel.reference)}."
    )
    return [f"Extractor: {where} of {total}{within}, {rest}.", reached, *said]


def _has_other_outputs(readings: Readings) -> bool:
    """Whether the last probe knows far more than the network itself tells."""
    row = facts.whole_row(readings, "accuracy")
    return row is not None and bool(facts.column(readings, "probe")[-1] > row.value + FAR)


def _best(readings: Readings, curve: facts.Array) -> str:
    place = best_place(facts.places(readings), curve)
    return f"; the best, {layer(place)}, has {percent(float(np.nanmax(curve)))}"


def _interval(low: Place | None, high: Place | None) -> str:
    if low is None:
        return "beyond the last layer"
    if high is None:
        return f"{low.index + 1} to beyond the last layer"
    return f"{low.index + 1}-{high.index + 1}"


def _others(readings: Readings) -> list[str]:
    sentences = []
    last = facts.places(readings)[-1:]
    for data in facts.others(readings):
        best = facts.best_for(readings, data)
        if best is None:
            continue
        at = f"layer {best.place.index + 1}, `{best.place.name}`"
        if [best.place] == last:
            sentences.append(f"For `{data}` take the last layer, {best.place.index + 1}, `{best.place.name}`.")
        elif not isfinite(best.gain):
            sentences.append(f"For `{data}` take {at} ({percent(best.accuracy)}; the last layer was not read).")
        elif best.gain < LEVEL:
            sentences.append(f"For `{data}` take {at} (no better than the last layer, but earlier).")
        else:
            sentences.append(f"For `{data}` take {at} ({points(best.gain)} points over the last layer).")
    return sentences


def _held(start: Place) -> str:
    layers = f"layers 1-{start.index + 1}" if start.index else "layer 1"
    return (
        f"To learn further tasks, freeze or regularise {layers} and leave the tunnel free "
        "(`winze.extractor` names the weights)."
    )


def _cut(readings: Readings, tunnel: Tunnel, start: Place) -> list[str]:
    spot = facts.places(readings).index(start)
    seconds, parameters, flops = (
        float(facts.column(readings, f"cut_{cost}")[spot]) / facts.whole(readings, cost)
        if facts.whole(readings, cost) > 0
        else float("nan")
        for cost in ("seconds", "parameters", "flops")
    )
    parts = [f"{percent(tunnel.accuracy / tunnel.reference)} of the accuracy"] if tunnel.reference > 0 else []
    if _has_other_outputs(readings):
        parts = [f"{percent(tunnel.accuracy)} right"]
    costs = [speed(seconds)] if isfinite(seconds) and seconds > 0 else []
    costs += [f"{100 * parameters:.0f} % of the parameters"] if isfinite(parameters) else []
    costs += [f"{100 * flops:.0f} % of the FLOPs"] if isfinite(flops) else []
    return [f"Cut after layer {start.index + 1}: {', '.join(parts + costs)}."] if parts and costs else []


def comparison(scans: dict[str, Readings], threshold: float = 0.95) -> list[str]:
    """Say in which the scans differ: the last layer, the start of the tunnel, the best layer for other data."""
    if len(scans) < 2:
        return []
    return [*_last(scans), *_starts(scans, threshold), *_bests(scans)]


def _last(scans: dict[str, Readings]) -> list[str]:
    ranks = {name: facts.column(one, "numerical_rank")[-1:] for name, one in scans.items()}
    known = {name: float(rank[0]) for name, rank in ranks.items() if len(rank) and isfinite(rank[0])}
    if len(known) < 2:
        return []
    said = _join((f"{number(rank)} in `{name}`" for name, rank in known.items()), "against")
    levels = []
    for name in known:
        probe = facts.column(scans[name], "probe")[-1:]
        own = facts.whole(scans[name], "accuracy")
        levels.append(own if isfinite(own) else float(probe[0]) if len(probe) else float("nan"))
    at = ""
    if all(isfinite(level) for level in levels):
        at = f", at accuracies of {_join(percent(level) for level in levels)}"
    return [f"At the last layer the numerical rank is {said}{at}."]


def _starts(scans: dict[str, Readings], threshold: float) -> list[str]:
    parts = []
    for name, one in scans.items():
        found = facts.entrance(one, threshold)
        if found is None:
            continue
        total = len(facts.places(one))
        if found.tunnel.start is None:
            parts.append(f"nowhere in `{name}`")
        elif found.tunnel.start.index + 1 == total:
            parts.append(f"not before the last layer, {total}, in `{name}`")
        else:
            parts.append(f"after layer {found.tunnel.start.index + 1} of {total} in `{name}`")
    return [f"The tunnel begins {_join(parts)}."] if len(parts) > 1 else []


def _bests(scans: dict[str, Readings]) -> list[str]:
    sentences = []
    for data in dict.fromkeys(data for one in scans.values() for data in facts.others(one)):
        found = {name: facts.best_for(one, data) for name, one in scans.items()}
        parts = [
            f"{percent(best.accuracy)} in `{name}` (layer {best.place.index + 1})"
            for name, best in found.items()
            if best is not None
        ]
        if len(parts) > 1:
            sentences.append(f"The best features for `{data}` reach {_join(parts)}.")
    return sentences


def _join(parts: Iterable[str], word: str = "and") -> str:
    texts = list(parts)
    return f" {word} ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} and {texts[-1]}"
