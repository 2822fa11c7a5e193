"""What a scan found, in plain sentences; a sentence whose numbers were not read is left out."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import numpy as np

from winze.measure import best_place
from winze.measure import task_accuracy as lost
from winze.measure.registry import number_named
from winze.place import Place
from winze.readings import Readings, facts
from winze.readings.wording import layer, number, percent, points, short, speed, speed_up

LEVEL = 0.0005  # half of the last printed digit: gains below it read as none


def summary(readings: Readings, threshold: float = 0.95) -> list[str]:
    """The findings, then the notes."""
    return [*findings(readings, threshold), *notes(readings)]


def notes(readings: Readings) -> list[str]:
    """What a scan noted about its data and its network, each once."""
    noted = readings.conventions.notes or []
    return list(dict.fromkeys(note for note in noted if isinstance(note, str) and note.strip()))


def findings(readings: Readings, threshold: float = 0.95) -> list[str]:
    """Say where the tunnel begins, which layer is best for OOD data, and what a cut saves.

    Of a sequence of tasks: what it did to the network.
    """
    if "accuracy_matrix" in readings.arrays:
        return sequence_findings(readings)
    found = facts.entrance(readings, threshold)
    sentences = _others(readings)
    if found is not None:
        sentences = [*_tunnel(readings, threshold, found), *sentences]
        start = found.tunnel.start
        if start is not None and start != facts.places(readings)[-1]:
            sentences += _cut(readings, found, start)
    return [*sentences, *(_joined(readings, measure) for measure in facts.joined(readings))]


def _tunnel(readings: Readings, threshold: float, found: facts.Entrance) -> list[str]:
    tunnel, total = found.tunnel, len(facts.places(readings))
    if found.reference.refused:
        return [f"No tunnel: {found.reference.refused}."]
    owner = _owner(found)
    said = [found.reference.note] if found.reference.note else []
    if tunnel.start is None:
        best = _best(readings, facts.column(readings, "probe"))
        return [
            *said,
            f"No tunnel: no layer reaches {percent(threshold)} of {owner}, {percent(tunnel.reference)}{best}.",
        ]
    first = tunnel.start.index + 1
    where = f"layers 1-{first}" if first > 1 else "layer 1"
    within = f" (95 % interval {_interval(tunnel.low, tunnel.high)})" if found.bounded else ""
    if first == total:
        rest = "no tunnel"
    else:
        rest = f"tunnel: {first + 1}-{total}" if first + 1 < total else f"tunnel: {total}"
    reached = (
        f"The probe at {layer(tunnel.start)}, reaches {percent(tunnel.accuracy)}; it is the first to reach "
        f"{percent(threshold)} of {owner}, {percent(tunnel.reference)}."
    )
    return [*said, f"Extractor: {where} of {total}{within}, {rest}.", reached]


def _joined(readings: Readings, measure: str) -> str:
    """A sentence about a measure that is not winze's own: its ends, and where it is best."""
    known, curve, spots = number_named(measure), facts.column(readings, measure), facts.places(readings)
    best = facts.extreme(readings, measure)
    which = f"best ({known.better} is better)" if known.better else "highest"
    value, read = number(float(curve[spots.index(best)])), np.flatnonzero(np.isfinite(curve))
    ends = " and ".join(
        f"{number(float(curve[i]))} at layer {spots[i].index + 1}" for i in dict.fromkeys(read[[0, -1]])
    )
    return f"{known.words[:1].upper()}{known.words[1:]}: {ends}; {which} at {layer(best)}, {value}."


def _owner(found: facts.Entrance) -> str:
    return "the network's own accuracy" if found.reference.own else "the last-layer probe"


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
        said, at = f"Best layer for `{data}`", f"{best.place.index + 1}, `{best.place.name}`"
        if best.refused:
            sentences.append(f"{said}: none, since {best.refused}.")
        elif [best.place] == last:
            sentences.append(f"{said}: the last, {at}.")
        elif not isfinite(best.gain):
            sentences.append(f"{said}: {at} ({percent(best.accuracy)}; the last layer was not read).")
        elif best.gain < LEVEL:
            sentences.append(f"{said}: {at} (no better than the last layer, but earlier).")
        elif not best.is_clear:
            spread = f"95 % interval {points(best.low)} to {points(best.high)} points"
            sentences.append(f"{said}: {at}, not clearly above the last layer ({spread}).")
        else:
            sentences.append(f"{said}: {at} ({points(best.gain)} points over the last layer).")
    return sentences


