"""Several runs of one network as one: curves averaged over seeds, and the tunnel of the average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from winze.measure import Tunnel, tunnel_of_runs
from winze.readings import Readings, ReadingsError, Row, facts

NOT_AVERAGED = ("correct/", "probe/", "embedding/")
Arms = Mapping[str, Sequence[Readings]]
"""The runs of several settings by name."""


def mean_readings(runs: Sequence[Readings]) -> Readings:
    """The mean of every row over runs; `low` and `high` are the extremes, `n` the number of runs.

    Rows that not all runs have are left out, as are arrays that have no mean, such as probes and embeddings.
    """
    if not runs:
        raise ReadingsError("there are no runs to average")
    by_key = [{_key(row): row for row in one.rows} for one in runs]
    mean = Readings(conventions=runs[0].conventions)
    for key, row in by_key[0].items():
        if all(key in other for other in by_key):
            values = np.array([other[key].value for other in by_key])
            mean.rows.append(
                replace(row, value=float(values.mean()), low=float(values.min()), high=float(values.max()), n=len(runs))
            )
    for name, array in runs[0].arrays.items():
        same = all(name in one.arrays and one.arrays[name].shape == array.shape for one in runs)
        if same and not name.startswith(NOT_AVERAGED) and np.issubdtype(array.dtype, np.floating):
            mean.arrays[name] = np.mean([one.arrays[name] for one in runs], axis=0)
    return mean


def means_of(arms: Arms) -> dict[str, Readings]:
    """Every arm that was run as the mean of its runs."""
    return {arm: mean_readings(runs) for arm, runs in arms.items() if runs}


def mean_tunnel(runs: Sequence[Readings], threshold: float = 0.95, resamples: int = 1000) -> Tunnel:
    """The tunnel of the mean probe curve; the reference is each network's own accuracy, or else its last probe.

    `low` and `high` come from resampling runs and, where all runs kept each sample's correctness, test samples.
    """
    if not all(facts.has(one, "probe") for one in runs):
        raise ReadingsError("a run has no probes, so nothing can be said about its tunnel")
    places = facts.places(runs[0])
    curves = [facts.column(one, "probe") for one in runs]
    if len({len(curve) for curve in curves}) > 1:
        raise ReadingsError("the runs were read at different numbers of places and cannot be averaged")
    own = [facts.whole(one, "accuracy") for one in runs]
    references = [known if np.isfinite(known) else float(curve[-1]) for known, curve in zip(own, curves, strict=True)]
    if not np.isfinite(references).all():
        raise ReadingsError("a run has neither an accuracy nor a probe at its last place")
    correct = [_correct(one, len(places), bool(np.isfinite(known))) for one, known in zip(runs, own, strict=True)]
    known = [one for one in correct if one is not None]
    fits = len(known) == len(runs) and len({one.shape for one in known}) == 1
    return tunnel_of_runs(
        places,
        np.stack(curves),
        np.array(references),
        threshold,
        np.stack(known) if fits else None,
        resamples,
    )


def layer_numbers(readings: Readings, counting: str | None = None) -> dict[int, int]:
    """The paper's layer number of every place, by its index, under one of the countings that the readings know.

    The convention `layers` maps a counting to a number for each place; the first is the one that is printed. Without
    it places are counted 1, 2, 3...
    """
    known = readings.conventions.layers or {}
    if counting is not None and counting not in known:
        raise ReadingsError(f"layers are not counted as {counting!r}; there is: {', '.join(known) or 'none'}")
    numbers = known[counting] if counting is not None else next(iter(known.values()), None)
    places = facts.places(readings)
    if numbers is None:
        return {place.index: place.index + 1 for place in places}
    if len(numbers) != len(places):
        raise ReadingsError(f"{len(numbers)} layer numbers for {len(places)} places")
    return {place.index: int(layer) for place, layer in zip(places, numbers, strict=True)}


def _key(row: Row) -> tuple[object, ...]:
    return row.step, row.data, row.split, row.place, row.index, row.total, row.measure


def _correct(readings: Readings, places: int, own: bool) -> facts.Array | None:
    """What each place's probe gets right, and below it the reference; None where that was not kept."""
    probes = readings.arrays.get(f"correct/{facts.home(readings)}")
    if probes is None or probes.ndim != 2 or len(probes) != places:
        return None
    reference = readings.arrays.get("correct/network") if own else probes[-1]
    if reference is None or reference.shape != probes.shape[1:]:
        return None
    return np.concatenate([probes, reference[None]]).astype(bool)
