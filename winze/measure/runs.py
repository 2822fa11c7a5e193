"""The tunnel of several runs: their curves are averaged first, then thresholded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from winze.depth import Place
from winze.measure.tunnel import Tunnel, tunnel_start

AT_ONCE = 100  # resamples in one matrix product


def tunnel_of_runs(
    places: Sequence[Place],
    curves: Float64[ndarray, "run place"],
    references: Float64[ndarray, " run"],
    threshold: float = 0.95,
    correct: Bool[ndarray, "run place_and_reference sample"] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Tunnel:
    """Find the tunnel of the mean curve, with an interval from resampled runs and, where known, test samples.

    `references` are the accuracies to be reached, one a run. `correct` tells what each place's probe gets right, and in
    its last row what the reference does; all runs share each draw of samples. With few runs the interval is narrow for
    its 95 %: it can only be made of the runs there are.
    """
    if len(curves) != len(references) or curves.shape[1:] != (len(places),) or not len(curves):
        shapes = f"{curves.shape} curves, {references.shape} references, {len(places)} places"
        raise ValueError(f"want a curve and a reference a run, got {shapes}")
    if correct is not None and (correct.shape[:2] != (len(curves), len(places) + 1) or not correct.shape[2]):
        raise ValueError(
            f"correctness of shape {correct.shape} does not fit {len(curves)} runs of {len(places)} places"
        )
    mean, reference = curves.mean(0), float(references.mean())
    first = _start(mean, reference, threshold)
    whole = np.concatenate([curves, references[:, None]], axis=1)
    starts = []
    if len(curves) == 1 and correct is None:  # every draw is this one run
        resamples = min(resamples, 1)
    for drawn in _drawn(whole, correct, resamples, seed):
        index = _start(drawn[:-1], float(drawn[-1]), threshold)
        starts.append(len(places) if index is None else index)
    starts = starts or [len(places)]
    low, high = (places[end] if end < len(places) else None for end in _ends(starts))
    if first is None:
        best = "" if np.isnan(mean).all() else f"; the best has {np.nanmax(mean):.4f}"
        reason = f"no place reaches {threshold:g} x {reference:.4f}{best}"
        return Tunnel(None, float("nan"), low, high, float("nan"), threshold, reference, reason)
    start = places[first]
    return Tunnel(start, (start.index + 1) / start.total, low, high, float(mean[first]), threshold, reference)


def _ends(starts: list[int]) -> list[int]:
    return [int(end) for end in np.quantile(starts, [0.025, 0.975], method="inverted_cdf")]


def _drawn(
    whole: Float64[ndarray, "run row"], correct: Bool[ndarray, "run row sample"] | None, resamples: int, seed: int
) -> Iterator[Float64[ndarray, " row"]]:
    """The mean over runs drawn with replacement, each over test samples drawn with replacement."""
    draw, runs = np.random.default_rng(seed), len(whole)
    if correct is None:
        for _ in range(resamples):
            yield whole[draw.integers(0, runs, runs)].mean(0)
        return
    n, right = correct.shape[2], correct.reshape(-1, correct.shape[2]).astype(np.float64)
    for start in range(0, resamples, AT_ONCE):
        counts = [np.bincount(draw.integers(0, n, n), minlength=n) for _ in range(min(AT_ONCE, resamples - start))]
        for one in (right @ np.array(counts, dtype=np.float64).T).T / n:
            yield one.reshape(whole.shape)[draw.integers(0, runs, runs)].mean(0)


def _start(curve: Float64[ndarray, " place"], reference: float, threshold: float) -> int | None:
    return None if np.isnan(curve).all() else tunnel_start(curve, reference, threshold)