def _cut(readings: Readings, found: facts.Entrance, start: Place) -> list[str]:
    spot = facts.places(readings).index(start)
    seconds, parameters, flops = (
        float(facts.column(readings, f"cut_{cost}")[spot]) / facts.whole(readings, cost)
        if facts.whole(readings, cost) > 0
        else float("nan")
        for cost in ("seconds", "parameters", "flops")
    )
    timed = [row for row in readings.select(measure="cut_speed_up").rows if row.index == start.index]
    costs = [speed(seconds)] if isfinite(seconds) and seconds > 0 else []
    costs = [speed_up(row.value, row.low, row.high) for row in timed] or costs  # older scans have no interval
    costs += [f"{100 * parameters:.0f} % of the parameters"] if isfinite(parameters) else []
    costs += [f"{100 * flops:.0f} % of the FLOPs"] if isfinite(flops) else []
    return [f"Cut after layer {start.index + 1}: {', '.join([kept(found), *costs])}."] if costs else []


def kept(found: facts.Entrance) -> str:
    """What a cut at the start of the tunnel leaves of the accuracy; what it adds is reported as a gain."""
    tunnel = found.tunnel
    if not found.reference.own:
        return f"{percent(tunnel.accuracy)} accuracy"
    gain = tunnel.accuracy - tunnel.reference
    if gain >= LEVEL:
        return f"{percent(tunnel.accuracy)} accuracy, {points(gain)} points over the network's own"
    return f"{percent(min(1.0, tunnel.accuracy / tunnel.reference))} of the accuracy"


def comparison(scans: dict[str, Readings], threshold: float = 0.95) -> list[str]:
    """How the scans differ: the last layer, the start of the tunnel, the best layer for OOD data."""
    if len(scans) < 2:
        return []
    return [*_last(scans), *starts(scans, threshold), *_bests(scans)]


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


def starts(scans: dict[str, Readings], threshold: float) -> list[str]:
    """Where the tunnel of each scan starts, and why one has none."""
    parts = []
    for name, one in scans.items():
        found = facts.entrance(one, threshold)
        if found is None:
            continue
        total = len(facts.places(one))
        if found.reference.refused:
            continue
        if found.tunnel.start is None:
            parts.append(f"nowhere in `{name}`")
        elif found.tunnel.start.index + 1 == total:
            parts.append(f"not before the last layer, {total}, in `{name}`")
        else:
            parts.append(f"after layer {found.tunnel.start.index + 1} of {total} in `{name}`")
    refused = [f"No tunnel in `{name}`: {why}." for name, why in _refused(scans, threshold).items()]
    return [f"The tunnel starts {_join(parts)}.", *refused] if len(parts) > 1 else refused


def _refused(scans: dict[str, Readings], threshold: float) -> dict[str, str]:
    found = {name: facts.entrance(one, threshold) for name, one in scans.items()}
    return {name: each.reference.refused for name, each in found.items() if each and each.reference.refused}


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


def after_each_task(readings: Readings, measure: str) -> facts.Array:
    """A measure [after task, place] on the first task's data."""
    name = readings.conventions["tasks"][0]
    count = len(readings.arrays["accuracy_matrix"])
    return np.stack([readings.curve(measure, name, step=after) for after in range(1, count + 1)])


def sequence_findings(readings: Readings) -> list[str]:
    """What a sequence of tasks did to the network: accuracy, forgetting, transfer, and which layers drifted."""
    matrix, start = readings.arrays["accuracy_matrix"], readings.arrays["accuracy_before"]
    gone = lost.forgetting(matrix)[:-1]
    worst = int(gone.argmax())
    said = [
        f"After the last task the network reaches {percent(float(matrix[-1].mean()))} on average over all tasks.",
        f"Of the tasks before the last it forgets {100 * gone.mean():.1f} points on average, most of task {worst + 1} "
        f"({100 * gone[worst]:.1f} points)."
        if gone[worst] > 0
        else f"It forgets nothing: no task lost accuracy, and the mean gain is {-100 * gone.mean():.1f} points.",
        f"Backward transfer {100 * lost.backward_transfer(matrix):+.1f} points, forward transfer "
        f"{100 * lost.forward_transfer(matrix, start):+.1f} points.",
    ]
    if any(row.measure == "cka_drift" for row in readings.rows):
        drift = after_each_task(readings, "cka_drift")[-1]
        names, read = readings.conventions["places"], np.flatnonzero(np.isfinite(drift))

        def of(spot: int) -> str:
            return f"layer {spot + 1} ({short(names[spot], 40)})"

        if len(read) > 1:
            most, least = (int(read[pick(drift[read])]) for pick in (np.argmax, np.argmin))
            said.append(
                f"At the end {of(most)} has drifted most from task 1 (1 - CKA: {drift[most]:.2f}), {of(least)} least "
                f"({drift[least]:.2f})."
            )
        unread = [of(spot) for spot in range(len(drift)) if spot not in read]
        if unread:
            said.append(f"Features of {', '.join(unread)} are constant at the end: their drift cannot be read.")
    return said
